//! Q8_0: 32 elements; scale `d: f16`, 32 signed bytes `q`. Element: `q d`.

use super::bits::f16_at;

pub(super) fn dequantize(block: &[u8; 34], out: &mut [f32; 32]) {
    let d = f16_at(block, 0);
    for (x, &q) in out.iter_mut().zip(&block[2..]) {
        *x = f32::from(q as i8) * d;
    }
}
