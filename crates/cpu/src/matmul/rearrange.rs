//! Raw blocks of 16 rows become a panel.
//!
//! A file holds one row after the other, a panel holds what 16 rows have at the same place: everything is transposed.
//! [`Plain`] says how, word by word; `rearrange_avx2.rs` does the same with shuffles. Packing moves bits and rounds nothing,
//! so both give the same bytes.

#![expect(unsafe_code, reason = "one of the implementations is SIMD")]

use super::format::Format;
use super::quants::{GROUPS, Quants, ROWS, StepCodes, StepGroups};
use super::scales::Scales;
use super::walk::Walk;

/// Sub-scales of a block and row, at most.
pub(super) const SUBS: usize = 16;

/// The transpositions that packing is made of.
pub(super) trait Rearrange {
    /// `[row][group]` to `[group][row]`.
    ///
    /// # Safety
    /// The CPU has the features that the implementation names.
    unsafe fn groups(codes: &StepCodes) -> StepGroups;
    /// `[row][sub-scale]` to `[sub-scale][row]`.
    ///
    /// # Safety
    /// As for [`Rearrange::groups`].
    unsafe fn subs(rows: &[[u8; SUBS]; ROWS]) -> [[u8; ROWS]; SUBS];
    /// Bit `shift` (below 8) of each of the 64 bytes, the first in the lowest bit.
    ///
    /// # Safety
    /// As for [`Rearrange::groups`].
    unsafe fn mask(group: &[u32; ROWS], shift: i32) -> u64;
}

/// The definition; needs no feature.
pub(super) struct Plain;

impl Rearrange for Plain {
    unsafe fn groups(codes: &StepCodes) -> StepGroups {
        std::array::from_fn(|group| codes.map(|row| row[group]))
    }

    unsafe fn subs(rows: &[[u8; SUBS]; ROWS]) -> [[u8; ROWS]; SUBS] {
        std::array::from_fn(|sub| rows.map(|row| row[sub]))
    }

    unsafe fn mask(group: &[u32; ROWS], shift: i32) -> u64 {
        group.iter().enumerate().fold(0, |mask, (row, word)| {
            // The product gathers bits 0, 8, 16 and 24 in its upper four.
            let four = (word >> shift & 0x0101_0101).wrapping_mul(0x1020_4080) >> 28;
            mask | u64::from(four) << (row * 4)
        })
    }
}

/// Packs up to 16 raw rows of `row_bytes` into a panel that was zero.
///
/// # Safety
/// The CPU has the features of `R`.
#[inline(always)]
pub(super) unsafe fn put_panel<F: Format, R: Rearrange>(raw: &[u8], row_bytes: usize, panel: &mut [u8]) {
    let mut walk = Walk::default();
    for at in (0..row_bytes).step_by(F::TYPE.block_bytes()) {
        let raw = &raw[at..];
        put_block_scales::<F>(raw, row_bytes, &mut panel[walk.block::<F::Scales>()..]);
        // SAFETY: granted by the caller.
        let subs = unsafe { sub_scales::<F, R>(raw, row_bytes) };
        for step in 0..F::Scales::STEPS {
            let n = F::Scales::SUBS;
            let out = &mut panel[walk.subs::<F::Scales>()..][..n * ROWS];
            out.copy_from_slice(subs[step * n..][..n].as_flattened());
            let mut codes = [[0; GROUPS]; ROWS];
            for (codes, raw) in codes.iter_mut().zip(raw.chunks(row_bytes)) {
                *codes = F::codes(raw, step);
            }
            let out = &mut panel[walk.quants(F::Quants::BYTES)..][..F::Quants::BYTES];
            // SAFETY: granted by the caller.
            unsafe { F::Quants::put::<R>(out, &R::groups(&codes)) };
        }
    }
}

#[inline(always)]
fn put_block_scales<F: Format>(raw: &[u8], row_bytes: usize, out: &mut [u8]) {
    for (row, block) in raw.chunks(row_bytes).enumerate() {
        let [d, m] = F::block_scales(block);
        match F::Scales::E8M0 {
            true => out[row] = d[0],
            false => out[row * 2..][..2].copy_from_slice(&d),
        }
        if F::Scales::MIN {
            out[32 + row * 2..][..2].copy_from_slice(&m);
        }
    }
}

/// The sub-scales of a block, `[step][of the step][row]`.
///
/// # Safety
/// The CPU has the features of `R`.
#[inline(always)]
unsafe fn sub_scales<F: Format, R: Rearrange>(raw: &[u8], row_bytes: usize) -> [[u8; ROWS]; SUBS] {
    const { assert!(F::Scales::STEPS * F::Scales::SUBS <= SUBS) };
    let mut subs = [[0; SUBS]; ROWS];
    if F::Scales::SUBS == 0 {
        return subs;
    }
    for (block, subs) in raw.chunks(row_bytes).zip(&mut subs) {
        for (step, subs) in subs.chunks_exact_mut(F::Scales::SUBS).take(F::Scales::STEPS).enumerate() {
            subs.copy_from_slice(&F::sub_scales(block, step)[..F::Scales::SUBS]);
        }
    }
    // SAFETY: granted by the caller.
    unsafe { R::subs(&subs) }
}
