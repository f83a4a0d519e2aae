//! BF16: the upper half of a single-precision number, little-endian.

use super::bits::u16_at;

pub(super) fn dequantize(block: &[u8; 2], out: &mut [f32; 1]) {
    *out = [f32::from_bits(u32::from(u16_at(block, 0)) << 16)];
}
