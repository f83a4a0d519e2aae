//! TQ1_0: 256 elements of three values; 48 bytes of five each, 4 bytes of four each, `d: f16`. Element: `(t - 1) d`.
//!
//! A byte is a fraction in base 3: multiplied by 3^n (mod 256), its leading digit is element `n`.

use super::bits::f16_at;

pub(super) fn dequantize(block: &[u8; 54], out: &mut [f32; 256]) {
    let d = f16_at(block, 52);
    // Runs of bytes: element `n` of byte `i` stands at `n * run + i` from where the run's elements start.
    let runs = [(&block[..32], 5), (&block[32..48], 5), (&block[48..52], 4)];
    let mut at = 0;
    for (bytes, n_digits) in runs {
        for n in 0..n_digits {
            for &byte in bytes {
                out[at] = (digit(byte, n) - 1.0) * d;
                at += 1;
            }
        }
    }
}

fn digit(byte: u8, n: u32) -> f32 {
    let shifted = byte.wrapping_mul(3u8.pow(n));
    f32::from(((u16::from(shifted) * 3) >> 8) as u8)
}
