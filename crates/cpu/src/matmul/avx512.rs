//! AVX-512 VNNI: one register is a group, 16 rows x 4 k; `vpdpbusd` adds its 4 products to each row's i32 lane, against 4
//! activations of one token broadcast to all lanes. One panel and up to 8 tokens at a time, or two panels and one
//! token, the whole k inside.
//!
//! - The integer sums start at the correction for the offset (`-offset * sum(q)`), so offsets cost nothing.
//! - Few tokens need no prefetches: a panel is read in the order in which it lies (`walk.rs`), so the processor fetches it by
//!   itself, faster than if asked. With more tokens it doesn't look far enough: then they are asked for into L2, 8 KiB ahead.
//! - Arrays of registers are filled by loops: closures given to `array::map` are not always inlined, and then every
//!   intrinsic is a call (ten times slower).
//! - From 64 tokens in a chunk on, a panel is unpacked once to plain bytes and all tiles run on those ([`expand`]).

#![expect(unsafe_code, reason = "SIMD by pointer")]
#![expect(clippy::needless_range_loop, reason = "one index runs over several arrays of registers")]

use super::kernels::{PREFETCH_AHEAD, Panel, STREAMS, Tile};
use super::quants::{
    Bytes, FP4_WEIGHTS, Fp4, GROUP, IQ4_WEIGHTS, Iq4, MASKS, Nibbles, NibblesBit, NibblesPair, Pairs,
    PairsBit, Quants,
};
use super::scales::Scales;
use super::walk::{LINE, Walk, expansion};
use std::arch::x86_64::*;

/// From this many tokens on, kernels prefetch.
const PREFETCH_TOKENS: usize = 8;

/// A quant layout that this path can unpack.
pub(super) trait Unpack512: Quants {
    /// The 4 groups of one half of a step, as unsigned weights.
    ///
    /// # Safety
    /// The CPU has the features of [`crate::isa::Avx512`]; `step` points to `Self::BYTES` bytes at a multiple of 64.
    unsafe fn unpack_half<const HALF: usize>(step: *const u8) -> [__m512i; 4];
}

/// # Safety
/// As for [`Unpack512::unpack_half`]; `group` is inside the step.
#[inline(always)]
unsafe fn load(step: *const u8, group: usize) -> __m512i {
    // SAFETY: granted by the caller.
    unsafe { _mm512_load_si512(step.add(group * GROUP).cast()) }
}

impl Unpack512 for Bytes {
    #[inline(always)]
    unsafe fn unpack_half<const HALF: usize>(step: *const u8) -> [__m512i; 4] {
        // SAFETY: granted by the caller; 8 groups.
        unsafe {
            let first = HALF * 4;
            [load(step, first), load(step, first + 1), load(step, first + 2), load(step, first + 3)]
        }
    }
}

impl Unpack512 for Nibbles {
    #[inline(always)]
    unsafe fn unpack_half<const HALF: usize>(step: *const u8) -> [__m512i; 4] {
        // SAFETY: granted by the caller; 4 groups of bytes.
        unsafe {
            let low = _mm512_set1_epi8(15);
            let mut w = [low; 4];
            for i in 0..4 {
                let x = load(step, i);
                w[i] = _mm512_and_si512(if HALF == 0 { x } else { _mm512_srli_epi16::<4>(x) }, low);
            }
            w
        }
    }
}

impl Unpack512 for NibblesBit {
    #[inline(always)]
    unsafe fn unpack_half<const HALF: usize>(step: *const u8) -> [__m512i; 4] {
        // SAFETY: granted by the caller.
        unsafe {
            let w = Nibbles::unpack_half::<HALF>(step.add(MASKS));
            add_masks::<HALF, 16>(w, step)
        }
    }
}

