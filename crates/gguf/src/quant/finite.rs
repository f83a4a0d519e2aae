//! Finds blocks that stand for NaN or infinity without dequantizing them.
//!
//! In every block format the scales decide: integers times a finite half are finite. [`scale_offsets`] says where each format
//! keeps them; a format that is not in the table is dequantized. A test compares the two ways.

use crate::TensorType;

use super::{QuantError, check_sizes, dequantize};

/// Bytes of a block at which a half-precision scale starts; `None` for formats that keep scales in another form.
pub const fn scale_offsets(dtype: TensorType) -> Option<&'static [usize]> {
    Some(match dtype {
        TensorType::Q4_0 | TensorType::Q5_0 | TensorType::Q8_0 | TensorType::IQ4_NL => &[0],
        TensorType::Q4_1 | TensorType::Q5_1 | TensorType::Q4_K | TensorType::Q5_K => &[0, 2],
        TensorType::IQ4_XS
        | TensorType::IQ1_S
        | TensorType::IQ2_XXS
        | TensorType::IQ2_XS
        | TensorType::IQ2_S
        | TensorType::IQ3_XXS
        | TensorType::IQ3_S => &[0],
        TensorType::Q2_K => &[80, 82],
        TensorType::Q3_K => &[108],
        TensorType::Q6_K => &[208],
        TensorType::TQ1_0 => &[52],
        TensorType::TQ2_0 => &[64],
        _ => return None,
    })
}

/// Blocks with a value that is NaN or infinite.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct NotFinite {
    /// How many.
    pub n_blocks: usize,
    /// The first of them, counted from the start of the bytes.
    pub first: usize,
}

impl NotFinite {
    fn count(blocks: impl Iterator<Item = bool>) -> NotFinite {
        let mut found = NotFinite::default();
        for (i, _) in blocks.enumerate().filter(|(_, is_bad)| *is_bad) {
            if found.n_blocks == 0 {
                found.first = i;
            }
            found.n_blocks += 1;
        }
        found
    }
}

/// Counts the blocks of `bytes` that hold NaN or infinity; a block of a float type is one value.
///
/// Errors if the type has no reference, or if `bytes` is not a whole number of blocks.
pub fn not_finite(dtype: TensorType, bytes: &[u8]) -> Result<NotFinite, QuantError> {
    let n_elems = bytes.len() / dtype.block_bytes() * dtype.block_elems();
    match dtype {
        TensorType::F32 => {
            let words = bytes.as_chunks::<4>().0.iter().map(|b| u32::from_le_bytes(*b));
            Ok(NotFinite::count(words.map(|bits| bits & 0x7f80_0000 == 0x7f80_0000)))
        }
        TensorType::F16 => Ok(NotFinite::count(bytes.as_chunks::<2>().0.iter().map(|b| is_bad_half(b)))),
        TensorType::BF16 => {
            let words = bytes.as_chunks::<2>().0.iter().map(|b| u16::from_le_bytes(*b));
            Ok(NotFinite::count(words.map(|bits| bits & 0x7f80 == 0x7f80)))
        }
        _ => match scale_offsets(dtype) {
            Some(scales) => {
                let blocks = bytes.chunks_exact(dtype.block_bytes());
                Ok(NotFinite::count(blocks.map(|block| scales.iter().any(|at| is_bad_half(&block[*at..])))))
            }
            None => {
                let mut values = vec![0.0; n_elems];
                check_sizes(dtype, bytes, &values)?;
                dequantize(dtype, bytes, &mut values)?;
                let blocks = values.chunks_exact(dtype.block_elems());
                Ok(NotFinite::count(blocks.map(|block| block.iter().any(|x| !x.is_finite()))))
            }
        },
    }
}

/// Whether the half at the start of `bytes` is NaN or infinite.
fn is_bad_half(bytes: &[u8]) -> bool {
    bytes[1] & 0x7c == 0x7c
}

#[cfg(test)]
mod tests {
    use super::*;

    /// The slow way: every value.
    fn by_value(dtype: TensorType, bytes: &[u8]) -> NotFinite {
        let mut values = vec![0.0; bytes.len() / dtype.block_bytes() * dtype.block_elems()];
        dequantize(dtype, bytes, &mut values).unwrap();
        NotFinite::count(values.chunks_exact(dtype.block_elems()).map(|b| b.iter().any(|x| !x.is_finite())))
    }

    /// Bytes of a xorshift generator: every bit pattern of a scale turns up, good and bad.
    fn random(n: usize) -> Vec<u8> {
        let mut state = 0x9e37_79b9_7f4a_7c15_u64;
        let mut next = || {
            state ^= state << 13;
            state ^= state >> 7;
            state ^= state << 17;
            (state >> 24) as u8
        };
        (0..n).map(|_| next()).collect()
    }

    #[test]
    fn scales_tell_what_the_values_are() {
        let mut n_types = 0;
        for dtype in TensorType::all().filter(|t| super::super::can_dequantize(*t)) {
            let bytes = random(dtype.block_bytes() * 4000);
            let found = not_finite(dtype, &bytes).unwrap();
            assert_eq!(found, by_value(dtype, &bytes), "{dtype}");
            n_types += 1;
            // Only a half or a float has patterns that are not numbers; 8-bit scales of MXFP4 and NVFP4 are numbers.
            let can_be_bad = !matches!(dtype, TensorType::MXFP4 | TensorType::NVFP4);
            if can_be_bad {
                assert!(found.n_blocks > 0 && found.n_blocks < 4000, "{dtype}: {found:?}");
            }
        }
        assert!(n_types >= 25);
    }

    #[test]
    fn a_type_without_reference_is_refused() {
        assert!(matches!(not_finite(TensorType::Q8_K, &[0; 292]), Err(QuantError::Unsupported { .. })));
        assert_eq!(not_finite(TensorType::F32, &[]), Ok(NotFinite::default()));
    }
}
