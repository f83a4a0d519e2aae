//! Q6_K: 256 elements in 16 groups; 128 bytes of low nibbles, 64 bytes of high bit pairs, 16 signed byte scales,
//! `d: f16`. Element: `(d scale) (q - 32)`.

use super::bits::f16_at;

pub(super) fn dequantize(block: &[u8; 210], out: &mut [f32; 256]) {
    let (low, high, scales) = (&block[..128], &block[128..192], &block[192..208]);
    let d = f16_at(block, 208);
    for (i, x) in out.iter_mut().enumerate() {
        // A half of 128 elements has 64 bytes of nibbles and 32 bytes of bit pairs, in four quarters of 32.
        let (half, quarter, lane) = (i / 128, i / 32 % 4, i % 32);
        let nibble = (low[half * 64 + quarter % 2 * 32 + lane] >> (4 * (quarter / 2))) & 15;
        let pair = (high[half * 32 + lane] >> (2 * quarter)) & 3;
        let q = (nibble | pair << 4) as i8 - 32;
        *x = d * f32::from(scales[i / 16] as i8) * f32::from(q);
    }
}
