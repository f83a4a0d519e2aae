//! AVX2: two registers are a group, 8 rows x 4 k each. `vpmaddubsw` adds pairs of products into i16 lanes, saturating, so
//! as many groups are added as surely fit before they are widened to i32 ([`Unpack256::GROUPS_IN_I16`]):
//!
//! | weights | largest sum of pairs | groups |
//! | --- | --- | --- |
//! | 0..=15 | 15*127*2 = 3810 | 8 (30 480) |
//! | 0..=31 (FP4: 4..=28) | 31*127*2 = 7874 | 4 (31 496) |
//! | 0..=63 | 63*127*2 = 16 002 | 2 (32 004) |
//! | -128..=127, as magnitude x sign | 128*127*2 = 32 512 | 1 |
//!
//! Helpers are functions: closures are not always inlined, and then every intrinsic in them is a call.
//!
//! More than two tokens run on half a panel over the whole k and then on the other half: with both at once the sums don't
//! fit the 16 registers. The group loop is spelled out by a macro because the compiler doesn't always unroll it, and
//! then the sums live in memory. They are also the ones that prefetch, as in `avx512.rs`.

#![expect(unsafe_code, reason = "SIMD by pointer")]
#![expect(clippy::needless_range_loop, reason = "one index runs over several arrays of registers")]

use super::format::IQ4_VALUES;
use super::kernels::{PREFETCH_AHEAD, Tile};
use super::quants::{
    Bytes, FP4_WEIGHTS, Fp4, GROUP, Iq4, MASKS, Nibbles, NibblesBit, NibblesPair, Pairs, PairsBit, Quants,
};
use super::scales::Scales;
use super::walk::{LINE, Walk};
use std::arch::x86_64::*;

/// From this many tokens on, half a panel is taken at a time.
const HALVED_TOKENS: usize = 3;

/// From this many tokens on, kernels prefetch.
const PREFETCH_TOKENS: usize = 3;

/// A quant layout that this path can unpack.
pub(super) trait Unpack256: Quants {
    /// Groups whose products fit an i16 lane together.
    const GROUPS_IN_I16: usize;
    /// Weights come without the offset, so no correction is added.
    const SIGNED: bool = false;
    /// Group `g` of 8 rows, the first 8 for `half` 0.
    ///
    /// # Safety
    /// The CPU has the features of [`crate::isa::Avx2`]; `step` points to `Self::BYTES` bytes at a multiple of 64.
    unsafe fn unpack_group(step: *const u8, g: usize, half: usize) -> __m256i;
}

/// # Safety
/// As for [`Unpack256::unpack_group`]; `group` is inside the step.
#[inline(always)]
unsafe fn load(step: *const u8, group: usize, half: usize) -> __m256i {
    // SAFETY: granted by the caller.
    unsafe { _mm256_load_si256(step.add(group * GROUP + half * 32).cast()) }
}

impl Unpack256 for Bytes {
    const GROUPS_IN_I16: usize = 1;
    const SIGNED: bool = true;
    #[inline(always)]
    unsafe fn unpack_group(step: *const u8, g: usize, half: usize) -> __m256i {
        // SAFETY: granted by the caller.
        unsafe { _mm256_xor_si256(load(step, g, half), _mm256_set1_epi8(-128)) }
    }
}

impl Unpack256 for Nibbles {
    const GROUPS_IN_I16: usize = 8;
    #[inline(always)]
    unsafe fn unpack_group(step: *const u8, g: usize, half: usize) -> __m256i {
        // SAFETY: granted by the caller.
        unsafe {
            let x = load(step, g % 4, half);
            _mm256_and_si256(if g < 4 { x } else { _mm256_srli_epi16::<4>(x) }, _mm256_set1_epi8(15))
        }
    }
}

impl Unpack256 for NibblesBit {
    const GROUPS_IN_I16: usize = 4;
    #[inline(always)]
    unsafe fn unpack_group(step: *const u8, g: usize, half: usize) -> __m256i {
        // SAFETY: granted by the caller.
        unsafe {
            let bit = mask_bits(step, g, half);
            _mm256_or_si256(
                Nibbles::unpack_group(step.add(MASKS), g, half),
                _mm256_and_si256(bit, _mm256_set1_epi8(16)),
            )
        }
    }
}

