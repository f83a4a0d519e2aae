//! The definition of the matrix product, one element at a time, straight from raw GGUF blocks.
//!
//! Written for reading. Nothing runs on it; every kernel must give these bits (NaN for NaN), whatever the instruction
//! set, tile, number of tokens or split between threads. The steps below are exactly the roundings that exist:
//! an operation on `f32` rounds once, `fma` rounds once, sums of integers are exact.

use super::activations::SMALLEST_AMAX;
use super::scales::e8m0_half;
use half::{bf16, f16};
use minfer_gguf::TensorType;

/// The activations of one token and 32 k.
pub(super) struct Block {
    /// Integers in -127..=127.
    pub(super) q: [i32; 32],
    /// What an integer is worth: `amax / 127`.
    pub(super) scale: f32,
}

/// Quantizes 32 activations. A block with an infinity or NaN gets the scale NaN, and so makes every output NaN.
pub(super) fn quantize(x: &[f32; 32]) -> Block {
    if x.iter().any(|v| !v.is_finite()) {
        return Block { q: [0; 32], scale: f32::NAN };
    }
    let amax = x.iter().fold(0f32, |m, v| m.max(v.abs()));
    if amax < SMALLEST_AMAX {
        return Block { q: [0; 32], scale: 0.0 };
    }
    let inverse = 127.0 / amax;
    Block { q: x.map(|v| (v * inverse).round_ties_even() as i32), scale: amax / 127.0 }
}

/// One output of a quantized type: one accumulator, steps in order.
pub(super) fn dot(row: &[Step], x: &[Block]) -> f32 {
    row.iter().zip(x).fold(0.0, |acc, (w, x)| add_step(acc, w, x))
}

/// The weights of a raw row, as steps of 32.
pub(super) fn steps(dtype: TensorType, row: &[u8]) -> Vec<Step> {
    let blocks = row.chunks_exact(dtype.block_bytes());
    blocks.flat_map(|block| (0..dtype.block_elems() / 32).map(move |s| step(dtype, block, s))).collect()
}

/// One output of a float type: `k` in order, one accumulator.
pub(super) fn dot_float(dtype: TensorType, row: &[u8], x: &[f32]) -> f32 {
    let weights = row.chunks_exact(dtype.block_bytes()).map(|w| float(dtype, w));
    weights.zip(x).fold(0.0, |acc, (w, &x)| w.mul_add(x, acc))
}

/// A float weight, exactly.
pub(super) fn float(dtype: TensorType, w: &[u8]) -> f32 {
    match dtype {
        TensorType::F32 => f32::from_le_bytes([w[0], w[1], w[2], w[3]]),
        TensorType::F16 => f16::from_le_bytes([w[0], w[1]]).to_f32(),
        TensorType::BF16 => bf16::from_le_bytes([w[0], w[1]]).to_f32(),
        other => unreachable!("{other} is not a float type"),
    }
}

/// 32 weights of one row.
pub(super) struct Step {
    /// The integers.
    pub(super) q: [i32; 32],
    /// What they are worth.
    pub(super) scale: Scale,
}

/// What the integers of a step are worth.
pub(super) enum Scale {
    /// `d * q`
    One(f32),
    /// `d * q + m`
    Affine(f32, f32),
    /// `(d * sc) * q`
    Sub(f32, i32),
    /// `(d * sc) * q - m * mn`
    SubMin(f32, i32, f32, i32),
    /// `(d * sc[half]) * q`
    Halves(f32, [i32; 2]),
    /// `(d * sc[half]) * q - m * mn[half]`
    HalvesMin(f32, [i32; 2], f32, [i32; 2]),
}

fn add_step(acc: f32, w: &Step, x: &Block) -> f32 {
    let products = |range: std::ops::Range<usize>| range.map(|i| w.q[i] * x.q[i]).sum::<i32>();
    let sum = |range: std::ops::Range<usize>| x.q[range].iter().sum::<i32>();
    let isum = products(0..32) as f32;
    let halves = |d: f32, sc: [i32; 2]| {
        let first = products(0..16) as f32 * (d * sc[0] as f32);
        (products(16..32) as f32).mul_add(d * sc[1] as f32, first)
    };
    let scaled_sum = x.scale * sum(0..32) as f32;
    match w.scale {
        Scale::One(d) => isum.mul_add(d * x.scale, acc),
        Scale::Affine(d, m) => m.mul_add(scaled_sum, isum.mul_add(d * x.scale, acc)),
        Scale::Sub(d, sc) => isum.mul_add((d * sc as f32) * x.scale, acc),
        Scale::SubMin(d, sc, m, mn) => {
            let acc = isum.mul_add((d * sc as f32) * x.scale, acc);
            (-(m * mn as f32)).mul_add(scaled_sum, acc)
        }
        Scale::Halves(d, sc) => halves(d, sc).mul_add(x.scale, acc),
        Scale::HalvesMin(d, sc, m, mn) => {
            let minimums = (mn[0] * sum(0..16) + mn[1] * sum(16..32)) as f32;
            (-minimums).mul_add(m, halves(d, sc)).mul_add(x.scale, acc)
        }
    }
}

