//! Q2_K: 256 elements in 16 groups; 16 bytes of scale (low nibble) and minimum (high nibble) per group, 64 bytes of
//! 2-bit `q`, `d: f16`, `m: f16`. Element: `(d scale) q - (m minimum)`.

use super::bits::f16_at;

pub(super) fn dequantize(block: &[u8; 84], out: &mut [f32; 256]) {
    let (scales, quants) = (&block[..16], &block[16..80]);
    let (d, m) = (f16_at(block, 80), f16_at(block, 82));
    for (i, x) in out.iter_mut().enumerate() {
        // 128 elements lie in 32 bytes, one in each of the four bit pairs.
        let q = (quants[i / 128 * 32 + i % 32] >> (2 * (i / 32 % 4))) & 3;
        let scale = scales[i / 16];
        *x = d * f32::from(scale & 15) * f32::from(q) - m * f32::from(scale >> 4);
    }
}