impl Unpack256 for NibblesPair {
    const GROUPS_IN_I16: usize = 2;
    #[inline(always)]
    unsafe fn unpack_group(step: *const u8, g: usize, half: usize) -> __m256i {
        // SAFETY: granted by the caller; the first two groups are the planes.
        unsafe {
            let plane = load(step, g / 4, half);
            let high = match g % 4 {
                0 => _mm256_slli_epi16::<4>(plane),
                1 => _mm256_slli_epi16::<2>(plane),
                2 => plane,
                _ => _mm256_srli_epi16::<2>(plane),
            };
            _mm256_or_si256(
                Nibbles::unpack_group(step.add(Pairs::BYTES), g, half),
                _mm256_and_si256(high, _mm256_set1_epi8(0x30)),
            )
        }
    }
}

impl Unpack256 for Pairs {
    const GROUPS_IN_I16: usize = 4;
    #[inline(always)]
    unsafe fn unpack_group(step: *const u8, g: usize, half: usize) -> __m256i {
        // SAFETY: granted by the caller.
        unsafe {
            let plane = load(step, g / 4, half);
            let x = match g % 4 {
                0 => plane,
                1 => _mm256_srli_epi16::<2>(plane),
                2 => _mm256_srli_epi16::<4>(plane),
                _ => _mm256_srli_epi16::<6>(plane),
            };
            _mm256_and_si256(x, _mm256_set1_epi8(3))
        }
    }
}

impl Unpack256 for PairsBit {
    const GROUPS_IN_I16: usize = 4;
    #[inline(always)]
    unsafe fn unpack_group(step: *const u8, g: usize, half: usize) -> __m256i {
        // SAFETY: granted by the caller.
        unsafe {
            let bit = mask_bits(step, g, half);
            _mm256_or_si256(
                Pairs::unpack_group(step.add(MASKS), g, half),
                _mm256_and_si256(bit, _mm256_set1_epi8(4)),
            )
        }
    }
}

impl Unpack256 for Iq4 {
    const GROUPS_IN_I16: usize = 1;
    const SIGNED: bool = true;
    #[inline(always)]
    unsafe fn unpack_group(step: *const u8, g: usize, half: usize) -> __m256i {
        // SAFETY: granted by the caller.
        unsafe { look_up(&IQ4_BYTES, Nibbles::unpack_group(step, g, half)) }
    }
}

impl Unpack256 for Fp4 {
    const GROUPS_IN_I16: usize = 4;
    #[inline(always)]
    unsafe fn unpack_group(step: *const u8, g: usize, half: usize) -> __m256i {
        // SAFETY: granted by the caller.
        unsafe { look_up(&FP4_WEIGHTS, Nibbles::unpack_group(step, g, half)) }
    }
}

/// [`IQ4_VALUES`] as bytes.
const IQ4_BYTES: [u8; 16] = {
    let mut bytes = [0; 16];
    let mut i = 0;
    while i < 16 {
        bytes[i] = IQ4_VALUES[i] as u8;
        i += 1;
    }
    bytes
};

/// # Safety
/// The CPU has AVX2.
#[inline(always)]
unsafe fn look_up(table: &[u8; 16], codes: __m256i) -> __m256i {
    // SAFETY: granted by the caller; the table has 16 bytes.
    unsafe { _mm256_shuffle_epi8(_mm256_broadcastsi128_si256(_mm_loadu_si128(table.as_ptr().cast())), codes) }
}

