//! Raw blocks of 16 rows become the header and the quants of a panel.
//!
//! A file holds one row after the other, a panel holds what 16 rows have at the same place: everything is transposed.
//! [`Plain`] says how, word by word; `rearrange_avx2.rs` does the same with shuffles. Packing moves bits and rounds nothing,
//! so both give the same bytes.

#![expect(unsafe_code, reason = "one of the implementations is SIMD")]

use super::format::Format;
use super::quants::{GROUPS, Quants, ROWS, StepCodes, StepGroups};
use super::scales::Scales;

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

/// Packs the raw blocks of up to 16 rows, `raw` being the first and each `row_bytes` after the one before, into a header
/// that was zero and quants.
///
/// # Safety
/// The CPU has the features of `R`.
#[inline(always)]
pub(super) unsafe fn put_blocks<F: Format, R: Rearrange>(
    raw: &[u8],
    row_bytes: usize,
    header: &mut [u8],
    quants: &mut [u8],
) {
    // SAFETY: granted by the caller.
    unsafe {
        put_scales::<F, R>(raw, row_bytes, header);
        for (step, quants) in quants.chunks_exact_mut(F::Quants::BYTES).enumerate() {
            let mut codes = [[0; GROUPS]; ROWS];
            for (codes, raw) in codes.iter_mut().zip(raw.chunks(row_bytes)) {
                *codes = F::codes(raw, step);
            }
            F::Quants::put::<R>(quants, &R::groups(&codes));
        }
    }
}

/// # Safety
/// The CPU has the features of `R`.
#[inline(always)]
unsafe fn put_scales<F: Format, R: Rearrange>(raw: &[u8], row_bytes: usize, header: &mut [u8]) {
    const { assert!(F::Scales::STEPS * F::Scales::SUBS <= SUBS) };
    let mut subs = [[0; SUBS]; ROWS];
    for (row, (block, subs)) in raw.chunks(row_bytes).zip(&mut subs).enumerate() {
        let [d, m] = F::block_scales(block);
        match F::Scales::E8M0 {
            true => header[row] = d[0],
            false => header[row * 2..][..2].copy_from_slice(&d),
        }
        if F::Scales::MIN {
            header[32 + row * 2..][..2].copy_from_slice(&m);
        }
        for step in 0..F::Scales::STEPS {
            let sub = F::sub_scales(block, step);
            for i in 0..F::Scales::SUBS {
                subs[step * F::Scales::SUBS + i] = sub[i];
            }
        }
    }
    if F::Scales::SUBS > 0 {
        // SAFETY: granted by the caller.
        let columns = unsafe { R::subs(&subs) };
        let len = F::Scales::STEPS * F::Scales::SUBS * ROWS;
        header[F::Scales::FIXED..][..len].copy_from_slice(&columns.as_flattened()[..len]);
    }
}
