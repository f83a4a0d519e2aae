//! Q5_1: 32 elements; scale `d: f16`, offset `m: f16`, 32 fifth bits, 16 bytes of nibbles. Element: `q d + m`.

use super::bits::{f16_at, half_split_nibble, u32_at};

pub(super) fn dequantize(block: &[u8; 24], out: &mut [f32; 32]) {
    let (d, m) = (f16_at(block, 0), f16_at(block, 2));
    let fifth = u32_at(block, 4);
    for (i, x) in out.iter_mut().enumerate() {
        let q = half_split_nibble(&block[8..], i) | (((fifth >> i & 1) as u8) << 4);
        *x = f32::from(q) * d + m;
    }
}
