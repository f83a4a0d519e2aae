//! MXFP4: 32 elements; exponent byte `e` (E8M0), 16 bytes of FP4. Element: `2^(e - 127) fp4`.

use super::bits::{FP4_DOUBLED, half_split_nibble};

pub(super) fn dequantize(block: &[u8; 17], out: &mut [f32; 32]) {
    let scale = half_power_of_two(block[0]);
    for (i, x) in out.iter_mut().enumerate() {
        *x = FP4_DOUBLED[usize::from(half_split_nibble(&block[1..], i))] * scale;
    }
}

/// `2^(e - 128)`: half of what the exponent says, since the elements are doubled. The two smallest are subnormal.
fn half_power_of_two(e: u8) -> f32 {
    f32::from_bits(match e {
        0 | 1 => 0x0020_0000 << e,
        _ => (u32::from(e) - 1) << 23,
    })
}
