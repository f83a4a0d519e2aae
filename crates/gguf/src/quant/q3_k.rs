//! Q3_K: 256 elements in 16 groups; 32 bytes of third bits, 64 bytes of low bit pairs, 12 bytes of 6-bit scales,
//! `d: f16`. Element: `(d (scale - 32)) (q - 4)`.

use super::bits::f16_at;

pub(super) fn dequantize(block: &[u8; 110], out: &mut [f32; 256]) {
    let (third, low, scales) = (&block[..32], &block[32..96], &block[96..108]);
    let d = f16_at(block, 108);
    for (i, x) in out.iter_mut().enumerate() {
        let q = (low[i / 128 * 32 + i % 32] >> (2 * (i / 32 % 4))) & 3;
        let q = q | (third[i % 32] >> (i / 32) & 1) << 2;
        *x = d * f32::from(scale(scales, i / 16) - 32) * f32::from(q as i8 - 4);
    }
}

/// Scale `j`: its low nibble lies in the first 8 bytes (low nibbles are 0 to 7), two more bits in the last 4.
fn scale(packed: &[u8], j: usize) -> i8 {
    let low = (packed[j % 8] >> (4 * (j / 8))) & 15;
    let high = (packed[8 + j % 4] >> (2 * (j / 4))) & 3;
    (low | high << 4) as i8
}
