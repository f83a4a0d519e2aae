//! The quantized weight types: where a raw GGUF block keeps codes and scales, and which layouts they are packed into.
//!
//! One small type per format, and one list of them, [`for_each_format!`], that drives the kernel table, the tests and the
//! benches. A new format is one `impl` and one line in the list.
//!
//! Layouts of the blocks: `gguf` crate, and <https://github.com/ggml-org/ggml/blob/master/src/ggml-common.h>.

use super::quants::{Bytes, Fp4, GROUPS, Iq4, Nibbles, NibblesBit, NibblesPair, Pairs, PairsBit, Quants};
use super::scales::{Block, BlockE8m0, BlockMin, Halves, HalvesMin, Scales, Sub, SubMin};
use minfer_gguf::TensorType;

/// What the codes of IQ4_NL and IQ4_XS stand for.
pub(super) const IQ4_VALUES: [i8; 16] =
    [-127, -104, -83, -65, -49, -35, -22, -10, 1, 13, 25, 38, 53, 69, 89, 113];
/// What the codes of MXFP4 stand for, doubled so that all are integers.
pub(super) const FP4_VALUES: [i8; 16] = [0, 1, 2, 3, 4, 6, 8, 12, 0, -1, -2, -3, -4, -6, -8, -12];

/// A quantized weight type. `block` starts with a whole raw block, and may go on.
pub(super) trait Format {
    /// The type in the file.
    const TYPE: TensorType;
    /// How its codes are packed.
    type Quants: Quants;
    /// How its scales are packed.
    type Scales: Scales;
    /// What an unpacked byte is above the weight; a power of two, or 0 for types with a minimum.
    const OFFSET: i32;

    /// The raw bytes of `d` (one byte and a zero for E8M0), and of the minimum or zero.
    fn block_scales(block: &[u8]) -> [[u8; 2]; 2];
    /// The sub-scales of a step, as `Scales` wants them.
    #[inline(always)]
    fn sub_scales(_block: &[u8], _step: usize) -> [u8; 2] {
        [0; 2]
    }
    /// The codes of a step: 8 words of 4 consecutive k, the first in the lowest byte. Bits above a code are ignored.
    fn codes(block: &[u8], step: usize) -> [u32; GROUPS];
}

/// Calls `$mac!(Q8_0, Q4_0, ...)` with the name of every [`Format`].
macro_rules! for_each_format {
    ($mac:ident) => {
        $mac!(Q8_0, Q4_0, Q4_1, Q5_0, Q5_1, Q2_K, Q3_K, Q4_K, Q5_K, Q6_K, IQ4_NL, IQ4_XS, MXFP4);
    };
}
pub(super) use for_each_format;

macro_rules! declare {
    ($($name:ident),*) => {$(
        #[doc = concat!("Blocks of type ", stringify!($name), ".")]
        #[allow(non_camel_case_types, reason = "the names that GGML gives its types")]
        pub(super) struct $name;
    )*};
}
for_each_format! { declare }

impl Format for Q8_0 {
    const TYPE: TensorType = TensorType::Q8_0;
    type Quants = Bytes;
    type Scales = Block;
    const OFFSET: i32 = 128;

    #[inline(always)]
    fn block_scales(block: &[u8]) -> [[u8; 2]; 2] {
        [pair(block, 0), [0; 2]]
    }

    #[inline(always)]
    fn codes(block: &[u8], _step: usize) -> [u32; GROUPS] {
        // Flipping the sign bit adds 128.
        words(&block[2..]).map(|w| w ^ 0x8080_8080)
    }
}

impl Format for Q4_0 {
    const TYPE: TensorType = TensorType::Q4_0;
    type Quants = Nibbles;
    type Scales = Block;
    const OFFSET: i32 = 8;

    #[inline(always)]
    fn block_scales(block: &[u8]) -> [[u8; 2]; 2] {
        [pair(block, 0), [0; 2]]
    }

    #[inline(always)]
    fn codes(block: &[u8], _step: usize) -> [u32; GROUPS] {
        split_nibbles(&block[2..])
    }
}

impl Format for Q4_1 {
    const TYPE: TensorType = TensorType::Q4_1;
    type Quants = Nibbles;
    type Scales = BlockMin;
    const OFFSET: i32 = 0;

    #[inline(always)]
    fn block_scales(block: &[u8]) -> [[u8; 2]; 2] {
        [pair(block, 0), pair(block, 2)]
    }

    #[inline(always)]
    fn codes(block: &[u8], _step: usize) -> [u32; GROUPS] {
        split_nibbles(&block[4..])
    }
}

impl Format for Q5_0 {
    const TYPE: TensorType = TensorType::Q5_0;
    type Quants = NibblesBit;
    type Scales = Block;
    const OFFSET: i32 = 16;

    #[inline(always)]
    fn block_scales(block: &[u8]) -> [[u8; 2]; 2] {
        [pair(block, 0), [0; 2]]
    }

