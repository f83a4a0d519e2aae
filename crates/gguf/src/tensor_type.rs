//! Every tensor type that GGML has or had, by id, name and block size.

/// How the elements of a tensor are stored. A row is a whole number of blocks.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash, PartialOrd, Ord)]
#[allow(non_camel_case_types, missing_docs)]
#[repr(u32)]
pub enum TensorType {
    F32 = 0,
    F16 = 1,
    Q4_0 = 2,
    Q4_1 = 3,
    Q5_0 = 6,
    Q5_1 = 7,
    Q8_0 = 8,
    Q8_1 = 9,
    Q2_K = 10,
    Q3_K = 11,
    Q4_K = 12,
    Q5_K = 13,
    Q6_K = 14,
    Q8_K = 15,
    IQ2_XXS = 16,
    IQ2_XS = 17,
    IQ3_XXS = 18,
    IQ1_S = 19,
    IQ4_NL = 20,
    IQ3_S = 21,
    IQ2_S = 22,
    IQ4_XS = 23,
    I8 = 24,
    I16 = 25,
    I32 = 26,
    I64 = 27,
    F64 = 28,
    IQ1_M = 29,
    BF16 = 30,
    TQ1_0 = 34,
    TQ2_0 = 35,
    MXFP4 = 39,
    NVFP4 = 40,
    Q1_0 = 41,
    Q2_0 = 42,
}

/// id, name, elements per block, bytes per block.
const TABLE: &[(TensorType, &str, usize, usize)] = &[
    (TensorType::F32, "F32", 1, 4),
    (TensorType::F16, "F16", 1, 2),
    (TensorType::Q4_0, "Q4_0", 32, 18),
    (TensorType::Q4_1, "Q4_1", 32, 20),
    (TensorType::Q5_0, "Q5_0", 32, 22),
    (TensorType::Q5_1, "Q5_1", 32, 24),
    (TensorType::Q8_0, "Q8_0", 32, 34),
    (TensorType::Q8_1, "Q8_1", 32, 36),
    (TensorType::Q2_K, "Q2_K", 256, 84),
    (TensorType::Q3_K, "Q3_K", 256, 110),
    (TensorType::Q4_K, "Q4_K", 256, 144),
    (TensorType::Q5_K, "Q5_K", 256, 176),
    (TensorType::Q6_K, "Q6_K", 256, 210),
    (TensorType::Q8_K, "Q8_K", 256, 292),
    (TensorType::IQ2_XXS, "IQ2_XXS", 256, 66),
    (TensorType::IQ2_XS, "IQ2_XS", 256, 74),
    (TensorType::IQ3_XXS, "IQ3_XXS", 256, 98),
    (TensorType::IQ1_S, "IQ1_S", 256, 50),
    (TensorType::IQ4_NL, "IQ4_NL", 32, 18),
    (TensorType::IQ3_S, "IQ3_S", 256, 110),
    (TensorType::IQ2_S, "IQ2_S", 256, 82),
    (TensorType::IQ4_XS, "IQ4_XS", 256, 136),
    (TensorType::I8, "I8", 1, 1),
    (TensorType::I16, "I16", 1, 2),
    (TensorType::I32, "I32", 1, 4),
    (TensorType::I64, "I64", 1, 8),
    (TensorType::F64, "F64", 1, 8),
    (TensorType::IQ1_M, "IQ1_M", 256, 56),
    (TensorType::BF16, "BF16", 1, 2),
    (TensorType::TQ1_0, "TQ1_0", 256, 54),
    (TensorType::TQ2_0, "TQ2_0", 256, 66),
    (TensorType::MXFP4, "MXFP4", 32, 17),
    (TensorType::NVFP4, "NVFP4", 64, 36),
    (TensorType::Q1_0, "Q1_0", 128, 18),
    (TensorType::Q2_0, "Q2_0", 64, 18),
];

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
        TABLE.iter().map(|row| row.0)
    }

    /// The type with this id in a file.
    pub fn from_id(id: u32) -> Option<TensorType> {
        TABLE.iter().map(|row| row.0).find(|t| *t as u32 == id)
    }

    /// The former name of an id whose type was removed from GGML.
    pub fn removed_name(id: u32) -> Option<&'static str> {
        REMOVED.iter().find(|row| row.0 == id).map(|row| row.1)
    }

    /// The type with this name, case-insensitive.
    pub fn from_name(name: &str) -> Option<TensorType> {
        TABLE.iter().find(|row| row.1.eq_ignore_ascii_case(name)).map(|row| row.0)
    }

    fn row(self) -> &'static (TensorType, &'static str, usize, usize) {
        // Every variant has a row (tested), so the fallback is never taken.
        TABLE.iter().find(|row| row.0 == self).unwrap_or(&TABLE[0])
    }

    /// The name that GGUF tools use: `Q4_K`.
    pub fn name(self) -> &'static str {
        self.row().1
    }

    /// Elements per block.
    pub fn block_elems(self) -> usize {
        self.row().2
    }

    /// Bytes per block.
    pub fn block_bytes(self) -> usize {
        self.row().3
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
