//! IQ3_S: 256 elements in rows of 4; `d: f16`, 64 bytes of grid rows, 8 bytes of ninth bits, 32 bytes of signs,
//! 4 bytes of scales, a nibble per 8 rows. Element: `(d (1 + 2 scale)) (± level)`.

use super::bits::{f16_at, nibble, signed};
use super::grids;

const LEVELS: [f32; 8] = [1.0, 3.0, 5.0, 7.0, 9.0, 11.0, 13.0, 15.0];

pub(super) fn dequantize(block: &[u8; 110], out: &mut [f32; 256]) {
    let d = f16_at(block, 0);
    let (low, ninth, signs, scales) = (&block[2..66], &block[66..74], &block[74..106], &block[106..]);
    for (row, four) in out.as_chunks_mut::<4>().0.iter_mut().enumerate() {
        let scale = d * f32::from(1 + 2 * nibble(scales, row / 8));
        let high = ninth[row / 8] >> (row % 8) & 1;
        let levels = grids::row4(grids::IQ3_S[usize::from(low[row]) | usize::from(high) << 8], &LEVELS);
        let signs = signs[row / 2] >> (4 * (row % 2));
        *four = std::array::from_fn(|i| signed(scale * levels[i], signs, i));
    }
}