impl Unpack512 for NibblesPair {
    #[inline(always)]
    unsafe fn unpack_half<const HALF: usize>(step: *const u8) -> [__m512i; 4] {
        // SAFETY: granted by the caller; the first two groups are the planes.
        unsafe {
            let (low, six) = (_mm512_set1_epi8(15), _mm512_set1_epi8(0x3F));
            let plane = load(step, HALF);
            let mut w = [low; 4];
            for i in 0..4 {
                let x = load(step, 2 + i);
                let x = if HALF == 0 { x } else { _mm512_srli_epi16::<4>(x) };
                let high = match i {
                    0 => _mm512_slli_epi16::<4>(plane),
                    1 => _mm512_slli_epi16::<2>(plane),
                    2 => plane,
                    _ => _mm512_srli_epi16::<2>(plane),
                };
                // 0xCA: x where `low` is set, else `high`.
                w[i] = _mm512_and_si512(_mm512_ternarylogic_epi32::<0xCA>(low, x, high), six);
            }
            w
        }
    }
}

impl Unpack512 for Pairs {
    #[inline(always)]
    unsafe fn unpack_half<const HALF: usize>(step: *const u8) -> [__m512i; 4] {
        // SAFETY: granted by the caller.
        unsafe {
            let (two, plane) = (_mm512_set1_epi8(3), load(step, HALF));
            [
                _mm512_and_si512(plane, two),
                _mm512_and_si512(_mm512_srli_epi16::<2>(plane), two),
                _mm512_and_si512(_mm512_srli_epi16::<4>(plane), two),
                _mm512_and_si512(_mm512_srli_epi16::<6>(plane), two),
            ]
        }
    }
}

impl Unpack512 for PairsBit {
    #[inline(always)]
    unsafe fn unpack_half<const HALF: usize>(step: *const u8) -> [__m512i; 4] {
        // SAFETY: granted by the caller.
        unsafe {
            let w = Pairs::unpack_half::<HALF>(step.add(MASKS));
            add_masks::<HALF, 4>(w, step)
        }
    }
}

impl Unpack512 for Iq4 {
    #[inline(always)]
    unsafe fn unpack_half<const HALF: usize>(step: *const u8) -> [__m512i; 4] {
        // SAFETY: granted by the caller.
        unsafe { look_up::<HALF>(step, &IQ4_WEIGHTS) }
    }
}

impl Unpack512 for Fp4 {
    #[inline(always)]
    unsafe fn unpack_half<const HALF: usize>(step: *const u8) -> [__m512i; 4] {
        // SAFETY: granted by the caller.
        unsafe { look_up::<HALF>(step, &FP4_WEIGHTS) }
    }
}

/// # Safety
/// As for [`Unpack512::unpack_half`] of [`Nibbles`].
#[inline(always)]
unsafe fn look_up<const HALF: usize>(step: *const u8, table: &[u8; 16]) -> [__m512i; 4] {
    // SAFETY: granted by the caller.
    unsafe {
        let table = _mm512_broadcast_i32x4(_mm_loadu_si128(table.as_ptr().cast()));
        let mut w = Nibbles::unpack_half::<HALF>(step);
        for w in &mut w {
            *w = _mm512_shuffle_epi8(table, *w);
        }
        w
    }
}

/// Adds `BIT` to the bytes that the masks name.
///
/// # Safety
/// The CPU has the features; `masks` points to 8 masks.
#[inline(always)]
unsafe fn add_masks<const HALF: usize, const BIT: i8>(mut w: [__m512i; 4], masks: *const u8) -> [__m512i; 4] {
    // SAFETY: granted by the caller.
    unsafe {
        let bit = _mm512_set1_epi8(BIT);
        for i in 0..4 {
            let mask = masks.add((HALF * 4 + i) * 8).cast::<u64>().read_unaligned();
            w[i] = _mm512_mask_add_epi8(w[i], mask, w[i], bit);
        }
        w
    }
}

