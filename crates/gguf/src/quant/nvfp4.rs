//! NVFP4: 64 elements in 4 groups of 16; 4 scales (E4M3 without sign), 32 bytes of FP4, in each group's 8 bytes the
//! low nibbles first. Element: `scale fp4`.

use super::bits::FP4_DOUBLED;

pub(super) fn dequantize(block: &[u8; 36], out: &mut [f32; 64]) {
    let (scales, quants) = (&block[..4], &block[4..]);
    for (j, group) in out.as_chunks_mut::<16>().0.iter_mut().enumerate() {
        let scale = half_e4m3(scales[j]);
        for (i, x) in group.iter_mut().enumerate() {
            let q = (quants[8 * j + i % 8] >> (4 * (i / 8))) & 15;
            *x = FP4_DOUBLED[usize::from(q)] * scale;
        }
    }
}

/// Half the E4M3 number (the elements are doubled); the sign bit is ignored, and 0x7F, a NaN, counts as zero.
fn half_e4m3(byte: u8) -> f32 {
    let (exponent, mantissa) = ((byte >> 3) & 15, f32::from(byte & 7));
    match (byte, exponent) {
        (0x7f, _) => 0.0,
        (_, 0) => mantissa / 1024.0,
        _ => (1.0 + mantissa / 8.0) * f32::from_bits((u32::from(exponent) + 127 - 8) << 23),
    }
}
