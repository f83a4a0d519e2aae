//! How the quants of a panel lie in memory: 16 rows by 32 consecutive k, the *step* of every kernel.
//!
//! A step has 8 groups of 4 k. Unpacked, a group is 64 bytes, `[row][4]`: one AVX-512 register, in which each 32-bit
//! lane is a row and meets the same 4 activations. A layout stores the *code* of each weight in as few bits as the
//! file does and unpacks it to an unsigned byte, `weight + offset` (the offset belongs to the [`Format`]):
//!
//! | layout | bytes | what lies there |
//! | --- | --- | --- |
//! | [`Bytes`] | 512 | the 8 groups |
//! | [`Nibbles`] | 256 | 4 x 64 bytes; byte `i` holds group `g` in its low and group `g + 4` in its high half |
//! | [`NibblesBit`] | 320 | 8 masks of 64 bits, bit 4 of each code of a group; then the same as `Nibbles` |
//! | [`NibblesPair`] | 384 | 2 planes of 64 bytes, bits 4 and 5, four groups to a byte; then the same as `Nibbles` |
//! | [`Pairs`] | 128 | 2 planes of 64 bytes: bits 0 and 1, four groups to a byte |
//! | [`PairsBit`] | 192 | 8 masks of 64 bits, bit 2 of each code of a group; then the same as `Pairs` |
//! | [`Iq4`], [`Fp4`] | 256 | as `Nibbles`; a code is an index into a table of weights |
//!
//! The SIMD forms of [`Quants::unpack`] are in `avx2.rs` and `avx512.rs`.
//!
//! [`Format`]: super::format::Format

#![expect(unsafe_code, reason = "packing by SIMD")]

use super::rearrange::Rearrange;

/// Rows of a step.
pub(super) const ROWS: usize = super::pack::PANEL_ROWS;
/// Bytes of one unpacked group: 16 rows x 4 k.
pub(super) const GROUP: usize = ROWS * 4;
/// Bytes of the masks of a step: a bit for each weight.
pub(super) const MASKS: usize = GROUPS * 8;
/// Groups in a step.
pub(super) const GROUPS: usize = 8;

/// The unpacked weights of a step, `[group][row][4]`.
pub(super) type StepBytes = [[u8; GROUP]; GROUPS];

/// The codes of a step, `[row][group]`, a word holding 4 of them from the lowest byte up. Bits above a code are ignored.
pub(super) type StepCodes = [[u32; GROUPS]; ROWS];

/// The same transposed, `[group][row]`.
pub(super) type StepGroups = [[u32; ROWS]; GROUPS];

/// A way to store the quants of a step.
pub(super) trait Quants {
    /// Bytes of a step.
    const BYTES: usize;
    /// Stores the codes of a step, overwriting all of it.
    ///
    /// # Safety
    /// The CPU has the features of `R`.
    unsafe fn put<R: Rearrange>(step: &mut [u8], codes: &StepGroups);
    /// All weights of a step, with the offset.
    fn unpack(step: &[u8]) -> StepBytes;
}

/// Whole bytes.
pub(super) struct Bytes;
/// Codes of 4 bits.
pub(super) struct Nibbles;
/// Codes of 5 bits.
pub(super) struct NibblesBit;
/// Codes of 6 bits.
pub(super) struct NibblesPair;
/// Codes of 2 bits.
pub(super) struct Pairs;
/// Codes of 3 bits.
pub(super) struct PairsBit;
/// Indices into [`IQ4_WEIGHTS`].
pub(super) struct Iq4;
/// Indices into [`FP4_WEIGHTS`].
pub(super) struct Fp4;

/// The weights that IQ4 codes stand for, plus the offset 128.
pub(super) const IQ4_WEIGHTS: [u8; 16] = with_offset(super::format::IQ4_VALUES, 128);
/// The weights that FP4 codes stand for, plus the offset 16.
pub(super) const FP4_WEIGHTS: [u8; 16] = with_offset(super::format::FP4_VALUES, 16);

const fn with_offset(values: [i8; 16], offset: i32) -> [u8; 16] {
    let mut out = [0; 16];
    let mut i = 0;
    while i < 16 {
        out[i] = (values[i] as i32 + offset) as u8;
        i += 1;
    }
    out
}

