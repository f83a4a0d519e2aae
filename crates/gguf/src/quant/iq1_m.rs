//! IQ1_M: 256 elements in rows of 8; 32 bytes of grid rows, 16 bytes of nibbles (three bits that complete the grid
//! row, the sign of the shift), four u16 that each hold four 3-bit scales (one per two rows) and, on top, a nibble of
//! `d: f16`. Element: `(d (2 scale + 1)) (level ± 1/8)`.

use super::bits::{nibble, u16_at};
use super::grids;
use super::iq1_s::{LEVELS, SHIFT};

pub(super) fn dequantize(block: &[u8; 56], out: &mut [f32; 256]) {
    let words: [u16; 4] = std::array::from_fn(|i| u16_at(block, 48 + 2 * i));
    let d_bits = (0..4).fold(0, |bits, i| bits | (words[i] >> 12) << (4 * i));
    let d = half::f16::from_bits(d_bits).to_f32();
    for (row, eight) in out.as_chunks_mut::<8>().0.iter_mut().enumerate() {
        let scale = words[row / 8] >> (3 * (row / 2 % 4)) & 7;
        let scale = d * f32::from(2 * scale + 1);
        let extra = nibble(&block[32..48], row);
        let shift = if extra >> 3 == 1 { -SHIFT } else { SHIFT };
        let code = grids::IQ1_S[usize::from(block[row]) | usize::from(extra & 7) << 8];
        *eight = grids::row8(code, &LEVELS).map(|level| scale * (level + shift));
    }
}
