//! Q5_K: 256 elements in 8 groups of 32; as Q4_K, with 32 bytes of fifth bits before the nibbles: bit `j` of byte `i`
//! belongs to element `i` of group `j`.

use super::bits::{f16_at, scale_and_min};

pub(super) fn dequantize(block: &[u8; 176], out: &mut [f32; 256]) {
    let (d, m) = (f16_at(block, 0), f16_at(block, 2));
    let (scales, fifth, quants) = (&block[4..16], &block[16..48], &block[48..]);
    for (j, group) in out.as_chunks_mut::<32>().0.iter_mut().enumerate() {
        let (scale, min) = scale_and_min(scales, j);
        let (scale, min) = (d * f32::from(scale), m * f32::from(min));
        for (i, x) in group.iter_mut().enumerate() {
            let q = (quants[j / 2 * 32 + i] >> (4 * (j % 2))) & 15;
            let q = q | (fifth[i] >> j & 1) << 4;
            *x = scale * f32::from(q) - min;
        }
    }
}
