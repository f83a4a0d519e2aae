//! IQ2_XS: 256 elements in rows of 8; `d: f16`, 32 u16 (9 bits of grid row, 7 of signs), 8 bytes of scales, a nibble
//! per two rows. Element: `(d (0.5 + scale) 0.25) (± level)`.

use super::bits::{even_signs, f16_at, nibble, signed, u16_at};
use super::{grids, iq2_xxs::LEVELS};

pub(super) fn dequantize(block: &[u8; 74], out: &mut [f32; 256]) {
    let d = f16_at(block, 0);
    for (row, eight) in out.as_chunks_mut::<8>().0.iter_mut().enumerate() {
        let scale = d * (0.5 + f32::from(nibble(&block[66..], row / 2))) * 0.25;
        let code = u16_at(block, 2 + 2 * row);
        let levels = grids::row8(grids::IQ2_XS[usize::from(code & 511)], &LEVELS);
        let signs = even_signs(u32::from(code >> 9));
        *eight = std::array::from_fn(|i| signed(scale * levels[i], signs, i));
    }
}
