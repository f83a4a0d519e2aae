//! Reference (de)quantization: what the bits of every block format mean, one file per format.
//!
//! These functions are the definition that faster code is compared with, so the order of operations and every rounding
//! is part of them: products and sums are separate `f32` operations in the order written (never a fused
//! multiply-add). They agree with GGML bit for bit.
//!
//! A new format is one file with `dequantize(block, out)` and one line in the list below.

use crate::TensorType;

mod bits;
mod encode;
mod finite;
mod grids;

pub use encode::{can_quantize, quantize};
pub use finite::{NotFinite, not_finite, scale_offsets};

/// Bytes and numbers do not fit each other, or the type's meaning is not known here.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
pub enum QuantError {
    /// No reference exists for the type.
    #[error("{doing} {dtype} is not supported")]
    Unsupported {
        /// The type.
        dtype: TensorType,
        /// `dequantizing` or `quantizing`.
        doing: &'static str,
    },
    /// The two slices are not the same whole number of blocks.
    #[error(
        "{n_bytes} bytes of {dtype} are not {n_elems} elements: a block is {} bytes, {} elements",
        dtype.block_bytes(), dtype.block_elems()
    )]
    Size {
        /// The type.
        dtype: TensorType,
        /// Length of the byte slice.
        n_bytes: usize,
        /// Length of the number slice.
        n_elems: usize,
    },
}

type Decoder = fn(&[u8], &mut [f32]);

macro_rules! formats {
    ($($dtype:ident => $module:ident,)*) => {
        $(
            mod $module;
            const _: () = assert_sizes(TensorType::$dtype, $module::dequantize);
        )*

        fn decoder(dtype: TensorType) -> Option<Decoder> {
            match dtype {
                $(TensorType::$dtype => Some(|bytes, out| each_block(bytes, out, $module::dequantize)),)*
                _ => None,
            }
        }
    };
}

formats! {
    F32 => f32,
    F16 => f16,
    BF16 => bf16,
    Q4_0 => q4_0,
    Q4_1 => q4_1,
    Q5_0 => q5_0,
    Q5_1 => q5_1,
    Q8_0 => q8_0,
    Q2_K => q2_k,
    Q3_K => q3_k,
    Q4_K => q4_k,
    Q5_K => q5_k,
    Q6_K => q6_k,
    IQ1_S => iq1_s,
    IQ1_M => iq1_m,
    IQ2_XXS => iq2_xxs,
    IQ2_XS => iq2_xs,
    IQ2_S => iq2_s,
    IQ3_XXS => iq3_xxs,
    IQ3_S => iq3_s,
    IQ4_NL => iq4_nl,
    IQ4_XS => iq4_xs,
    TQ1_0 => tq1_0,
    TQ2_0 => tq2_0,
    MXFP4 => mxfp4,
    NVFP4 => nvfp4,
}

const fn assert_sizes<const BYTES: usize, const ELEMS: usize>(
    dtype: TensorType,
    _block: fn(&[u8; BYTES], &mut [f32; ELEMS]),
) {
    assert!(BYTES == dtype.block_bytes() && ELEMS == dtype.block_elems());
}

fn each_block<const BYTES: usize, const ELEMS: usize>(
    bytes: &[u8],
    out: &mut [f32],
    block: fn(&[u8; BYTES], &mut [f32; ELEMS]),
) {
    for (bytes, out) in bytes.as_chunks().0.iter().zip(out.as_chunks_mut().0) {
        block(bytes, out);
    }
}

/// Whether [`dequantize`] knows the type.
pub fn can_dequantize(dtype: TensorType) -> bool {
    decoder(dtype).is_some()
}

/// Turns blocks of `dtype` into the numbers they stand for; overwrites all of `out`.
///
/// Errors if the type has no reference, or if `bytes` and `out` are not the same whole number of blocks.
pub fn dequantize(dtype: TensorType, bytes: &[u8], out: &mut [f32]) -> Result<(), QuantError> {
    let decode = decoder(dtype).ok_or(QuantError::Unsupported { dtype, doing: "dequantizing" })?;
    check_sizes(dtype, bytes, out)?;
    decode(bytes, out);
    Ok(())
}

fn check_sizes(dtype: TensorType, bytes: &[u8], elems: &[f32]) -> Result<(), QuantError> {
    if dtype.row_bytes(elems.len()) == Some(bytes.len()) {
        return Ok(());
    }
    Err(QuantError::Size { dtype, n_bytes: bytes.len(), n_elems: elems.len() })
}
