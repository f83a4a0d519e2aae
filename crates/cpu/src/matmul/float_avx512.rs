//! AVX-512 kernels of the float types: a register is 16 rows of one k. See `float.rs`.

#![expect(unsafe_code, reason = "SIMD by pointer")]

use super::float::{FloatTile, prefetches};
use super::kernels::PREFETCH_AHEAD;
use minfer_gguf::TensorType;
use std::arch::x86_64::*;

/// A type whose weights this path can load.
trait Load {
    /// Bytes of a weight.
    const SIZE: usize;
    /// 16 weights as floats.
    ///
    /// # Safety
    /// The CPU has AVX-512 F, BW and VL; `p` points to 16 weights.
    unsafe fn load(p: *const u8) -> __m512;
}

struct F32;
struct F16;
struct Bf16;

impl Load for F32 {
    const SIZE: usize = 4;
    #[inline(always)]
    unsafe fn load(p: *const u8) -> __m512 {
        // SAFETY: granted by the caller.
        unsafe { _mm512_loadu_ps(p.cast()) }
    }
}

impl Load for F16 {
    const SIZE: usize = 2;
    #[inline(always)]
    unsafe fn load(p: *const u8) -> __m512 {
        // SAFETY: granted by the caller.
        unsafe { _mm512_cvtph_ps(_mm256_loadu_si256(p.cast())) }
    }
}

impl Load for Bf16 {
    const SIZE: usize = 2;
    #[inline(always)]
    unsafe fn load(p: *const u8) -> __m512 {
        // SAFETY: granted by the caller.
        unsafe {
            let wide = _mm512_cvtepu16_epi32(_mm256_loadu_si256(p.cast()));
            _mm512_castsi512_ps(_mm512_slli_epi32::<16>(wide))
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
        let mut acc = [[_mm512_setzero_ps(); T]; P];
        for k in 0..x.k {
            for (p, acc) in acc.iter_mut().enumerate() {
                let at = base.add(p * panel_bytes + k * 16 * W::SIZE);
                if x.prefetch && prefetches(W::SIZE, T) && (W::SIZE == 4 || k % 2 == 0) {
                    _mm_prefetch::<_MM_HINT_T1>(at.wrapping_add(PREFETCH_AHEAD).cast());
                }
                let w = W::load(at);
                for (t, acc) in acc.iter_mut().enumerate() {
                    let v = _mm512_set1_ps(*x.x.as_ptr().add(t * x.k + k));
                    *acc = _mm512_fmadd_ps(w, v, *acc);
                }
            }
        }
        for (p, acc) in acc.iter().enumerate() {
            let row = (first + p) * 16;
            let rows = (0xFFFF_u32 >> (16 - (x.n_rows - row).min(16))) as u16;
            for (t, &acc) in acc.iter().enumerate() {
                _mm512_mask_storeu_ps(x.out.add(t * x.out_stride + row), rows, acc);
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
#[target_feature(enable = "avx512f,avx512bw,avx512vl,avx512dq,avx2,f16c,fma")]
unsafe fn by_tokens<W: Load>(x: &FloatTile<'_>) {
    // SAFETY: granted by the caller.
    unsafe {
        match x.len {
            1 => panels::<W, 4, 1>(x),
            2 => panels::<W, 4, 2>(x),
            4 => panels::<W, 2, 4>(x),
            8 => panels::<W, 1, 8>(x),
            other => unreachable!("no kernel for {other} tokens"),
        }
    }
}

/// Runs one tile.
///
/// # Safety
/// The CPU has the features of [`crate::isa::Avx512`]; the arrays and the output are as [`FloatTile`] says.
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
