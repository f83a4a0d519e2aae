//! AVX2 kernels of the float types: two registers are 16 rows of one k. See `float.rs`.

#![expect(unsafe_code, reason = "SIMD by pointer")]

use super::avx2::store_rows;
use super::float::{FloatTile, prefetches};
use super::kernels::PREFETCH_AHEAD;
use minfer_gguf::TensorType;
use std::arch::x86_64::*;

/// A type whose weights this path can load.
trait Load {
    /// Bytes of a weight.
    const SIZE: usize;
    /// 8 weights as floats.
    ///
    /// # Safety
    /// The CPU has AVX2 and F16C; `p` points to 8 weights.
    unsafe fn load(p: *const u8) -> __m256;
}

struct F32;
struct F16;
struct Bf16;

impl Load for F32 {
    const SIZE: usize = 4;
    #[inline(always)]
    unsafe fn load(p: *const u8) -> __m256 {
        // SAFETY: granted by the caller.
        unsafe { _mm256_loadu_ps(p.cast()) }
    }
}

impl Load for F16 {
    const SIZE: usize = 2;
    #[inline(always)]
    unsafe fn load(p: *const u8) -> __m256 {
        // SAFETY: granted by the caller.
        unsafe { _mm256_cvtph_ps(_mm_loadu_si128(p.cast())) }
    }
}

impl Load for Bf16 {
    const SIZE: usize = 2;
    #[inline(always)]
    unsafe fn load(p: *const u8) -> __m256 {
        // SAFETY: granted by the caller.
        unsafe {
            let wide = _mm256_cvtepu16_epi32(_mm_loadu_si128(p.cast()));
            _mm256_castsi256_ps(_mm256_slli_epi32::<16>(wide))
        }
    }
}

/// `P` panels from the first on by `T` tokens.
///
/// # Safety
/// As for [`run`]; the tile has `P` panels after `first` and `T` tokens.
#[inline(always)]
unsafe fn kernel<W: Load, const P: usize, const T: usize>(x: &FloatTile<'_>, first: usize) {
    // SAFETY: granted by the caller.
    unsafe {
        let panel_bytes = x.k * 16 * W::SIZE;
        let base = x.panels.as_ptr().add(first * panel_bytes);
        let mut acc = [[[_mm256_setzero_ps(); 2]; T]; P];
        for k in 0..x.k {
            for (p, acc) in acc.iter_mut().enumerate() {
                let at = base.add(p * panel_bytes + k * 16 * W::SIZE);
                if x.prefetch && prefetches(W::SIZE, T) && (W::SIZE == 4 || k % 2 == 0) {
                    _mm_prefetch::<_MM_HINT_T1>(at.wrapping_add(PREFETCH_AHEAD).cast());
                }
                let w = [W::load(at), W::load(at.add(8 * W::SIZE))];
                for (t, acc) in acc.iter_mut().enumerate() {
                    let v = _mm256_set1_ps(*x.x.as_ptr().add(t * x.k + k));
                    acc[0] = _mm256_fmadd_ps(w[0], v, acc[0]);
                    acc[1] = _mm256_fmadd_ps(w[1], v, acc[1]);
                }
            }
        }
        for (p, acc) in acc.iter().enumerate() {
            let row = (first + p) * 16;
            for (t, acc) in acc.iter().enumerate() {
                for (h, &acc) in acc.iter().enumerate() {
                    store_rows(x.out.add(t * x.out_stride + row), x.n_rows - row, h, acc);
                }
            }
        }
    }
}

/// All panels by `T` tokens, `P` at a time while they last.
///
/// # Safety
/// As for [`run`].
#[inline(always)]
unsafe fn panels<W: Load, const P: usize, const T: usize>(x: &FloatTile<'_>) {
    let mut first = 0;
    // SAFETY: granted by the caller; `first` and the panels taken stay below `n_panels`.
    unsafe {
        while x.n_panels - first >= P {
            kernel::<W, P, T>(x, first);
            first += P;
        }
        while first < x.n_panels {
            kernel::<W, 1, T>(x, first);
            first += 1;
        }
    }
}

/// # Safety
/// As for [`run`].
#[target_feature(enable = "avx2,f16c,fma")]
unsafe fn by_tokens<W: Load>(x: &FloatTile<'_>) {
    // SAFETY: granted by the caller.
    unsafe {
        match x.len {
            1 => panels::<W, 4, 1>(x),
            2 => panels::<W, 2, 2>(x),
            4 => panels::<W, 1, 4>(x),
            other => unreachable!("no kernel for {other} tokens"),
        }
    }
}

/// Runs one tile.
///
/// # Safety
/// The CPU has the features of [`crate::isa::Avx2`]; the arrays and the output are as [`FloatTile`] says.
pub(super) unsafe fn run(dtype: TensorType, tile: &FloatTile<'_>) {
    // SAFETY: granted by the caller.
    unsafe {
        match dtype {
            TensorType::F32 => by_tokens::<F32>(tile),
            TensorType::F16 => by_tokens::<F16>(tile),
            TensorType::BF16 => by_tokens::<Bf16>(tile),
            other => unreachable!("{other} is not a float type"),
        }
    }
}
