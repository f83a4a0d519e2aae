//! IQ4_NL: 32 elements; scale `d: f16`, 16 bytes of nibbles that index 16 uneven levels. Element: `d level`.

use super::bits::{IQ4_LEVELS, f16_at, half_split_nibble};

pub(super) fn dequantize(block: &[u8; 18], out: &mut [f32; 32]) {
    let d = f16_at(block, 0);
    for (i, x) in out.iter_mut().enumerate() {
        *x = d * IQ4_LEVELS[usize::from(half_split_nibble(&block[2..], i))];
    }
}