/// The block scales of 16 rows.
///
/// # Safety
/// The CPU has the features; `block` points to `S::FIXED` bytes.
#[inline(always)]
unsafe fn block_scales<S: Scales>(block: *const u8) -> (__m512, __m512) {
    // SAFETY: granted by the caller.
    unsafe {
        let half = |at: usize| _mm512_cvtph_ps(_mm256_loadu_si256(block.add(at).cast()));
        let d = if S::E8M0 { e8m0_half(bytes_u(block)) } else { half(0) };
        (d, if S::MIN { half(32) } else { _mm512_setzero_ps() })
    }
}

/// # Safety
/// The CPU has the features; `p` points to 16 bytes.
#[inline(always)]
unsafe fn bytes_u(p: *const u8) -> __m512i {
    // SAFETY: granted by the caller.
    unsafe { _mm512_cvtepu8_epi32(_mm_loadu_si128(p.cast())) }
}

/// # Safety
/// The CPU has the features; `p` points to 16 bytes.
#[inline(always)]
unsafe fn bytes_i(p: *const u8) -> __m512i {
    // SAFETY: granted by the caller.
    unsafe { _mm512_cvtepi8_epi32(_mm_loadu_si128(p.cast())) }
}

/// `super::scales::e8m0_half` on 16 bytes.
///
/// # Safety
/// The CPU has the features.
#[inline(always)]
unsafe fn e8m0_half(e: __m512i) -> __m512 {
    // SAFETY: granted by the caller.
    unsafe {
        let normal = _mm512_slli_epi32::<23>(_mm512_sub_epi32(e, _mm512_set1_epi32(1)));
        let subnormal = _mm512_cmplt_epi32_mask(e, _mm512_set1_epi32(2));
        _mm512_castsi512_ps(_mm512_mask_sllv_epi32(normal, subnormal, _mm512_set1_epi32(0x0020_0000), e))
    }
}

/// Where the activations of a step are, and what belongs to them.
#[derive(Clone, Copy)]
struct Operand {
    q: *const i8,
    scale: *const f32,
    scaled_sum: *const f32,
    correction: *const i32,
}

/// `P` panels by `T` tokens.
///
/// # Safety
/// As for [`tile`]; the tile has `P` panels and `T` tokens.
#[inline(always)]
unsafe fn kernel<Q: Unpack512, S: Scales, const T: usize, const P: usize>(x: &Tile<'_>) {
    // SAFETY: `Tile` holds arrays of the stated lengths for `n_steps` steps, `P` panels and `T` tokens.
    unsafe {
        let zero = _mm512_setzero_ps();
        let mut acc = [[zero; T]; P];
        let mut panels = [std::ptr::null(); P];
        for p in 0..P {
            panels[p] = x.panels[p].bytes.as_ptr();
        }
        let mut at = Operand {
            q: x.q.as_ptr(),
            scale: x.scale.as_ptr(),
            scaled_sum: x.scaled_sum.as_ptr(),
            correction: x.correction.as_ptr(),
        };
        let mut walk = Walk::default();
        let mut ahead = panels[0].wrapping_add(PREFETCH_AHEAD);
        for _ in 0..x.n_steps / S::STEPS {
            let block = walk.block::<S>();
            let mut scales = [(zero, zero); P];
            for p in 0..P {
                scales[p] = block_scales::<S>(panels[p].add(block));
            }
            for _ in 0..S::STEPS {
                let (subs, quants) = (walk.subs::<S>(), walk.quants(Q::BYTES));
                if T >= PREFETCH_TOKENS && x.prefetch {
                    while ahead < panels[0].wrapping_add(walk.next() + PREFETCH_AHEAD) {
                        _mm_prefetch::<_MM_HINT_T1>(ahead.cast());
                        ahead = ahead.wrapping_add(LINE);
                    }
                }
                for p in 0..P {
                    let (subs, quants) = (panels[p].add(subs), panels[p].add(quants));
                    add_step::<Q, S, T>(&mut acc[p], scales[p], subs, quants, at);
                }
                at.q = at.q.add(32 * T);
                at.scale = at.scale.add(T);
                at.scaled_sum = at.scaled_sum.add(T);
                at.correction = at.correction.wrapping_add(S::CORRECTIONS * T);
            }
        }
        for p in 0..P {
            let Panel { out, n_rows, .. } = x.panels[p];
            let rows = (0xFFFF_u32 >> (16 - n_rows)) as u16;
            for j in 0..T {
                _mm512_mask_storeu_ps(out.add(j * x.out_stride), rows, acc[p][j]);
            }
        }
    }
}

