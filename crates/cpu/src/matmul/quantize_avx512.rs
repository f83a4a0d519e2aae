//! Quantizing activations on AVX-512: the arithmetic of `activations.rs`, 32 values of a token at a time, or of 8 tokens.

#![expect(unsafe_code, reason = "SIMD by pointer")]
#![expect(clippy::needless_range_loop, reason = "one index runs over several arrays of registers")]

use super::activations::{SMALLEST_AMAX, TileMut, scales};
use super::rearrange_avx2::transpose_words;
use std::arch::x86_64::*;

/// Tokens of the tiles of a prompt.
const TOKENS: usize = 8;

/// Quantizes `x: [tile.len, tile.k]` into a tile.
///
/// # Safety
/// The CPU has the features of [`crate::isa::Avx512`].
#[target_feature(enable = "avx512f,avx512bw,avx512vl,avx512dq,avx512vnni,avx2,f16c,fma,bmi2")]
pub(super) unsafe fn quantize_tile(tile: &mut TileMut<'_>, x: &[f32]) {
    // SAFETY: the features are granted by the caller.
    unsafe {
        match tile.len {
            TOKENS => eight_tokens(tile, x),
            _ => one_by_one(tile, x),
        }
    }
}

/// Quantizes a tile of 8 tokens: a lane is a token wherever a block has one value per token.
///
/// # Safety
/// The CPU has the features of [`crate::isa::Avx512`].
#[target_feature(enable = "avx512f,avx512bw,avx512vl,avx512dq,avx512vnni,avx2,f16c,fma,bmi2")]
unsafe fn eight_tokens(tile: &mut TileMut<'_>, x: &[f32]) {
    let k = tile.k;
    assert!(tile.len == TOKENS && x.len() == TOKENS * k && tile.q.len() == x.len());
    for b in 0..k / 32 {
        let mut values = [(_mm512_setzero_ps(), _mm512_setzero_ps()); TOKENS];
        let mut largest = [_mm256_setzero_si256(); TOKENS];
        for t in 0..TOKENS {
            let block = &x[t * k + b * 32..][..32];
            // SAFETY: two loads of 16 values from a block of 32.
            let (u, v) =
                unsafe { (_mm512_loadu_ps(block.as_ptr()), _mm512_loadu_ps(block.as_ptr().add(16))) };
            values[t] = (u, v);
            let bits = _mm512_max_epu32(
                _mm512_castps_si512(_mm512_abs_ps(u)),
                _mm512_castps_si512(_mm512_abs_ps(v)),
            );
            let high = _mm512_extracti32x8_epi32::<1>(bits);
            largest[t] = _mm256_max_epu32(_mm512_castsi512_si256(bits), high);
        }
        // SAFETY: the features are granted by the caller.
        let columns = unsafe { transpose_words(largest) };
        let mut amax = columns[0];
        for column in &columns[1..] {
            amax = _mm256_max_epu32(amax, *column);
        }
        let (scale, inverse) = scales_of(amax);
        let mut factors = [0f32; TOKENS];
        // SAFETY: 8 values.
        unsafe { _mm256_storeu_ps(factors.as_mut_ptr(), inverse) };
        let mut words = [_mm256_setzero_si256(); TOKENS];
        for t in 0..TOKENS {
            words[t] = to_bytes(values[t], factors[t]);
        }
        // SAFETY: as above.
        let groups = unsafe { transpose_words(words) };
        let ones = _mm256_set1_epi8(1);
        let mut sums = [_mm256_setzero_si256(); 2];
        for g in 0..8 {
            sums[g / 4] = _mm256_dpbusd_epi32(sums[g / 4], ones, groups[g]);
        }
        let scaled_sum = _mm256_mul_ps(scale, _mm256_cvtepi32_ps(_mm256_add_epi32(sums[0], sums[1])));
        let q = &mut tile.q[b * 32 * TOKENS..][..32 * TOKENS];
        let half_sums = &mut tile.half_sums[b * 2 * TOKENS..][..2 * TOKENS];
        let scales_out = &mut tile.scale[b * TOKENS..][..TOKENS];
        let scaled_sums_out = &mut tile.scaled_sum[b * TOKENS..][..TOKENS];
        // SAFETY: 8 times 32 bytes, two times 8 sums, 8 floats each: the lengths of the slices.
        unsafe {
            for g in 0..8 {
                _mm256_storeu_si256(q.as_mut_ptr().add(g * 4 * TOKENS).cast(), groups[g]);
            }
            for h in 0..2 {
                _mm256_storeu_si256(half_sums.as_mut_ptr().add(h * TOKENS).cast(), sums[h]);
            }
            _mm256_storeu_ps(scales_out.as_mut_ptr(), scale);
            _mm256_storeu_ps(scaled_sums_out.as_mut_ptr(), scaled_sum);
        }
    }
}

