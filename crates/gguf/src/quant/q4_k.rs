//! Q4_K: 256 elements in 8 groups of 32; `d: f16`, `m: f16`, 12 bytes of 6-bit scales and minimums, 128 bytes of
//! nibbles. Element: `(d scale) q - (m minimum)`.

use super::bits::{f16_at, scale_and_min};

pub(super) fn dequantize(block: &[u8; 144], out: &mut [f32; 256]) {
    let (d, m) = (f16_at(block, 0), f16_at(block, 2));
    let (scales, quants) = (&block[4..16], &block[16..]);
    for (j, group) in out.as_chunks_mut::<32>().0.iter_mut().enumerate() {
        let (scale, min) = scale_and_min(scales, j);
        let (scale, min) = (d * f32::from(scale), m * f32::from(min));
        for (i, x) in group.iter_mut().enumerate() {
            // Two groups share 32 bytes: the even one has the low nibbles.
            let q = (quants[j / 2 * 32 + i] >> (4 * (j % 2))) & 15;
            *x = scale * f32::from(q) - min;
        }
    }
}