/// Adds a step of one panel to the sums of `T` tokens; `d` and `m` are the scales of its block.
///
/// # Safety
/// The CPU has the features; the pointers are to the sub-scales and quants of the step, and to its operand.
#[inline(always)]
unsafe fn add_step<Q: Unpack512, S: Scales, const T: usize>(
    acc: &mut [__m512; T],
    (d, m): (__m512, __m512),
    subs: *const u8,
    quants: *const u8,
    at: Operand,
) {
    // SAFETY: granted by the caller.
    unsafe {
        let zero = _mm512_setzero_ps();
        let mut isum = [_mm512_setzero_si512(); T];
        let mut first = [zero; T];
        if !S::MIN {
            for j in 0..T {
                isum[j] = _mm512_set1_epi32(*at.correction.add(j));
            }
        }
        let w = Q::unpack_half::<0>(quants);
        for (g, &w) in w.iter().enumerate() {
            for j in 0..T {
                let v = at.q.add((g * T + j) * 4).cast::<i32>().read_unaligned();
                isum[j] = _mm512_dpbusd_epi32(isum[j], w, _mm512_set1_epi32(v));
            }
        }
        if S::HALVES {
            let sc = _mm512_mul_ps(d, half_scale::<S>(subs));
            for j in 0..T {
                first[j] = _mm512_mul_ps(_mm512_cvtepi32_ps(isum[j]), sc);
                isum[j] = match S::MIN {
                    true => _mm512_setzero_si512(),
                    false => _mm512_set1_epi32(*at.correction.add(T + j)),
                };
            }
        }
        let w = Q::unpack_half::<1>(quants);
        for (g, &w) in w.iter().enumerate() {
            for j in 0..T {
                let v = at.q.add(((g + 4) * T + j) * 4).cast::<i32>().read_unaligned();
                isum[j] = _mm512_dpbusd_epi32(isum[j], w, _mm512_set1_epi32(v));
            }
        }
        let (mut step_d, mut step_m) = (d, m);
        if S::SUBS > 0 && !S::HALVES {
            let sc = if S::MIN { bytes_u(subs) } else { bytes_i(subs) };
            step_d = _mm512_mul_ps(d, _mm512_cvtepi32_ps(sc));
            if S::MIN {
                step_m = _mm512_mul_ps(m, _mm512_cvtepi32_ps(bytes_u(subs.add(16))));
            }
        }
        let second_sc = if S::HALVES { _mm512_mul_ps(d, half_scale::<S>(subs.add(16))) } else { zero };
        let minimums = if S::HALVES && S::MIN { minimum_pairs(subs) } else { _mm512_setzero_si512() };
        for j in 0..T {
            let mut sum = _mm512_cvtepi32_ps(isum[j]);
            let da = _mm512_set1_ps(*at.scale.add(j));
            if S::HALVES {
                sum = _mm512_fmadd_ps(sum, second_sc, first[j]);
                if S::MIN {
                    let sums = _mm512_set1_epi32(*at.correction.add(j));
                    let min = _mm512_cvtepi32_ps(_mm512_madd_epi16(minimums, sums));
                    sum = _mm512_fnmadd_ps(min, m, sum);
                }
                acc[j] = _mm512_fmadd_ps(sum, da, acc[j]);
                continue;
            }
            acc[j] = _mm512_fmadd_ps(sum, _mm512_mul_ps(step_d, da), acc[j]);
            if S::MIN {
                let sa = _mm512_set1_ps(*at.scaled_sum.add(j));
                acc[j] = match S::SUBS {
                    0 => _mm512_fmadd_ps(step_m, sa, acc[j]),
                    _ => _mm512_fnmadd_ps(step_m, sa, acc[j]),
                };
            }
        }
    }
}

