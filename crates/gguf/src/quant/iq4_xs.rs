//! IQ4_XS: 256 elements in 8 groups of 32; `d: f16`, high bit pairs of the scales: u16, their low nibbles: 4 bytes,
//! 128 bytes of nibbles laid out as in IQ4_NL. Element: `(d (scale - 32)) level`.

use super::bits::{IQ4_LEVELS, f16_at, half_split_nibble, nibble, u16_at};

pub(super) fn dequantize(block: &[u8; 136], out: &mut [f32; 256]) {
    let (d, high) = (f16_at(block, 0), u16_at(block, 2));
    for (j, group) in out.as_chunks_mut::<32>().0.iter_mut().enumerate() {
        let pair = (high >> (2 * j) & 3) as u8;
        let scale = (nibble(&block[4..8], j) | pair << 4) as i8 - 32;
        let scale = d * f32::from(scale);
        let quants = &block[8 + 16 * j..];
        for (i, x) in group.iter_mut().enumerate() {
            *x = scale * IQ4_LEVELS[usize::from(half_split_nibble(quants, i))];
        }
    }
}
