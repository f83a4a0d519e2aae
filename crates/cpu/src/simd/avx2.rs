//! Two vectors of 8 lanes.

use std::arch::x86_64::*;

use half::f16;

use super::{LANES, Simd};
use crate::isa::Avx2;

/// Lanes 0..8 and 8..16.
#[derive(Clone, Copy)]
pub(crate) struct F(__m256, __m256);

/// Lanes 0..4, 4..8, 8..12, 12..16.
#[derive(Clone, Copy)]
pub(crate) struct D(__m256d, __m256d, __m256d, __m256d);

/// Runs register-only intrinsics.
macro_rules! avx2 {
    ($code:expr) => {{
        // SAFETY: the token that every method has proves the features, and no memory is touched.
        unsafe { $code }
    }};
}

const NEAREST: i32 = _MM_FROUND_TO_NEAREST_INT;

impl Simd for Avx2 {
    type F = F;
    type D = D;
    const OUTER_TILE: (usize, usize) = (6, 1);

    #[inline(always)]
    fn splat(self, x: f32) -> F {
        let x = avx2!(_mm256_set1_ps(x));
        F(x, x)
    }

    #[inline(always)]
    fn load(self, src: &[f32; LANES]) -> F {
        // SAFETY: the array has 16 elements; the token proves the features.
        unsafe { F(_mm256_loadu_ps(src.as_ptr()), _mm256_loadu_ps(src.as_ptr().add(8))) }
    }

    #[inline(always)]
    fn store(self, x: F, dst: &mut [f32; LANES]) {
        // SAFETY: the array has 16 elements; the token proves the features.
        unsafe {
            _mm256_storeu_ps(dst.as_mut_ptr(), x.0);
            _mm256_storeu_ps(dst.as_mut_ptr().add(8), x.1);
        }
    }

    #[inline(always)]
    fn load_f16(self, src: &[f16; LANES]) -> F {
        let src = src.as_ptr().cast::<__m128i>();
        // SAFETY: the array is two vectors of 8 f16; the token proves the features.
        unsafe { F(_mm256_cvtph_ps(_mm_loadu_si128(src)), _mm256_cvtph_ps(_mm_loadu_si128(src.add(1)))) }
    }

    #[inline(always)]
    fn store_f16(self, x: F, dst: &mut [f16; LANES]) {
        let dst = dst.as_mut_ptr().cast::<__m128i>();
        // SAFETY: the array is two vectors of 8 f16; the token proves the features.
        unsafe {
            _mm_storeu_si128(dst, _mm256_cvtps_ph::<NEAREST>(x.0));
            _mm_storeu_si128(dst.add(1), _mm256_cvtps_ph::<NEAREST>(x.1));
        }
    }

    #[inline(always)]
    fn load_i8(self, src: &[u8; LANES]) -> F {
        // SAFETY: the array is two vectors of 8 bytes; the token proves the features.
        unsafe {
            let (low, high) = (src.as_ptr().cast(), src.as_ptr().add(8).cast());
            let low = _mm256_cvtepi32_ps(_mm256_cvtepi8_epi32(_mm_loadl_epi64(low)));
            F(low, _mm256_cvtepi32_ps(_mm256_cvtepi8_epi32(_mm_loadl_epi64(high))))
        }
    }

    #[inline(always)]
    fn add(self, a: F, b: F) -> F {
        avx2!(F(_mm256_add_ps(a.0, b.0), _mm256_add_ps(a.1, b.1)))
    }

    #[inline(always)]
    fn sub(self, a: F, b: F) -> F {
        avx2!(F(_mm256_sub_ps(a.0, b.0), _mm256_sub_ps(a.1, b.1)))
    }

    #[inline(always)]
    fn mul(self, a: F, b: F) -> F {
        avx2!(F(_mm256_mul_ps(a.0, b.0), _mm256_mul_ps(a.1, b.1)))
    }

    #[inline(always)]
    fn div(self, a: F, b: F) -> F {
        avx2!(F(_mm256_div_ps(a.0, b.0), _mm256_div_ps(a.1, b.1)))
    }

    #[inline(always)]
    fn fma(self, a: F, b: F, c: F) -> F {
        avx2!(F(_mm256_fmadd_ps(a.0, b.0, c.0), _mm256_fmadd_ps(a.1, b.1, c.1)))
    }

    #[inline(always)]
    fn max(self, a: F, b: F) -> F {
        avx2!(F(_mm256_max_ps(a.0, b.0), _mm256_max_ps(a.1, b.1)))
    }

    #[inline(always)]
    fn min(self, a: F, b: F) -> F {
        avx2!(F(_mm256_min_ps(a.0, b.0), _mm256_min_ps(a.1, b.1)))
    }

    #[inline(always)]
    fn swap_pairs(self, x: F) -> F {
        avx2!(F(_mm256_permute_ps::<0b10_11_00_01>(x.0), _mm256_permute_ps::<0b10_11_00_01>(x.1)))
    }

    #[inline(always)]
    fn mul_pow2(self, x: F, n: F) -> F {
        F(mul_pow2(x.0, n.0), mul_pow2(x.1, n.1))
    }

    #[inline(always)]
    fn prefetch<T>(self, at: *const T) {
        // SAFETY: a prefetch of an address that isn't mapped does nothing.
        unsafe { _mm_prefetch::<_MM_HINT_T1>(at.cast()) }
    }

    #[inline(always)]
    fn zero_f64(self) -> D {
        let zero = avx2!(_mm256_setzero_pd());
        D(zero, zero, zero, zero)
    }

    #[inline(always)]
    fn add_squares(self, acc: D, x: F) -> D {
        D(
            add_squares(acc.0, avx2!(_mm256_castps256_ps128(x.0))),
            add_squares(acc.1, avx2!(_mm256_extractf128_ps::<1>(x.0))),
            add_squares(acc.2, avx2!(_mm256_castps256_ps128(x.1))),
            add_squares(acc.3, avx2!(_mm256_extractf128_ps::<1>(x.1))),
        )
    }

    #[inline(always)]
    fn to_f64s(self, x: D) -> [f64; LANES] {
        let mut out = [0.0; LANES];
        for (part, x) in out.chunks_exact_mut(4).zip([x.0, x.1, x.2, x.3]) {
            // SAFETY: the part has 4 elements; the token proves the features.
            unsafe { _mm256_storeu_pd(part.as_mut_ptr(), x) };
        }
        out
    }
}

/// `acc + x * x` of 4 lanes.
#[inline(always)]
fn add_squares(acc: __m256d, x: __m128) -> __m256d {
    let x = avx2!(_mm256_cvtps_pd(x));
    avx2!(_mm256_fmadd_pd(x, x, acc))
}

/// Two factors, as in the scalar form.
#[inline(always)]
fn mul_pow2(x: __m256, n: __m256) -> __m256 {
    let n = avx2!(_mm256_cvtps_epi32(n));
    let first = avx2!(_mm256_srai_epi32::<1>(n));
    let second = avx2!(_mm256_sub_epi32(n, first));
    avx2!(_mm256_mul_ps(_mm256_mul_ps(x, pow2(first)), pow2(second)))
}

#[inline(always)]
fn pow2(n: __m256i) -> __m256 {
    avx2!(_mm256_castsi256_ps(_mm256_slli_epi32::<23>(_mm256_add_epi32(n, _mm256_set1_epi32(127)))))
}