    #[inline(always)]
    fn codes(block: &[u8], _step: usize) -> [u32; GROUPS] {
        with_fifth_bits(split_nibbles(&block[6..]), word(&block[2..]))
    }
}

impl Format for Q5_1 {
    const TYPE: TensorType = TensorType::Q5_1;
    type Quants = NibblesBit;
    type Scales = BlockMin;
    const OFFSET: i32 = 0;

    #[inline(always)]
    fn block_scales(block: &[u8]) -> [[u8; 2]; 2] {
        [pair(block, 0), pair(block, 2)]
    }

    #[inline(always)]
    fn codes(block: &[u8], _step: usize) -> [u32; GROUPS] {
        with_fifth_bits(split_nibbles(&block[8..]), word(&block[4..]))
    }
}

impl Format for Q2_K {
    const TYPE: TensorType = TensorType::Q2_K;
    type Quants = Pairs;
    type Scales = HalvesMin;
    const OFFSET: i32 = 0;

    #[inline(always)]
    fn block_scales(block: &[u8]) -> [[u8; 2]; 2] {
        [pair(block, 80), pair(block, 82)]
    }

    #[inline(always)]
    fn sub_scales(block: &[u8], step: usize) -> [u8; 2] {
        pair(block, step * 2)
    }

    #[inline(always)]
    fn codes(block: &[u8], step: usize) -> [u32; GROUPS] {
        words(&block[16 + step / 4 * 32..]).map(|w| w >> (step % 4 * 2) & 0x0303_0303)
    }
}

impl Format for Q3_K {
    const TYPE: TensorType = TensorType::Q3_K;
    type Quants = PairsBit;
    type Scales = Halves;
    const OFFSET: i32 = 4;

    #[inline(always)]
    fn block_scales(block: &[u8]) -> [[u8; 2]; 2] {
        [pair(block, 108), [0; 2]]
    }

    #[inline(always)]
    fn sub_scales(block: &[u8], step: usize) -> [u8; 2] {
        let scales = &block[96..108];
        [step * 2, step * 2 + 1].map(|j| {
            let low = scales[j % 8] >> (j / 8 * 4) & 15;
            let high = scales[8 + j % 4] >> (j / 4 * 2) & 3;
            (low | high << 4).wrapping_sub(32)
        })
    }

    #[inline(always)]
    fn codes(block: &[u8], step: usize) -> [u32; GROUPS] {
        let (low, high) = (words(&block[32 + step / 4 * 32..]), words(block));
        merge(low, step % 4 * 2, 0x0303_0303, high, step, 0x0101_0101, 2)
    }
}

impl Format for Q4_K {
    const TYPE: TensorType = TensorType::Q4_K;
    type Quants = Nibbles;
    type Scales = SubMin;
    const OFFSET: i32 = 0;

    #[inline(always)]
    fn block_scales(block: &[u8]) -> [[u8; 2]; 2] {
        [pair(block, 0), pair(block, 2)]
    }

    #[inline(always)]
    fn sub_scales(block: &[u8], step: usize) -> [u8; 2] {
        six_bit_scales(block, step)
    }

    #[inline(always)]
    fn codes(block: &[u8], step: usize) -> [u32; GROUPS] {
        words(&block[16 + step / 2 * 32..]).map(|w| w >> (step % 2 * 4) & 0x0F0F_0F0F)
    }
}

impl Format for Q5_K {
    const TYPE: TensorType = TensorType::Q5_K;
    type Quants = NibblesBit;
    type Scales = SubMin;
    const OFFSET: i32 = 0;

    #[inline(always)]
    fn block_scales(block: &[u8]) -> [[u8; 2]; 2] {
        [pair(block, 0), pair(block, 2)]
    }

    #[inline(always)]
    fn sub_scales(block: &[u8], step: usize) -> [u8; 2] {
        six_bit_scales(block, step)
    }

    #[inline(always)]
    fn codes(block: &[u8], step: usize) -> [u32; GROUPS] {
        let (low, high) = (words(&block[48 + step / 2 * 32..]), words(&block[16..]));
        merge(low, step % 2 * 4, 0x0F0F_0F0F, high, step, 0x0101_0101, 4)
    }
}

impl Format for Q6_K {
    const TYPE: TensorType = TensorType::Q6_K;
    type Quants = NibblesPair;
    type Scales = Halves;
    const OFFSET: i32 = 32;

    #[inline(always)]
    fn block_scales(block: &[u8]) -> [[u8; 2]; 2] {
        [pair(block, 208), [0; 2]]
    }

    #[inline(always)]
    fn sub_scales(block: &[u8], step: usize) -> [u8; 2] {
        pair(block, 192 + step * 2)
    }