/// The factors of one half of a step.
///
/// # Safety
/// The CPU has the features; `sub` points to 16 sub-scales.
#[inline(always)]
unsafe fn half_scale<S: Scales>(sub: *const u8) -> __m512 {
    // SAFETY: granted by the caller.
    unsafe {
        _mm512_cvtepi32_ps(match S::MIN {
            true => _mm512_and_si512(bytes_u(sub), _mm512_set1_epi32(15)),
            false => bytes_i(sub),
        })
    }
}

/// The 4-bit minimums of both halves of a step, as pairs of i16.
///
/// # Safety
/// The CPU has the features; `sub` points to two times 16 sub-scales.
#[inline(always)]
unsafe fn minimum_pairs(sub: *const u8) -> __m512i {
    // SAFETY: granted by the caller.
    unsafe {
        let (first, second) = (bytes_u(sub), bytes_u(sub.add(16)));
        _mm512_srli_epi16::<4>(_mm512_or_si512(first, _mm512_slli_epi32::<16>(second)))
    }
}

/// The panels of a tile by its tokens.
///
/// # Safety
/// The CPU has the features of [`crate::isa::Avx512`]; the tile's arrays and output are as [`Tile`] says.
#[target_feature(enable = "avx512f,avx512bw,avx512vl,avx512dq,avx512vnni,avx2,f16c,fma,bmi2")]
pub(super) unsafe fn tile<Q: Unpack512, S: Scales>(x: &Tile<'_>) {
    // SAFETY: granted by the caller.
    unsafe {
        match (x.len, x.panels.len()) {
            (1, STREAMS) => kernel::<Q, S, 1, STREAMS>(x),
            (1, 1) => kernel::<Q, S, 1, 1>(x),
            (2, 1) => kernel::<Q, S, 2, 1>(x),
            (3, 1) => kernel::<Q, S, 3, 1>(x),
            (4, 1) => kernel::<Q, S, 4, 1>(x),
            (6, 1) => kernel::<Q, S, 6, 1>(x),
            (8, 1) => kernel::<Q, S, 8, 1>(x),
            (tokens, panels) => unreachable!("no kernel for {tokens} tokens and {panels} panels"),
        }
    }
}

/// Unpacks the quants of a panel to plain bytes.
///
/// # Safety
/// The CPU has the features of [`crate::isa::Avx512`]; both start at a multiple of 64, and `out` has room for the result.
#[target_feature(enable = "avx512f,avx512bw,avx512vl,avx512dq,avx512vnni,avx2,f16c,fma,bmi2")]
pub(super) unsafe fn expand<Q: Unpack512, S: Scales>(panel: &[u8], out: &mut [u8]) {
    for step in expansion::<Q, S>(panel.len()) {
        out[step.lines_to..][..step.lines.len()].copy_from_slice(&panel[step.lines]);
        let quants = panel[step.quants..][..Q::BYTES].as_ptr();
        let out = out[step.quants_to..][..Bytes::BYTES].as_mut_ptr();
        // SAFETY: a whole step on both sides, aligned as the caller grants (lines and steps are multiples of 64).
        unsafe {
            let (first, second) = (Q::unpack_half::<0>(quants), Q::unpack_half::<1>(quants));
            for i in 0..4 {
                _mm512_store_si512(out.add(i * GROUP).cast(), first[i]);
                _mm512_store_si512(out.add((4 + i) * GROUP).cast(), second[i]);
            }
        }
    }
}
