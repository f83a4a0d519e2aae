//! IQ3_XXS: 256 elements in 8 groups of 32; `d: f16`, 64 bytes of grid rows of 4, then per group a u32: four times
//! seven sign bits and a 4-bit scale on top. Element: `(d (0.5 + scale) 0.5) (± level)`.

use super::bits::{even_signs, f16_at, signed, u32_at};
use super::grids;

const LEVELS: [f32; 8] = [4.0, 12.0, 20.0, 28.0, 36.0, 44.0, 52.0, 62.0];

pub(super) fn dequantize(block: &[u8; 98], out: &mut [f32; 256]) {
    let d = f16_at(block, 0);
    for (j, group) in out.as_chunks_mut::<32>().0.iter_mut().enumerate() {
        let rows = &block[2 + 8 * j..];
        let word = u32_at(block, 66 + 4 * j);
        let scale = d * (0.5 + (word >> 28) as f32) * 0.5;
        for (k, four) in group.as_chunks_mut::<4>().0.iter_mut().enumerate() {
            let levels = grids::row4(grids::IQ3_XXS[usize::from(rows[k])], &LEVELS);
            let signs = even_signs(word >> (7 * (k / 2))) >> (4 * (k % 2));
            *four = std::array::from_fn(|i| signed(scale * levels[i], signs, i));
        }
    }
}
