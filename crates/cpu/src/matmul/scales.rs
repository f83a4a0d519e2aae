//! How the scales of a panel lie in memory, and what a kernel does with them.
//!
//! For each block of the file format there are the scales of its 16 rows, dealt out between the quants (`walk.rs`):
//!
//! ```text
//! [d: 16 x f16 (E8M0: 16 x u8)] [m: 16 x f16, if MIN] then for each step of 32 k: SUBS x [16 x u8]
//! ```
//!
//! With `isum` the exact dot product of a step (`isum0`, `isum1` of its halves), `da` the scale of the activations and
//! `sa` their scaled sum, a step adds to the accumulator, each operation written here rounded once to f32:
//!
//! | scheme | adds | sub-scales of a step |
//! | --- | --- | --- |
//! | [`Block`], [`BlockE8m0`] | `fma(isum, d*da, acc)` | |
//! | [`BlockMin`] | the same, then `fma(m, sa, acc)` | |
//! | [`Sub`] | `fma(isum, (d*sc)*da, acc)` | `sc: i8` |
//! | [`SubMin`] | `fma(isum, (d*sc)*da, acc)`, then `fma(-(m*mn), sa, acc)` | `sc: u8`, `mn: u8` |
//! | [`Halves`] | `fma(t, da, acc)` of `t = fma(isum1, d*sc1, isum0*(d*sc0))` | `sc0: i8`, `sc1: i8` |
//! | [`HalvesMin`] | `fma(fma(-(mn0*s0 + mn1*s1), m, t), da, acc)` | `sc0 + 16*mn0: u8`, `sc1 + 16*mn1: u8` |
//!
//! `s0` and `s1` are the sums of the int8 activations of the halves. The products with `d` come first because they serve
//! all tokens: an f32 operation per token and step less than scaling an integer sum, for one rounding more.
//!
//! Bounds, with activations in -127..=127: a step |isum| <= 32*128*127 = 520 192, with the offset left in at most
//! 32*255*127 = 1 036 320; the minimums of `HalvesMin` 2 * 15*16*127 = 60 960. All stay below 2^24, so no i32 overflows
//! and f32 holds every one of these integers exactly.

use half::f16;

/// A way to scale the steps of a block.
pub(super) trait Scales {
    /// Steps of 32 k in a block.
    const STEPS: usize = 1;
    /// The block scale is a power of two in one byte.
    const E8M0: bool = false;
    /// There is a second f16 scale, for what is subtracted (or added). Weights of such types have no offset.
    const MIN: bool = false;
    /// Bytes of sub-scales per row and step.
    const SUBS: usize = 0;
    /// The two halves of a step have scales of their own.
    const HALVES: bool = false;

    /// Correction words that kernels read per step and token: see [`super::corrections::Correction`].
    const CORRECTIONS: usize = match (Self::HALVES, Self::MIN) {
        (false, true) => 0,
        (true, false) => 2,
        _ => 1,
    };
    /// Bytes before the sub-scales of a block.
    const FIXED: usize = if Self::E8M0 { 16 } else { 32 } + if Self::MIN { 32 } else { 0 };
    /// Bytes of scales per block.
    const BYTES: usize = Self::FIXED + Self::STEPS * Self::SUBS * 16;
}

/// One scale per 32 k.
pub(super) struct Block;
/// One power of two per 32 k.
pub(super) struct BlockE8m0;
/// Scale and minimum per 32 k.
pub(super) struct BlockMin;
/// One scale per 256 k, and a signed factor per 32.
pub(super) struct Sub;
/// Scale and minimum per 256 k, and factors of both per 32.
pub(super) struct SubMin;
/// One scale per 256 k, and a signed factor per 16.
pub(super) struct Halves;
/// Scale and minimum per 256 k, and 4-bit factors of both per 16.
pub(super) struct HalvesMin;

impl Scales for Block {}

impl Scales for BlockE8m0 {
    const E8M0: bool = true;
}

impl Scales for BlockMin {
    const MIN: bool = true;
}

