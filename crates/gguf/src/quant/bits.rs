//! Little-endian fields and the small encodings that several formats share.

/// The half-precision number at byte `at`.
pub(super) fn f16_at(block: &[u8], at: usize) -> f32 {
    half::f16::from_bits(u16_at(block, at)).to_f32()
}

pub(super) fn u16_at(block: &[u8], at: usize) -> u16 {
    u16::from_le_bytes([block[at], block[at + 1]])
}

pub(super) fn u32_at(block: &[u8], at: usize) -> u32 {
    u32::from_le_bytes([block[at], block[at + 1], block[at + 2], block[at + 3]])
}

/// Nibble `i` of packed bytes, the low one first.
pub(super) fn nibble(bytes: &[u8], i: usize) -> u8 {
    (bytes[i / 2] >> (4 * (i % 2))) & 15
}

/// Element `i` of 32 that are packed as 16 bytes: the low nibbles are elements 0 to 15, the high ones 16 to 31.
pub(super) fn half_split_nibble(bytes: &[u8], i: usize) -> u8 {
    (bytes[i % 16] >> (4 * (i / 16))) & 15
}

/// Scale and minimum `j` of the eight pairs of 6-bit numbers in the 12 bytes of Q4_K and Q5_K.
pub(super) fn scale_and_min(packed: &[u8], j: usize) -> (u8, u8) {
    if j < 4 {
        return (packed[j] & 63, packed[j + 4] & 63);
    }
    let low = packed[j + 4];
    ((low & 15) | ((packed[j - 4] >> 6) << 4), (low >> 4) | ((packed[j] >> 6) << 4))
}

/// The 8 signs that 7 bits stand for; the eighth bit makes the number of minuses even.
pub(super) fn even_signs(seven: u32) -> u8 {
    let seven = (seven & 127) as u8;
    seven | (((seven.count_ones() & 1) as u8) << 7)
}

/// `x`, or `-x` if bit `i` of `signs` is set.
pub(super) fn signed(x: f32, signs: u8, i: usize) -> f32 {
    if signs >> i & 1 == 1 { -x } else { x }
}

/// The sixteen levels of IQ4_NL and IQ4_XS.
pub(super) const IQ4_LEVELS: [f32; 16] = [
    -127.0, -104.0, -83.0, -65.0, -49.0, -35.0, -22.0, -10.0, 1.0, 13.0, 25.0, 38.0, 53.0, 69.0, 89.0, 113.0,
];

/// The sixteen numbers of FP4 (E2M1), doubled so that all are whole.
pub(super) const FP4_DOUBLED: [f32; 16] =
    [0.0, 1.0, 2.0, 3.0, 4.0, 6.0, 8.0, 12.0, 0.0, -1.0, -2.0, -3.0, -4.0, -6.0, -8.0, -12.0];

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn signs_are_even() {
        for seven in 0..128 {
            let signs = even_signs(seven);
            assert_eq!(u32::from(signs) & 127, seven);
            assert_eq!(signs.count_ones() % 2, 0);
        }
    }
}
