//! One vector of 16 lanes.

use std::arch::x86_64::*;

use half::f16;

use super::{LANES, Simd};
use crate::isa::Avx512;

/// Lanes 0..8 and 8..16.
#[derive(Clone, Copy)]
pub(crate) struct D(__m512d, __m512d);

/// Runs register-only intrinsics.
macro_rules! avx512 {
    ($code:expr) => {{
        // SAFETY: the token that every method has proves the features, and no memory is touched.
        unsafe { $code }
    }};
}

const NEAREST: i32 = _MM_FROUND_TO_NEAREST_INT | _MM_FROUND_NO_EXC;

impl Simd for Avx512 {
    type F = __m512;
    type D = D;
    const OUTER_TILE: (usize, usize) = (8, 2);

    #[inline(always)]
    fn splat(self, x: f32) -> __m512 {
        avx512!(_mm512_set1_ps(x))
    }

    #[inline(always)]
    fn load(self, src: &[f32; LANES]) -> __m512 {
        // SAFETY: the array has 16 elements; the token proves the features.
        unsafe { _mm512_loadu_ps(src.as_ptr()) }
    }

    #[inline(always)]
    fn store(self, x: __m512, dst: &mut [f32; LANES]) {
        // SAFETY: the array has 16 elements; the token proves the features.
        unsafe { _mm512_storeu_ps(dst.as_mut_ptr(), x) }
    }

    #[inline(always)]
    fn load_f16(self, src: &[f16; LANES]) -> __m512 {
        // SAFETY: the array is 32 bytes; the token proves the features.
        unsafe { _mm512_cvtph_ps(_mm256_loadu_si256(src.as_ptr().cast())) }
    }

    #[inline(always)]
    fn store_f16(self, x: __m512, dst: &mut [f16; LANES]) {
        // SAFETY: the array is 32 bytes; the token proves the features.
        unsafe { _mm256_storeu_si256(dst.as_mut_ptr().cast(), _mm512_cvtps_ph::<NEAREST>(x)) }
    }

    #[inline(always)]
    fn load_i8(self, src: &[u8; LANES]) -> __m512 {
        // SAFETY: the array is 16 bytes; the token proves the features.
        unsafe { _mm512_cvtepi32_ps(_mm512_cvtepi8_epi32(_mm_loadu_si128(src.as_ptr().cast()))) }
    }

    #[inline(always)]
    fn add(self, a: __m512, b: __m512) -> __m512 {
        avx512!(_mm512_add_ps(a, b))
    }

    #[inline(always)]
    fn sub(self, a: __m512, b: __m512) -> __m512 {
        avx512!(_mm512_sub_ps(a, b))
    }

    #[inline(always)]
    fn mul(self, a: __m512, b: __m512) -> __m512 {
        avx512!(_mm512_mul_ps(a, b))
    }

    #[inline(always)]
    fn div(self, a: __m512, b: __m512) -> __m512 {
        avx512!(_mm512_div_ps(a, b))
    }

    #[inline(always)]
    fn fma(self, a: __m512, b: __m512, c: __m512) -> __m512 {
        avx512!(_mm512_fmadd_ps(a, b, c))
    }

    #[inline(always)]
    fn max(self, a: __m512, b: __m512) -> __m512 {
        avx512!(_mm512_max_ps(a, b))
    }

    #[inline(always)]
    fn min(self, a: __m512, b: __m512) -> __m512 {
        avx512!(_mm512_min_ps(a, b))
    }

    #[inline(always)]
    fn swap_pairs(self, x: __m512) -> __m512 {
        avx512!(_mm512_permute_ps::<0b10_11_00_01>(x))
    }

    /// `vscalefps` rounds once, like the exact product followed by the second one of the scalar form.
    #[inline(always)]
    fn mul_pow2(self, x: __m512, n: __m512) -> __m512 {
        avx512!(_mm512_scalef_ps(x, n))
    }

    #[inline(always)]
    fn prefetch<T>(self, at: *const T) {
        // SAFETY: a prefetch of an address that isn't mapped does nothing.
        unsafe { _mm_prefetch::<_MM_HINT_T1>(at.cast()) }
    }

    #[inline(always)]
    fn zero_f64(self) -> D {
        let zero = avx512!(_mm512_setzero_pd());
        D(zero, zero)
    }

    #[inline(always)]
    fn add_squares(self, acc: D, x: __m512) -> D {
        let low = avx512!(_mm512_cvtps_pd(_mm512_castps512_ps256(x)));
        let high = avx512!(_mm512_cvtps_pd(_mm512_extractf32x8_ps::<1>(x)));
        avx512!(D(_mm512_fmadd_pd(low, low, acc.0), _mm512_fmadd_pd(high, high, acc.1)))
    }

    #[inline(always)]
    fn to_f64s(self, x: D) -> [f64; LANES] {
        let mut out = [0.0; LANES];
        let (low, high) = out.split_at_mut(8);
        // SAFETY: each half has 8 elements; the token proves the features.
        unsafe {
            _mm512_storeu_pd(low.as_mut_ptr(), x.0);
            _mm512_storeu_pd(high.as_mut_ptr(), x.1);
        }
        out
    }
}