/// All ones in the bytes whose bit is set in the mask of group `g`, for 8 rows.
///
/// # Safety
/// The CPU has AVX2; `masks` points to 8 masks of 64 bits.
#[inline(always)]
unsafe fn mask_bits(masks: *const u8, g: usize, half: usize) -> __m256i {
    // SAFETY: granted by the caller.
    unsafe {
        let mask = masks.add(g * 8 + half * 4).cast::<i32>().read_unaligned();
        let spread = _mm256_setr_epi8(
            0, 0, 0, 0, 0, 0, 0, 0, 1, 1, 1, 1, 1, 1, 1, 1, 2, 2, 2, 2, 2, 2, 2, 2, 3, 3, 3, 3, 3, 3, 3, 3,
        );
        let bit = _mm256_set1_epi64x(0x8040_2010_0804_0201_u64 as i64);
        let byte = _mm256_shuffle_epi8(_mm256_set1_epi32(mask), spread);
        _mm256_cmpeq_epi8(_mm256_and_si256(byte, bit), bit)
    }
}

/// `super::scales::e8m0_half` on 8 bytes.
///
/// # Safety
/// The CPU has AVX2.
#[inline(always)]
unsafe fn e8m0_half(e: __m256i) -> __m256 {
    // SAFETY: granted by the caller.
    unsafe {
        let normal = _mm256_slli_epi32::<23>(_mm256_sub_epi32(e, _mm256_set1_epi32(1)));
        let subnormal = _mm256_sllv_epi32(_mm256_set1_epi32(0x0020_0000), e);
        let is_normal = _mm256_cmpgt_epi32(e, _mm256_set1_epi32(1));
        _mm256_castsi256_ps(_mm256_blendv_epi8(subnormal, normal, is_normal))
    }
}

/// 8 of 16 f16 as floats.
///
/// # Safety
/// The CPU has the features; `p` points to 16 f16.
#[inline(always)]
unsafe fn halves(p: *const u8, h: usize) -> __m256 {
    // SAFETY: granted by the caller.
    unsafe { _mm256_cvtph_ps(_mm_loadu_si128(p.add(h * 16).cast())) }
}

/// 8 of 16 bytes.
///
/// # Safety
/// The CPU has the features; `p` points to 16 bytes.
#[inline(always)]
unsafe fn bytes_u(p: *const u8, h: usize) -> __m256i {
    // SAFETY: granted by the caller.
    unsafe { _mm256_cvtepu8_epi32(_mm_loadl_epi64(p.add(h * 8).cast())) }
}

/// 8 of 16 signed bytes.
///
/// # Safety
/// The CPU has the features; `p` points to 16 bytes.
#[inline(always)]
unsafe fn bytes_i(p: *const u8, h: usize) -> __m256i {
    // SAFETY: granted by the caller.
    unsafe { _mm256_cvtepi8_epi32(_mm_loadl_epi64(p.add(h * 8).cast())) }
}

/// The factors of one half of a step.
///
/// # Safety
/// The CPU has the features; `sub` points to 16 sub-scales.
#[inline(always)]
unsafe fn half_scale<S: Scales>(sub: *const u8, h: usize) -> __m256 {
    // SAFETY: granted by the caller.
    unsafe {
        _mm256_cvtepi32_ps(match S::MIN {
            true => _mm256_and_si256(bytes_u(sub, h), _mm256_set1_epi32(15)),
            false => bytes_i(sub, h),
        })
    }
}

/// The 4-bit minimums of both halves of a step, as pairs of i16.
///
/// # Safety
/// The CPU has the features; `sub` points to two times 16 sub-scales.
#[inline(always)]
unsafe fn minimum_pairs(sub: *const u8, h: usize) -> __m256i {
    // SAFETY: granted by the caller.
    unsafe {
        let (first, second) = (bytes_u(sub, h), bytes_u(sub.add(16), h));
        _mm256_srli_epi16::<4>(_mm256_or_si256(first, _mm256_slli_epi32::<16>(second)))
    }
}

/// A sum with the offset taken out, if it is in.
///
/// # Safety
/// The CPU has the features; `correction` points to more than `at` words, unless there are none.
#[inline(always)]
unsafe fn corrected<Q: Unpack256, S: Scales>(sum: __m256i, correction: *const i32, at: usize) -> __m256i {
    // SAFETY: granted by the caller.
    unsafe {
        match Q::SIGNED || S::MIN {
            true => sum,
            false => _mm256_add_epi32(sum, _mm256_set1_epi32(*correction.add(at))),
        }
    }
}