    #[inline(always)]
    fn codes(block: &[u8], step: usize) -> [u32; GROUPS] {
        let (part, quarter) = (step / 4, step % 4);
        let (low, high) = (words(&block[part * 64 + quarter % 2 * 32..]), words(&block[128 + part * 32..]));
        merge(low, quarter / 2 * 4, 0x0F0F_0F0F, high, quarter * 2, 0x0303_0303, 4)
    }
}

impl Format for IQ4_NL {
    const TYPE: TensorType = TensorType::IQ4_NL;
    type Quants = Iq4;
    type Scales = Block;
    const OFFSET: i32 = 128;

    #[inline(always)]
    fn block_scales(block: &[u8]) -> [[u8; 2]; 2] {
        [pair(block, 0), [0; 2]]
    }

    #[inline(always)]
    fn codes(block: &[u8], _step: usize) -> [u32; GROUPS] {
        split_nibbles(&block[2..])
    }
}

impl Format for IQ4_XS {
    const TYPE: TensorType = TensorType::IQ4_XS;
    type Quants = Iq4;
    type Scales = Sub;
    const OFFSET: i32 = 128;

    #[inline(always)]
    fn block_scales(block: &[u8]) -> [[u8; 2]; 2] {
        [pair(block, 0), [0; 2]]
    }

    #[inline(always)]
    fn sub_scales(block: &[u8], step: usize) -> [u8; 2] {
        let high = u16::from_le_bytes(pair(block, 2));
        let low = block[4 + step / 2] >> (step % 2 * 4) & 15;
        [(low | ((high >> (step * 2) & 3) << 4) as u8).wrapping_sub(32), 0]
    }

    #[inline(always)]
    fn codes(block: &[u8], step: usize) -> [u32; GROUPS] {
        split_nibbles(&block[8 + step * 16..])
    }
}

impl Format for MXFP4 {
    const TYPE: TensorType = TensorType::MXFP4;
    type Quants = Fp4;
    type Scales = BlockE8m0;
    const OFFSET: i32 = 16;

    #[inline(always)]
    fn block_scales(block: &[u8]) -> [[u8; 2]; 2] {
        [[block[0], 0], [0; 2]]
    }

    #[inline(always)]
    fn codes(block: &[u8], _step: usize) -> [u32; GROUPS] {
        split_nibbles(&block[1..])
    }
}

#[inline(always)]
fn pair(bytes: &[u8], at: usize) -> [u8; 2] {
    [bytes[at], bytes[at + 1]]
}

#[inline(always)]
fn word(bytes: &[u8]) -> u32 {
    u32::from_le_bytes([bytes[0], bytes[1], bytes[2], bytes[3]])
}

/// The first 32 bytes as words.
#[inline(always)]
fn words(bytes: &[u8]) -> [u32; 8] {
    let mut out = [0; 8];
    for (out, word) in out.iter_mut().zip(bytes[..32].as_chunks::<4>().0) {
        *out = u32::from_le_bytes(*word);
    }
    out
}

/// 16 bytes: the low halves are the first 16 codes, the high halves the last 16.
#[inline(always)]
fn split_nibbles(bytes: &[u8]) -> [u32; GROUPS] {
    let mut out = [0; GROUPS];
    for (g, bytes) in bytes[..16].as_chunks::<4>().0.iter().enumerate() {
        let word = u32::from_le_bytes(*bytes);
        (out[g], out[g + 4]) = (word & 0x0F0F_0F0F, word >> 4 & 0x0F0F_0F0F);
    }
    out
}

/// Codes whose low bits and high bits lie apart: `(low >> low_shift & low_mask) | (high >> high_shift & high_mask) << up`.
#[inline(always)]
fn merge(
    mut low: [u32; GROUPS],
    low_shift: usize,
    low_mask: u32,
    high: [u32; GROUPS],
    high_shift: usize,
    high_mask: u32,
    up: u32,
) -> [u32; GROUPS] {
    for (low, high) in low.iter_mut().zip(high) {
        *low = *low >> low_shift & low_mask | (high >> high_shift & high_mask) << up;
    }
    low
}

/// Adds bit `k` of `bits` to code `k` as bit 4.
#[inline(always)]
fn with_fifth_bits(mut codes: [u32; GROUPS], bits: u32) -> [u32; GROUPS] {
    for (g, code) in codes.iter_mut().enumerate() {
        // The product spreads four bits to the bytes: no two of its partial products meet.
        *code |= ((bits >> (g * 4) & 15).wrapping_mul(0x0020_4081) & 0x0101_0101) << 4;
    }
    codes
}

/// The 6-bit scale and minimum of a step of Q4_K or Q5_K.
#[inline(always)]
fn six_bit_scales(block: &[u8], step: usize) -> [u8; 2] {
    let s = &block[4..16];
    match step {
        0..4 => [s[step] & 63, s[step + 4] & 63],
        _ => [s[step + 4] & 15 | s[step - 4] >> 6 << 4, s[step + 4] >> 4 | s[step] >> 6 << 4],
    }
}