impl Scales for Sub {
    const STEPS: usize = 8;
    const SUBS: usize = 1;
}

impl Scales for SubMin {
    const STEPS: usize = 8;
    const MIN: bool = true;
    const SUBS: usize = 2;
}

impl Scales for Halves {
    const STEPS: usize = 8;
    const SUBS: usize = 2;
    const HALVES: bool = true;
}

impl Scales for HalvesMin {
    const STEPS: usize = 8;
    const MIN: bool = true;
    const SUBS: usize = 2;
    const HALVES: bool = true;
}

/// The scales of one row and step.
#[derive(Clone, Copy, Default)]
pub(super) struct RowScales {
    /// The block scale.
    pub(super) d: f32,
    /// The block minimum, or 0.
    pub(super) m: f32,
    /// Factors of `d` for the halves of the step (equal unless `HALVES`), or 1.
    pub(super) sc: [i32; 2],
    /// Factors of `m` for the halves of the step (equal unless `HALVES`), or 1.
    pub(super) mn: [i32; 2],
}

impl RowScales {
    /// Reads the scales of `row`: `block` are those of the block (`S::FIXED` bytes), `subs` the sub-scales of the step.
    pub(super) fn read<S: Scales>(block: &[u8], subs: &[u8], row: usize) -> RowScales {
        let half = |at: usize| f16::from_le_bytes([block[at + row * 2], block[at + row * 2 + 1]]).to_f32();
        let sub = |i: usize| subs[i * 16 + row];
        let (sc, mn) = match (S::SUBS, S::MIN) {
            (0, _) => ([1; 2], [1; 2]),
            (1, _) => ([(sub(0) as i8).into(); 2], [1; 2]),
            (_, false) => ([(sub(0) as i8).into(), (sub(1) as i8).into()], [1; 2]),
            (_, true) if S::HALVES => {
                ([0, 1].map(|i| (sub(i) & 15).into()), [0, 1].map(|i| (sub(i) >> 4).into()))
            }
            (_, true) => ([sub(0).into(); 2], [sub(1).into(); 2]),
        };
        RowScales {
            d: if S::E8M0 { e8m0_half(block[row]) } else { half(0) },
            m: if S::MIN { half(32) } else { 0.0 },
            sc,
            mn,
        }
    }
}

impl RowScales {
    /// What a weight of the step is worth, where halves don't differ: `d`, or `d * sc`.
    #[inline(always)]
    pub(super) fn step_scale<S: Scales>(&self) -> f32 {
        if S::SUBS > 0 { self.d * self.sc[0] as f32 } else { self.d }
    }

    /// What is added to every weight of the step, where halves don't differ: `m`, or `-(m * mn)`.
    #[inline(always)]
    pub(super) fn step_offset<S: Scales>(&self) -> f32 {
        if S::SUBS > 0 { -(self.m * self.mn[0] as f32) } else { self.m }
    }

    /// The weight `q` (without offset) of half `half` as a float, with the roundings of GGML's dequantization.
    pub(super) fn dequantize<S: Scales>(&self, q: f32, half: usize) -> f32 {
        let scaled = if S::SUBS > 0 { self.d * self.sc[half] as f32 * q } else { self.d * q };
        match (S::MIN, S::SUBS > 0) {
            (false, _) => scaled,
            (true, false) => scaled + self.m,
            (true, true) => scaled - self.m * self.mn[half] as f32,
        }
    }
}

/// Half of the power of two that an E8M0 byte stands for, `2^(e - 128)`: the weights of FP4 are stored doubled.
pub(super) fn e8m0_half(e: u8) -> f32 {
    // The first two are subnormal, 2^-128 and 2^-127.
    f32::from_bits(if e < 2 { 0x0020_0000 << e } else { (u32::from(e) - 1) << 23 })
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn e8m0_is_half_a_power_of_two() {
        for e in 0..=255u8 {
            assert_eq!(f64::from(e8m0_half(e)), 2f64.powi(i32::from(e) - 128), "{e}");
        }
    }
}
