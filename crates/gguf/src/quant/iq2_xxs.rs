//! IQ2_XXS: 256 elements in 8 groups of 32; `d: f16`, then per group two u32: four grid rows, one byte each; four
//! times seven sign bits and a 4-bit scale on top. Element: `(d (0.5 + scale) 0.25) (± level)`.

use super::bits::{even_signs, f16_at, signed, u32_at};
use super::grids;

/// The levels of all IQ2 grids.
pub(super) const LEVELS: [f32; 4] = [8.0, 25.0, 43.0, 0.0];

pub(super) fn dequantize(block: &[u8; 66], out: &mut [f32; 256]) {
    let d = f16_at(block, 0);
    for (j, group) in out.as_chunks_mut::<32>().0.iter_mut().enumerate() {
        let rows = &block[2 + 8 * j..];
        let word = u32_at(rows, 4);
        let scale = d * (0.5 + (word >> 28) as f32) * 0.25;
        for (l, eight) in group.as_chunks_mut::<8>().0.iter_mut().enumerate() {
            let levels = grids::row8(grids::IQ2_XXS[usize::from(rows[l])], &LEVELS);
            let signs = even_signs(word >> (7 * l));
            *eight = std::array::from_fn(|i| signed(scale * levels[i], signs, i));
        }
    }
}
