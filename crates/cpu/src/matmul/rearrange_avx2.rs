//! [`Rearrange`] by 256-bit shuffles: two to four times as fast as word by word.

#![expect(unsafe_code, reason = "SIMD by pointer")]

use super::format::Format;
use super::quants::{GROUPS, ROWS, StepCodes, StepGroups};
use super::rearrange::{self, Rearrange, SUBS};
use std::arch::x86_64::*;

/// Needs AVX2.
struct Shuffles;

/// [`rearrange::put_panel`].
///
/// # Safety
/// The CPU has the features of [`crate::isa::Avx2`].
#[target_feature(enable = "avx2,fma,f16c,bmi2")]
pub(super) unsafe fn put_panel<F: Format>(raw: &[u8], row_bytes: usize, panel: &mut [u8]) {
    // SAFETY: granted by the caller.
    unsafe { rearrange::put_panel::<F, Shuffles>(raw, row_bytes, panel) }
}

impl Rearrange for Shuffles {
    #[inline(always)]
    unsafe fn groups(codes: &StepCodes) -> StepGroups {
        let mut out = [[0; ROWS]; GROUPS];
        for half in [0, 8] {
            // SAFETY: the features are granted by the caller; rows and columns of 8 words inside the arrays.
            unsafe {
                let mut rows = [_mm256_setzero_si256(); 8];
                for (i, row) in rows.iter_mut().enumerate() {
                    *row = _mm256_loadu_si256(codes[half + i].as_ptr().cast());
                }
                for (column, out) in transpose_words(rows).into_iter().zip(&mut out) {
                    _mm256_storeu_si256(out[half..].as_mut_ptr().cast(), column);
                }
            }
        }
        out
    }

    /// A round interleaves the first eight rows with the last eight. That rotates the eight bits of a byte's place (four of
    /// the row, four of the column) by one, so four rounds swap row and column.
    #[inline(always)]
    unsafe fn subs(rows: &[[u8; SUBS]; ROWS]) -> [[u8; ROWS]; SUBS] {
        let mut out = [[0; ROWS]; SUBS];
        // SAFETY: the features are granted by the caller; every row and column has 16 bytes.
        unsafe {
            let mut x = [_mm_setzero_si128(); 16];
            for (x, row) in x.iter_mut().zip(rows) {
                *x = _mm_loadu_si128(row.as_ptr().cast());
            }
            for _ in 0..4 {
                let before = x;
                for i in 0..8 {
                    x[2 * i] = _mm_unpacklo_epi8(before[i], before[i + 8]);
                    x[2 * i + 1] = _mm_unpackhi_epi8(before[i], before[i + 8]);
                }
            }
            for (x, out) in x.into_iter().zip(&mut out) {
                _mm_storeu_si128(out.as_mut_ptr().cast(), x);
            }
        }
        out
    }

    #[inline(always)]
    unsafe fn mask(group: &[u32; ROWS], shift: i32) -> u64 {
        // SAFETY: the features are granted by the caller; two loads of 8 words from 16.
        unsafe {
            // The bit becomes the highest of its byte; what else a shift of 16 bits moves stays below it.
            let up = _mm_cvtsi32_si128(7 - shift);
            let low = _mm256_sll_epi16(_mm256_loadu_si256(group.as_ptr().cast()), up);
            let high = _mm256_sll_epi16(_mm256_loadu_si256(group.as_ptr().add(8).cast()), up);
            let mask = |v| u64::from(_mm256_movemask_epi8(v) as u32);
            mask(low) | mask(high) << 32
        }
    }
}

/// # Safety
/// The CPU has AVX2.
#[inline(always)]
pub(super) unsafe fn transpose_words(r: [__m256i; 8]) -> [__m256i; 8] {
    // SAFETY: granted by the caller.
    unsafe {
        let mut pairs = [r[0]; 8];
        for i in 0..4 {
            pairs[2 * i] = _mm256_unpacklo_epi32(r[2 * i], r[2 * i + 1]);
            pairs[2 * i + 1] = _mm256_unpackhi_epi32(r[2 * i], r[2 * i + 1]);
        }
        // Columns c and c + 4 of rows 0 to 3 in fours[c], of rows 4 to 7 in fours[4 + c].
        let mut fours = [r[0]; 8];
        for i in [0, 4] {
            fours[i] = _mm256_unpacklo_epi64(pairs[i], pairs[i + 2]);
            fours[i + 1] = _mm256_unpackhi_epi64(pairs[i], pairs[i + 2]);
            fours[i + 2] = _mm256_unpacklo_epi64(pairs[i + 1], pairs[i + 3]);
            fours[i + 3] = _mm256_unpackhi_epi64(pairs[i + 1], pairs[i + 3]);
        }
        let mut columns = [r[0]; 8];
        for c in 0..4 {
            columns[c] = _mm256_permute2x128_si256::<0x20>(fours[c], fours[c + 4]);
            columns[c + 4] = _mm256_permute2x128_si256::<0x31>(fours[c], fours[c + 4]);
        }
        columns
    }
}

#[cfg(test)]
mod tests {
    use super::super::rearrange::Plain;
    use super::*;
    use crate::isa::Avx2;

    #[test]
    fn shuffles_rearrange_as_plain_words_do() {
        if Avx2::detect().is_none() {
            return;
        }
        let mut state = 1u32;
        let mut next = || {
            state = state.wrapping_mul(1_664_525).wrapping_add(1_013_904_223);
            state.rotate_left(13)
        };
        for _ in 0..100 {
            let codes: StepCodes = std::array::from_fn(|_| std::array::from_fn(|_| next()));
            let subs: [[u8; SUBS]; ROWS] = std::array::from_fn(|_| std::array::from_fn(|_| next() as u8));
            // SAFETY: AVX2 was detected.
            unsafe {
                let groups = Plain::groups(&codes);
                assert_eq!(Shuffles::groups(&codes), groups);
                assert_eq!(Shuffles::subs(&subs), Plain::subs(&subs));
                for (group, shift) in groups.iter().zip(0..8) {
                    assert_eq!(Shuffles::mask(group, shift), Plain::mask(group, shift), "bit {shift}");
                }
            }
        }
    }
}