/// [`scales`] of 8 blocks.
#[target_feature(enable = "avx512f,avx512vl,avx2")]
fn scales_of(amax_bits: __m256i) -> (__m256, __m256) {
    let amax = _mm256_castsi256_ps(amax_bits);
    let most = _mm256_set1_ps(127.0);
    let finite = _mm256_cmplt_epu32_mask(amax_bits, _mm256_set1_epi32(f32::INFINITY.to_bits() as i32));
    let large = _mm256_cmp_ps_mask::<_CMP_GE_OQ>(amax, _mm256_set1_ps(SMALLEST_AMAX));
    let scale = _mm256_maskz_div_ps(large, amax, most);
    let scale = _mm256_mask_blend_ps(finite, _mm256_set1_ps(f32::NAN), scale);
    (scale, _mm256_maskz_div_ps(finite & large, most, amax))
}

/// A block of one token, as integers. Infinities and NaN times 0 convert to `i32::MIN`, whose low byte is 0.
#[target_feature(enable = "avx512f,avx512bw,avx512vl,avx2")]
fn to_bytes((u, v): (__m512, __m512), inverse: f32) -> __m256i {
    let inverse = _mm512_set1_ps(inverse);
    let low = _mm512_cvtepi32_epi8(_mm512_cvtps_epi32(_mm512_mul_ps(u, inverse)));
    let high = _mm512_cvtepi32_epi8(_mm512_cvtps_epi32(_mm512_mul_ps(v, inverse)));
    _mm256_set_m128i(high, low)
}

/// Quantizes a tile of any length, block by block.
///
/// # Safety
/// The CPU has the features of [`crate::isa::Avx512`].
#[target_feature(enable = "avx512f,avx512bw,avx512vl,avx512dq,avx512vnni,avx2,f16c,fma,bmi2")]
unsafe fn one_by_one(tile: &mut TileMut<'_>, x: &[f32]) {
    let n = tile.len;
    for (token, row) in x.chunks_exact(tile.k.max(1)).enumerate() {
        for (b, block) in row.as_chunks::<32>().0.iter().enumerate() {
            // SAFETY: two loads of 16 values from a block of 32.
            let (u, v) =
                unsafe { (_mm512_loadu_ps(block.as_ptr()), _mm512_loadu_ps(block.as_ptr().add(16))) };
            let bits = _mm512_max_epu32(
                _mm512_castps_si512(_mm512_abs_ps(u)),
                _mm512_castps_si512(_mm512_abs_ps(v)),
            );
            let (scale, inverse) = scales(_mm512_reduce_max_epu32(bits));
            let q = to_bytes((u, v), inverse);
            let mut words = [0i32; 8];
            // SAFETY: 32 bytes into 8 words.
            unsafe { _mm256_storeu_si256(words.as_mut_ptr().cast(), q) };
            for (g, word) in words.iter().enumerate() {
                let four = word.to_le_bytes().map(|b| b as i8);
                tile.q[((b * 8 + g) * n + token) * 4..][..4].copy_from_slice(&four);
            }
            // Two horizontal additions leave the sum of each 128-bit half in its lanes.
            let sums = _mm256_dpbusd_epi32(_mm256_setzero_si256(), _mm256_set1_epi8(1), q);
            let sums = _mm256_hadd_epi32(sums, sums);
            let sums = _mm256_hadd_epi32(sums, sums);
            let (s0, s1) = (_mm256_extract_epi32::<0>(sums), _mm256_extract_epi32::<4>(sums));
            tile.scale[b * n + token] = scale;
            tile.scaled_sum[b * n + token] = scale * (s0 + s1) as f32;
            tile.half_sums[b * 2 * n + token] = s0;
            tile.half_sums[(b * 2 + 1) * n + token] = s1;
        }
    }
}