/// Rows `8 * LO .. 8 * HI` of one panel by `T` tokens.
///
/// # Safety
/// As for [`tile`].
#[inline(always)]
unsafe fn kernel<Q: Unpack256, S: Scales, const T: usize, const LO: usize, const HI: usize>(x: &Tile<'_>) {
    let [panel] = x.panels else { unreachable!("panels come one by one") };
    // SAFETY: `Tile` holds arrays of the stated lengths for `n_steps` steps and `T` tokens.
    unsafe {
        let ones = _mm256_set1_epi16(1);
        let zero = _mm256_setzero_si256();
        let mut acc = [[_mm256_setzero_ps(); T]; 2];
        let mut walk = Walk::default();
        let mut ahead = panel.bytes.as_ptr().wrapping_add(PREFETCH_AHEAD);
        let mut block = panel.bytes.as_ptr();
        for i in 0..x.n_steps {
            if i % S::STEPS == 0 {
                block = panel.bytes.as_ptr().add(walk.block::<S>());
            }
            let sub = panel.bytes.as_ptr().add(walk.subs::<S>());
            let quants = panel.bytes.as_ptr().add(walk.quants(Q::BYTES));
            if T >= PREFETCH_TOKENS && LO == 0 && x.prefetch {
                while ahead < panel.bytes.as_ptr().wrapping_add(walk.next() + PREFETCH_AHEAD) {
                    _mm_prefetch::<_MM_HINT_T1>(ahead.cast());
                    ahead = ahead.wrapping_add(LINE);
                }
            }
            let q = x.q.as_ptr().add(i * 32 * T);
            let correction = x.correction.as_ptr().wrapping_add(i * S::CORRECTIONS * T);
            for h in LO..HI {
                let mut isum = [zero; T];
                let mut first = [_mm256_setzero_ps(); T];
                let mut narrow = [zero; T];
                macro_rules! groups {
                    ($($g:literal)*) => {$({
                        const G: usize = $g;
                        if S::HALVES && G == 4 {
                            let sc = _mm256_mul_ps(halves(block, h), half_scale::<S>(sub, h));
                            for j in 0..T {
                                let sum = corrected::<Q, S>(isum[j], correction, j);
                                first[j] = _mm256_mul_ps(_mm256_cvtepi32_ps(sum), sc);
                                isum[j] = zero;
                            }
                        }
                        let w = Q::unpack_group(quants, G, h);
                        let magnitude = if Q::SIGNED { _mm256_abs_epi8(w) } else { w };
                        for j in 0..T {
                            let v = q.add((G * T + j) * 4).cast::<i32>().read_unaligned();
                            let mut v = _mm256_set1_epi32(v);
                            if Q::SIGNED {
                                v = _mm256_sign_epi8(v, w);
                            }
                            let pairs = _mm256_maddubs_epi16(magnitude, v);
                            let fresh = G % Q::GROUPS_IN_I16 == 0;
                            narrow[j] = if fresh { pairs } else { _mm256_add_epi16(narrow[j], pairs) };
                            if (G + 1) % Q::GROUPS_IN_I16 == 0 {
                                isum[j] = _mm256_add_epi32(isum[j], _mm256_madd_epi16(narrow[j], ones));
                            }
                        }
                    })*};
                }
                groups!(0 1 2 3 4 5 6 7);
                let mut d = if S::E8M0 { e8m0_half(bytes_u(block, h)) } else { halves(block, h) };
                let mut m = if S::MIN { halves(block.add(32), h) } else { _mm256_setzero_ps() };
                if S::SUBS > 0 && !S::HALVES {
                    let sc = if S::MIN { bytes_u(sub, h) } else { bytes_i(sub, h) };
                    d = _mm256_mul_ps(d, _mm256_cvtepi32_ps(sc));
                    if S::MIN {
                        m = _mm256_mul_ps(m, _mm256_cvtepi32_ps(bytes_u(sub.add(16), h)));
                    }
                }
                let (mut second_sc, mut minimums) = (_mm256_setzero_ps(), zero);
                if S::HALVES {
                    second_sc = _mm256_mul_ps(d, half_scale::<S>(sub.add(16), h));
                    if S::MIN {
                        minimums = minimum_pairs(sub, h);
                    }
                }
                for j in 0..T {
                    let da = _mm256_set1_ps(x.scale.as_ptr().add(i * T + j).read());
                    let out = &mut acc[h][j];
                    if S::HALVES {
                        let second = _mm256_cvtepi32_ps(corrected::<Q, S>(isum[j], correction, T + j));
                        let mut sum = _mm256_fmadd_ps(second, second_sc, first[j]);
                        if S::MIN {
                            let sums = _mm256_set1_epi32(*correction.add(j));
                            let min = _mm256_cvtepi32_ps(_mm256_madd_epi16(minimums, sums));
                            sum = _mm256_fnmadd_ps(min, m, sum);
                        }
                        *out = _mm256_fmadd_ps(sum, da, *out);
                        continue;
                    }
                    let sum = _mm256_cvtepi32_ps(corrected::<Q, S>(isum[j], correction, j));
                    *out = _mm256_fmadd_ps(sum, _mm256_mul_ps(d, da), *out);
                    if S::MIN {
                        let sa = _mm256_set1_ps(x.scaled_sum.as_ptr().add(i * T + j).read());
                        *out = match S::SUBS {
                            0 => _mm256_fmadd_ps(m, sa, *out),
                            _ => _mm256_fnmadd_ps(m, sa, *out),
                        };
                    }
                }
            }
        }
        for j in 0..T {
            for h in LO..HI {
                store_rows(panel.out.add(j * x.out_stride), panel.n_rows, h, acc[h][j]);
            }
        }
    }
}

