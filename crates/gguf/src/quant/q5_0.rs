//! Q5_0: 32 elements; scale `d: f16`, 32 fifth bits, 16 bytes of nibbles. Element: `(q - 16) d`.

use super::bits::{f16_at, half_split_nibble, u32_at};

pub(super) fn dequantize(block: &[u8; 22], out: &mut [f32; 32]) {
    let d = f16_at(block, 0);
    let fifth = u32_at(block, 2);
    for (i, x) in out.iter_mut().enumerate() {
        let q = half_split_nibble(&block[6..], i) | (((fifth >> i & 1) as u8) << 4);
        *x = f32::from(q as i8 - 16) * d;
    }
}
