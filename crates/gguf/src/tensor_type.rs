//! Every tensor type that GGML has or had, by id, name and block size.

macro_rules! tensor_types {
    ($($name:ident = $id:literal, $block_elems:literal, $block_bytes:literal;)*) => {
        /// How the elements of a tensor are stored. A row is a whole number of blocks.
        #[derive(Clone, Copy, Debug, PartialEq, Eq, Hash, PartialOrd, Ord)]
        #[allow(non_camel_case_types, missing_docs, reason = "the names that GGML gives its types")]
        #[repr(u32)]
        pub enum TensorType {
            $($name = $id,)*
        }

        impl TensorType {
            const ALL: &[TensorType] = &[$(TensorType::$name),*];

            /// The type with this id in a file.
            pub const fn from_id(id: u32) -> Option<TensorType> {
                match id {
                    $($id => Some(TensorType::$name),)*
                    _ => None,
                }
            }

            /// The name that GGUF tools use: `Q4_K`.
            pub const fn name(self) -> &'static str {
                match self { $(TensorType::$name => stringify!($name),)* }
            }

            /// Elements per block.
            pub const fn block_elems(self) -> usize {
                match self { $(TensorType::$name => $block_elems,)* }
            }

            /// Bytes per block.
            pub const fn block_bytes(self) -> usize {
                match self { $(TensorType::$name => $block_bytes,)* }
            }
        }
    };
}

// name = id in a file, elements per block, bytes per block
tensor_types! {
    F32 = 0, 1, 4;
    F16 = 1, 1, 2;
    Q4_0 = 2, 32, 18;
    Q4_1 = 3, 32, 20;
    Q5_0 = 6, 32, 22;
    Q5_1 = 7, 32, 24;
    Q8_0 = 8, 32, 34;
    Q8_1 = 9, 32, 36;
    Q2_K = 10, 256, 84;
    Q3_K = 11, 256, 110;
    Q4_K = 12, 256, 144;
    Q5_K = 13, 256, 176;
    Q6_K = 14, 256, 210;
    Q8_K = 15, 256, 292;
    IQ2_XXS = 16, 256, 66;
    IQ2_XS = 17, 256, 74;
    IQ3_XXS = 18, 256, 98;
    IQ1_S = 19, 256, 50;
    IQ4_NL = 20, 32, 18;
    IQ3_S = 21, 256, 110;
    IQ2_S = 22, 256, 82;
    IQ4_XS = 23, 256, 136;
    I8 = 24, 1, 1;
    I16 = 25, 1, 2;
    I32 = 26, 1, 4;
    I64 = 27, 1, 8;
    F64 = 28, 1, 8;
    IQ1_M = 29, 256, 56;
    BF16 = 30, 1, 2;
    TQ1_0 = 34, 256, 54;
    TQ2_0 = 35, 256, 66;
    MXFP4 = 39, 32, 17;
    NVFP4 = 40, 64, 36;
    Q1_0 = 41, 128, 18;
    Q2_0 = 42, 64, 18;
}

/// Ids that files may still carry, of types that GGML dropped.
const REMOVED: &[(u32, &str)] = &[
    (4, "Q4_2"),
    (5, "Q4_3"),
    (31, "Q4_0_4_4"),
    (32, "Q4_0_4_8"),
    (33, "Q4_0_8_8"),
    (36, "IQ4_NL_4_4"),
    (37, "IQ4_NL_4_8"),
    (38, "IQ4_NL_8_8"),
];

impl TensorType {
    /// Every type, in the order of ids.
    pub fn all() -> impl ExactSizeIterator<Item = TensorType> {
        TensorType::ALL.iter().copied()
    }

    /// The former name of an id whose type was removed from GGML.
    pub fn removed_name(id: u32) -> Option<&'static str> {
        REMOVED.iter().find(|row| row.0 == id).map(|row| row.1)
    }

    /// The type with this name, case-insensitive.
    pub fn from_name(name: &str) -> Option<TensorType> {
        TensorType::all().find(|t| t.name().eq_ignore_ascii_case(name))
    }

    /// Bytes of a row of `n_elems`, or `None` if that is not a whole number of blocks or overflows.
    pub fn row_bytes(self, n_elems: usize) -> Option<usize> {
        if !n_elems.is_multiple_of(self.block_elems()) {
            return None;
        }
        (n_elems / self.block_elems()).checked_mul(self.block_bytes())
    }
}

impl std::fmt::Display for TensorType {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.write_str(self.name())
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn ids_are_ascending_and_lead_back() {
        assert!(TensorType::ALL.is_sorted_by(|a, b| a < b));
        for t in TensorType::all() {
            assert_eq!(TensorType::from_id(t as u32), Some(t));
            assert_eq!(TensorType::from_name(&t.name().to_lowercase()), Some(t));
            assert_eq!(TensorType::removed_name(t as u32), None);
        }
    }

    #[test]
    fn every_id_below_the_last_is_a_type_or_a_removed_one() {
        let known = |id| TensorType::from_id(id).is_some() || TensorType::removed_name(id).is_some();
        assert!((0..=42).all(known));
        assert!(!known(43));
    }
}