impl Step {
    /// The 32 weights as floats, with the roundings of GGML's dequantization.
    pub(super) fn dequantize(&self) -> [f32; 32] {
        std::array::from_fn(|i| {
            let q = self.q[i] as f32;
            let half = i / 16;
            match self.scale {
                Scale::One(d) => d * q,
                Scale::Affine(d, m) => d * q + m,
                Scale::Sub(d, sc) => (d * sc as f32) * q,
                Scale::SubMin(d, sc, m, mn) => (d * sc as f32) * q - m * mn as f32,
                Scale::Halves(d, sc) => (d * sc[half] as f32) * q,
                Scale::HalvesMin(d, sc, m, mn) => (d * sc[half] as f32) * q - m * mn[half] as f32,
            }
        })
    }
}

/// The 32 weights of step `s` of a raw block.
fn step(dtype: TensorType, block: &[u8], s: usize) -> Step {
    use super::format::{FP4_VALUES, IQ4_VALUES};
    let b = |i: usize| i32::from(block[i]);
    let half = |at: usize| f16::from_le_bytes([block[at], block[at + 1]]).to_f32();
    // Element i of 16 bytes that hold 32 nibbles, low halves first.
    let nibble = |at: usize, i: usize| b(at + i % 16) >> (i / 16 * 4) & 15;
    let fifth = |at: usize, i: usize| (b(at + i / 8) >> (i % 8) & 1) << 4;
    // Element i of step s in 32-byte rows of 2-bit codes, four steps to a row.
    let pair = |at: usize, i: usize| b(at + s / 4 * 32 + i) >> (s % 4 * 2) & 3;
    let q = |code: &dyn Fn(usize) -> i32| std::array::from_fn(code);
    let (q, scale) = match dtype {
        TensorType::Q8_0 => (q(&|i| i32::from(block[2 + i] as i8)), Scale::One(half(0))),
        TensorType::Q4_0 => (q(&|i| nibble(2, i) - 8), Scale::One(half(0))),
        TensorType::Q4_1 => (q(&|i| nibble(4, i)), Scale::Affine(half(0), half(2))),
        TensorType::Q5_0 => (q(&|i| (nibble(6, i) | fifth(2, i)) - 16), Scale::One(half(0))),
        TensorType::Q5_1 => (q(&|i| nibble(8, i) | fifth(4, i)), Scale::Affine(half(0), half(2))),
        TensorType::Q2_K => {
            let (sc, mn) = ([2 * s, 2 * s + 1].map(|j| b(j) & 15), [2 * s, 2 * s + 1].map(|j| b(j) >> 4));
            (q(&|i| pair(16, i)), Scale::HalvesMin(half(80), sc, half(82), mn))
        }
        TensorType::Q3_K => {
            let sc = |j: usize| {
                (b(96 + j % 8) >> (j / 8 * 4) & 15 | (b(104 + j % 4) >> (j / 4 * 2) & 3) << 4) - 32
            };
            let high = |i: usize| (b(i) >> s & 1) << 2;
            (q(&|i| (pair(32, i) | high(i)) - 4), Scale::Halves(half(108), [sc(2 * s), sc(2 * s + 1)]))
        }
        TensorType::Q4_K => {
            let (sc, mn) = six_bits(&block[4..16], s);
            (q(&|i| b(16 + s / 2 * 32 + i) >> (s % 2 * 4) & 15), Scale::SubMin(half(0), sc, half(2), mn))
        }
        TensorType::Q5_K => {
            let (sc, mn) = six_bits(&block[4..16], s);
            let low = |i: usize| b(48 + s / 2 * 32 + i) >> (s % 2 * 4) & 15;
            let high = |i: usize| (b(16 + i) >> s & 1) << 4;
            (q(&|i| low(i) | high(i)), Scale::SubMin(half(0), sc, half(2), mn))
        }
        TensorType::Q6_K => {
            let (part, quarter) = (s / 4, s % 4);
            let low = |i: usize| b(part * 64 + quarter % 2 * 32 + i) >> (quarter / 2 * 4) & 15;
            let high = |i: usize| (b(128 + part * 32 + i) >> (quarter * 2) & 3) << 4;
            let sc = [0, 1].map(|h| i32::from(block[192 + 2 * s + h] as i8));
            (q(&|i| (low(i) | high(i)) - 32), Scale::Halves(half(208), sc))
        }
        TensorType::IQ4_NL => (q(&|i| IQ4_VALUES[nibble(2, i) as usize].into()), Scale::One(half(0))),
        TensorType::IQ4_XS => {
            let high = (b(2) | b(3) << 8) >> (2 * s) & 3;
            let sc = (b(4 + s / 2) >> (s % 2 * 4) & 15 | high << 4) - 32;
            (q(&|i| IQ4_VALUES[nibble(8 + 16 * s, i) as usize].into()), Scale::Sub(half(0), sc))
        }
        TensorType::MXFP4 => {
            (q(&|i| FP4_VALUES[nibble(1, i) as usize].into()), Scale::One(e8m0_half(block[0])))
        }
        other => unreachable!("{other} has no steps"),
    };
    Step { q, scale }
}

/// Six-bit scale and minimum `j` of 8, kept in 12 bytes: 4 + 4 whole ones, then the low halves and top bits of the rest.
fn six_bits(s: &[u8], j: usize) -> (i32, i32) {
    let b = |i: usize| i32::from(s[i]);
    if j < 4 {
        (b(j) & 63, b(j + 4) & 63)
    } else {
        (b(j + 4) & 15 | b(j - 4) >> 6 << 4, b(j + 4) >> 4 | b(j) >> 6 << 4)
    }
}