impl Quants for Bytes {
    const BYTES: usize = GROUPS * GROUP;

    #[inline(always)]
    unsafe fn put<R: Rearrange>(step: &mut [u8], codes: &StepGroups) {
        for (g, &codes) in codes.iter().enumerate() {
            put_group(step, g, codes);
        }
    }

    fn unpack(step: &[u8]) -> StepBytes {
        std::array::from_fn(|g| group(step, g))
    }
}

impl Quants for Nibbles {
    const BYTES: usize = 4 * GROUP;

    #[inline(always)]
    unsafe fn put<R: Rearrange>(step: &mut [u8], codes: &StepGroups) {
        for g in 0..4 {
            let mut nibbles = codes[g];
            for (low, high) in nibbles.iter_mut().zip(&codes[g + 4]) {
                *low = *low & 0x0F0F_0F0F | (high & 0x0F0F_0F0F) << 4;
            }
            put_group(step, g, nibbles);
        }
    }

    fn unpack(step: &[u8]) -> StepBytes {
        std::array::from_fn(|g| group(step, g % 4).map(|b| (b >> (g / 4 * 4)) & 15))
    }
}

impl Quants for NibblesBit {
    const BYTES: usize = MASKS + Nibbles::BYTES;

    #[inline(always)]
    unsafe fn put<R: Rearrange>(step: &mut [u8], codes: &StepGroups) {
        // SAFETY: granted by the caller.
        unsafe {
            let (masks, nibbles) = step.split_at_mut(MASKS);
            put_masks::<R>(masks, codes, 4);
            Nibbles::put::<R>(nibbles, codes);
        }
    }

    fn unpack(step: &[u8]) -> StepBytes {
        let (masks, nibbles) = step.split_at(MASKS);
        let mut weights = Nibbles::unpack(nibbles);
        add_masks(&mut weights, masks, 4);
        weights
    }
}

impl Quants for NibblesPair {
    const BYTES: usize = Pairs::BYTES + Nibbles::BYTES;

    #[inline(always)]
    unsafe fn put<R: Rearrange>(step: &mut [u8], codes: &StepGroups) {
        // SAFETY: granted by the caller.
        unsafe {
            let (pairs, nibbles) = step.split_at_mut(Pairs::BYTES);
            let mut high = *codes;
            high.as_flattened_mut().iter_mut().for_each(|code| *code >>= 4);
            Pairs::put::<R>(pairs, &high);
            Nibbles::put::<R>(nibbles, codes);
        }
    }

    fn unpack(step: &[u8]) -> StepBytes {
        let (pairs, nibbles) = step.split_at(Pairs::BYTES);
        let mut weights = Nibbles::unpack(nibbles);
        let high = Pairs::unpack(pairs);
        for (w, h) in weights.as_flattened_mut().iter_mut().zip(high.as_flattened()) {
            *w |= h << 4;
        }
        weights
    }
}

impl Quants for Pairs {
    const BYTES: usize = 2 * GROUP;

    #[inline(always)]
    unsafe fn put<R: Rearrange>(step: &mut [u8], codes: &StepGroups) {
        for plane in 0..2 {
            let mut pairs = [0; ROWS];
            for (i, group) in codes[plane * 4..][..4].iter().enumerate() {
                for (pairs, code) in pairs.iter_mut().zip(group) {
                    *pairs |= (code & 0x0303_0303) << (i * 2);
                }
            }
            put_group(step, plane, pairs);
        }
    }

    fn unpack(step: &[u8]) -> StepBytes {
        std::array::from_fn(|g| group(step, g / 4).map(|b| (b >> (g % 4 * 2)) & 3))
    }
}

impl Quants for PairsBit {
    const BYTES: usize = MASKS + Pairs::BYTES;

    #[inline(always)]
    unsafe fn put<R: Rearrange>(step: &mut [u8], codes: &StepGroups) {
        // SAFETY: granted by the caller.
        unsafe {
            let (masks, pairs) = step.split_at_mut(MASKS);
            put_masks::<R>(masks, codes, 2);
            Pairs::put::<R>(pairs, codes);
        }
    }

    fn unpack(step: &[u8]) -> StepBytes {
        let (masks, pairs) = step.split_at(MASKS);
        let mut weights = Pairs::unpack(pairs);
        add_masks(&mut weights, masks, 2);
        weights
    }
}

