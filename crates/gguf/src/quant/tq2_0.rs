//! TQ2_0: 256 elements of three values; 64 bytes of 2-bit `t`, `d: f16`. Element: `(t - 1) d`.

use super::bits::f16_at;

pub(super) fn dequantize(block: &[u8; 66], out: &mut [f32; 256]) {
    let d = f16_at(block, 64);
    for (i, x) in out.iter_mut().enumerate() {
        let t = (block[i / 128 * 32 + i % 32] >> (2 * (i / 32 % 4))) & 3;
        *x = f32::from(t as i8 - 1) * d;
    }
}
