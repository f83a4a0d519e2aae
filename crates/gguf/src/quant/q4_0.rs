//! Q4_0: 32 elements; scale `d: f16`, 16 bytes of nibbles `q`. Element: `(q - 8) d`.

use super::bits::{f16_at, half_split_nibble};

pub(super) fn dequantize(block: &[u8; 18], out: &mut [f32; 32]) {
    let d = f16_at(block, 0);
    for (i, x) in out.iter_mut().enumerate() {
        *x = f32::from(half_split_nibble(&block[2..], i) as i8 - 8) * d;
    }
}
