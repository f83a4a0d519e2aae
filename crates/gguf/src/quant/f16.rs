//! F16: IEEE half precision, little-endian.

use super::bits::f16_at;

pub(super) fn dequantize(block: &[u8; 2], out: &mut [f32; 1]) {
    *out = [f16_at(block, 0)];
}
