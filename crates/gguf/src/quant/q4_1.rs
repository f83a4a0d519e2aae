//! Q4_1: 32 elements; scale `d: f16`, offset `m: f16`, 16 bytes of nibbles `q`. Element: `q d + m`.

use super::bits::{f16_at, half_split_nibble};

pub(super) fn dequantize(block: &[u8; 20], out: &mut [f32; 32]) {
    let (d, m) = (f16_at(block, 0), f16_at(block, 2));
    for (i, x) in out.iter_mut().enumerate() {
        *x = f32::from(half_split_nibble(&block[4..], i)) * d + m;
    }
}
