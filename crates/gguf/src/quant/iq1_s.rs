//! IQ1_S: 256 elements in 8 groups of 32; `d: f16`, 32 bytes of grid rows of 8, then per group a u16: four times
//! three bits that complete the grid rows, a 3-bit scale, the sign of the shift.
//! Element: `(d (2 scale + 1)) (level ± 1/8)`.

use super::bits::{f16_at, u16_at};
use super::grids;

/// The levels of the IQ1 grid.
pub(super) const LEVELS: [f32; 4] = [-1.0, 0.0, 1.0, 0.0];
/// What is added to, or subtracted from, all levels of a row.
pub(super) const SHIFT: f32 = 0.125;

pub(super) fn dequantize(block: &[u8; 50], out: &mut [f32; 256]) {
    let d = f16_at(block, 0);
    for (j, group) in out.as_chunks_mut::<32>().0.iter_mut().enumerate() {
        let word = u16_at(block, 34 + 2 * j);
        let scale = d * f32::from(2 * (word >> 12 & 7) + 1);
        let shift = if word >> 15 == 1 { -SHIFT } else { SHIFT };
        for (l, eight) in group.as_chunks_mut::<8>().0.iter_mut().enumerate() {
            let high = word >> (3 * l) & 7;
            let code = grids::IQ1_S[usize::from(block[2 + 4 * j + l]) | usize::from(high) << 8];
            *eight = grids::row8(code, &LEVELS).map(|level| scale * (level + shift));
        }
    }
}
