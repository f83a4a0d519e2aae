//! F32: single precision, little-endian.

pub(super) fn dequantize(block: &[u8; 4], out: &mut [f32; 1]) {
    *out = [f32::from_le_bytes(*block)];
}
