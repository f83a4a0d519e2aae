//! IQ2_S: 256 elements in rows of 8; `d: f16`, 32 bytes of grid rows, 32 bytes of signs, 8 bytes of bit pairs that
//! complete the grid rows, 8 bytes of scales, a nibble per two rows. Element: `(d (0.5 + scale) 0.25) (± level)`.

use super::bits::{f16_at, nibble, signed};
use super::{grids, iq2_xxs::LEVELS};

pub(super) fn dequantize(block: &[u8; 82], out: &mut [f32; 256]) {
    let d = f16_at(block, 0);
    let (low, signs, high, scales) = (&block[2..34], &block[34..66], &block[66..74], &block[74..]);
    for (row, eight) in out.as_chunks_mut::<8>().0.iter_mut().enumerate() {
        let scale = d * (0.5 + f32::from(nibble(scales, row / 2))) * 0.25;
        let pair = (high[row / 4] >> (2 * (row % 4))) & 3;
        let code = grids::IQ2_S[usize::from(low[row]) | usize::from(pair) << 8];
        let levels = grids::row8(code, &LEVELS);
        *eight = std::array::from_fn(|i| signed(scale * levels[i], signs[row], i));
    }
}