impl Quants for Iq4 {
    const BYTES: usize = Nibbles::BYTES;

    #[inline(always)]
    unsafe fn put<R: Rearrange>(step: &mut [u8], codes: &StepGroups) {
        // SAFETY: granted by the caller.
        unsafe { Nibbles::put::<R>(step, codes) }
    }

    fn unpack(step: &[u8]) -> StepBytes {
        Nibbles::unpack(step).map(|g| g.map(|code| IQ4_WEIGHTS[code as usize]))
    }
}

impl Quants for Fp4 {
    const BYTES: usize = Nibbles::BYTES;

    #[inline(always)]
    unsafe fn put<R: Rearrange>(step: &mut [u8], codes: &StepGroups) {
        // SAFETY: granted by the caller.
        unsafe { Nibbles::put::<R>(step, codes) }
    }

    fn unpack(step: &[u8]) -> StepBytes {
        Nibbles::unpack(step).map(|g| g.map(|code| FP4_WEIGHTS[code as usize]))
    }
}

#[inline(always)]
fn put_group(step: &mut [u8], group: usize, rows: [u32; ROWS]) {
    let words = step[group * GROUP..][..GROUP].as_chunks_mut::<4>().0;
    for (word, row) in words.iter_mut().zip(rows) {
        *word = row.to_le_bytes();
    }
}

fn group(step: &[u8], index: usize) -> [u8; GROUP] {
    let (groups, _) = step.as_chunks::<GROUP>();
    groups[index]
}

/// Stores bit `shift` of each code: in the mask of a group, row `r` has the bits `4r..4r + 4`.
///
/// # Safety
/// The CPU has the features of `R`.
#[inline(always)]
unsafe fn put_masks<R: Rearrange>(masks: &mut [u8], codes: &StepGroups, shift: i32) {
    for (mask, group) in masks[..MASKS].as_chunks_mut::<8>().0.iter_mut().zip(codes) {
        // SAFETY: granted by the caller.
        *mask = unsafe { R::mask(group, shift) }.to_le_bytes();
    }
}

/// Adds the mask bits to every weight as bit `shift`.
fn add_masks(weights: &mut StepBytes, masks: &[u8], shift: u32) {
    for (g, mask) in weights.iter_mut().zip(masks.as_chunks::<8>().0) {
        let mask = u64::from_le_bytes(*mask);
        for (i, w) in g.iter_mut().enumerate() {
            *w |= ((mask >> i & 1) as u8) << shift;
        }
    }
}

#[cfg(test)]
mod tests {
    use super::super::rearrange::Plain;
    use super::*;

    /// Random codes go in and come out, row by row, and use every bit of the layout.
    fn round_trip<Q: Quants>(bits: u32, table: Option<[u8; 16]>) {
        let mask = 0x0101_0101 * ((1u32 << bits) - 1);
        let codes: StepGroups = std::array::from_fn(|g| {
            std::array::from_fn(|row| (row as u32 * 8 + g as u32 + 1).wrapping_mul(0x9E37_79B9) & mask)
        });
        let mut step = vec![0xA5; Q::BYTES];
        // SAFETY: `Plain` needs no feature.
        unsafe { Q::put::<Plain>(&mut step, &codes) };
        let weights = Q::unpack(&step);
        for (g, c) in codes.iter().enumerate() {
            for row in 0..ROWS {
                let expected = c[row].to_le_bytes().map(|code| table.map_or(code, |t| t[code as usize]));
                assert_eq!(weights[g][row * 4..][..4], expected, "row {row} group {g}");
            }
        }
        assert_eq!(Q::BYTES * 8, 16 * 32 * bits as usize);
    }

    #[test]
    fn every_layout_returns_what_was_put() {
        round_trip::<Bytes>(8, None);
        round_trip::<Nibbles>(4, None);
        round_trip::<NibblesBit>(5, None);
        round_trip::<NibblesPair>(6, None);
        round_trip::<Pairs>(2, None);
        round_trip::<PairsBit>(3, None);
        round_trip::<Iq4>(4, Some(IQ4_WEIGHTS));
        round_trip::<Fp4>(4, Some(FP4_WEIGHTS));
    }
}