/// Stores the rows of half `h` of a panel of `n_rows` rows that starts at `out`.
///
/// # Safety
/// The CPU has AVX; `out` may be written for `n_rows` values.
#[inline(always)]
pub(super) unsafe fn store_rows(out: *mut f32, n_rows: usize, h: usize, values: __m256) {
    // SAFETY: only rows below `n_rows` are written; the whole store happens only if 8 rows are left.
    unsafe {
        match n_rows.saturating_sub(h * 8).min(8) {
            8 => _mm256_storeu_ps(out.add(h * 8), values),
            0 => {}
            rows => {
                let mut all = [0f32; 8];
                _mm256_storeu_ps(all.as_mut_ptr(), values);
                std::ptr::copy_nonoverlapping(all.as_ptr(), out.add(h * 8), rows);
            }
        }
    }
}

/// # Safety
/// As for [`tile`].
#[inline(always)]
unsafe fn both_halves<Q: Unpack256, S: Scales, const T: usize>(x: &Tile<'_>) {
    // SAFETY: granted by the caller.
    unsafe {
        if T < HALVED_TOKENS {
            kernel::<Q, S, T, 0, 2>(x);
        } else {
            kernel::<Q, S, T, 0, 1>(x);
            kernel::<Q, S, T, 1, 2>(x);
        }
    }
}

/// One panel by the tokens of a tile.
///
/// # Safety
/// The CPU has the features of [`crate::isa::Avx2`]; the tile's arrays and output are as [`Tile`] says.
#[target_feature(enable = "avx2,f16c,fma,bmi2")]
pub(super) unsafe fn tile<Q: Unpack256, S: Scales>(x: &Tile<'_>) {
    // SAFETY: granted by the caller.
    unsafe {
        match x.len {
            1 => both_halves::<Q, S, 1>(x),
            2 => both_halves::<Q, S, 2>(x),
            3 => both_halves::<Q, S, 3>(x),
            4 => both_halves::<Q, S, 4>(x),
            6 => both_halves::<Q, S, 6>(x),
            other => unreachable!("no kernel for {other} tokens"),
        }
    }
}
