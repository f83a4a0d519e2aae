//! Float weights (F32, F16, BF16): activations stay f32, and one fused multiply-add per weight runs over k in order.
//!
//! A panel is `[k][16 rows]` in the source type. Each lane is one output with one accumulator, so a single panel and token
//! would wait for the latency of every addition: kernels keep several panels or tokens in flight.

#![expect(unsafe_code, reason = "SIMD, and an output written by pointer")]

use crate::isa::Isa;
use half::{bf16, f16};
use minfer_gguf::TensorType;

/// The work of one call: `n_panels` panels by `len` tokens.
///
/// `panels` holds `n_panels` panels of `k * 16` weights, the first at a multiple of 64. `x[token * k..]` holds the
/// activations. `out[token * out_stride + row]` may be written for `len` tokens and `n_rows` rows (the last panel may be
/// partial), and is written by nobody else meanwhile.
pub(super) struct FloatTile<'a> {
    pub(super) panels: &'a [u8],
    pub(super) n_panels: usize,
    pub(super) k: usize,
    pub(super) len: usize,
    pub(super) x: &'a [f32],
    pub(super) out: *mut f32,
    pub(super) out_stride: usize,
    pub(super) n_rows: usize,
    /// Whether the panels come from memory rather than from a cache.
    #[cfg_attr(not(target_arch = "x86_64"), expect(dead_code, reason = "only SIMD kernels prefetch"))]
    pub(super) prefetch: bool,
}

/// Whether a kernel of so many tokens prefetches weights of `size` bytes: with little to do for a cache line, the processor
/// fetches the next ones by itself, and faster than if asked.
#[cfg_attr(not(target_arch = "x86_64"), expect(dead_code, reason = "only SIMD kernels prefetch"))]
#[inline(always)]
pub(super) const fn prefetches(size: usize, n_tokens: usize) -> bool {
    n_tokens >= 2 * size
}

/// Whether weights of this type are multiplied as floats.
pub(super) fn is_float(dtype: TensorType) -> bool {
    matches!(dtype, TensorType::F32 | TensorType::F16 | TensorType::BF16)
}

/// A raw weight, exactly.
#[inline(always)]
pub(super) fn to_f32(dtype: TensorType, w: &[u8]) -> f32 {
    match dtype {
        TensorType::F16 => f16::from_le_bytes([w[0], w[1]]).to_f32(),
        TensorType::BF16 => bf16::from_le_bytes([w[0], w[1]]).to_f32(),
        _ => f32::from_le_bytes([w[0], w[1], w[2], w[3]]),
    }
}

/// The shapes of a level's kernels: tokens, and how many panels go with that many; most tokens first.
pub(super) fn shapes(isa: Isa) -> &'static [(usize, usize)] {
    match isa {
        Isa::Scalar => &[(1, 1)],
        #[cfg(target_arch = "x86_64")]
        Isa::Avx2(_) => &[(4, 1), (2, 2), (1, 4)],
        #[cfg(target_arch = "x86_64")]
        Isa::Avx512Vnni(_) => &[(8, 1), (4, 2), (2, 4), (1, 4)],
    }
}

/// Runs one tile of a shape from [`shapes`], or of fewer panels: one at a time.
///
/// # Safety
/// The arrays and the output are as [`FloatTile`] says.
pub(super) unsafe fn run(dtype: TensorType, tile: &FloatTile<'_>, isa: Isa) {
    // SAFETY: the token in `isa` proves the features; the rest is granted by the caller.
    unsafe {
        match isa {
            Isa::Scalar => scalar(dtype, tile),
            #[cfg(target_arch = "x86_64")]
            Isa::Avx2(_) => super::float_avx2::run(dtype, tile),
            #[cfg(target_arch = "x86_64")]
            Isa::Avx512Vnni(_) => super::float_avx512::run(dtype, tile),
        }
    }
}

/// # Safety
/// As for [`run`].
unsafe fn scalar(dtype: TensorType, tile: &FloatTile<'_>) {
    let size = dtype.block_bytes();
    for token in 0..tile.len {
        let x = &tile.x[token * tile.k..][..tile.k];
        for (p, panel) in tile.panels.chunks_exact(tile.k * 16 * size).take(tile.n_panels).enumerate() {
            let mut acc = [0f32; 16];
            for (row16, &x) in panel.chunks_exact(16 * size).zip(x) {
                for (acc, w) in acc.iter_mut().zip(row16.chunks_exact(size)) {
                    *acc = to_f32(dtype, w).mul_add(x, *acc);
                }
            }
            let n_rows = (tile.n_rows - p * 16).min(16);
            // SAFETY: granted by the caller for `len` tokens and `n_rows` rows.
            unsafe {
                let out = tile.out.add(token * tile.out_stride + p * 16);
                std::ptr::copy_nonoverlapping(acc.as_ptr(), out, n_rows);
            }
        }
    }
}
