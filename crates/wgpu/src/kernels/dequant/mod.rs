//! Blocks of weights as numbers: one snippet for each type, and the types there are.
//!
//! A snippet defines `dequant(row, g)`: the 32 elements of group `g` of the row whose first byte is `row`, four to a vector.
//! It reads words through `word(i)`: of the one matrix `w` with [`ONE`], of the one that a kernel chooses otherwise. Types
//! without blocks ask `p.k` where a row ends.

use minfer_gguf::TensorType;

/// Words of the matrix `w`, for kernels that read one.
pub(super) const ONE: &str = "fn word(i: u32) -> u32 { return w[i]; }\n";

const WORDS: &str = include_str!("words.wgsl");
const K_SCALES: &str = include_str!("k_scales.wgsl");
const IQ4_LEVELS: &str = include_str!("iq4_levels.wgsl");

/// Every type that the kernels read, with its snippets.
const TYPES: [(TensorType, &[&str]); 16] = [
    (TensorType::F32, &[WORDS, include_str!("f32.wgsl")]),
    (TensorType::F16, &[WORDS, include_str!("f16.wgsl")]),
    (TensorType::BF16, &[WORDS, include_str!("bf16.wgsl")]),
    (TensorType::Q4_0, &[WORDS, include_str!("q4_0.wgsl")]),
    (TensorType::Q4_1, &[WORDS, include_str!("q4_1.wgsl")]),
    (TensorType::Q5_0, &[WORDS, include_str!("q5_0.wgsl")]),
    (TensorType::Q5_1, &[WORDS, include_str!("q5_1.wgsl")]),
    (TensorType::Q8_0, &[WORDS, include_str!("q8_0.wgsl")]),
    (TensorType::Q2_K, &[WORDS, include_str!("q2_k.wgsl")]),
    (TensorType::Q3_K, &[WORDS, include_str!("q3_k.wgsl")]),
    (TensorType::Q4_K, &[WORDS, K_SCALES, include_str!("q4_k.wgsl")]),
    (TensorType::Q5_K, &[WORDS, K_SCALES, include_str!("q5_k.wgsl")]),
    (TensorType::Q6_K, &[WORDS, include_str!("q6_k.wgsl")]),
    (TensorType::IQ4_NL, &[WORDS, IQ4_LEVELS, include_str!("iq4_nl.wgsl")]),
    (TensorType::IQ4_XS, &[WORDS, IQ4_LEVELS, include_str!("iq4_xs.wgsl")]),
    (TensorType::MXFP4, &[WORDS, include_str!("mxfp4.wgsl")]),
];

/// Elements that a snippet makes at once.
pub(crate) const GROUP: usize = 32;

/// Whether there is a snippet.
pub(crate) fn supports(dtype: TensorType) -> bool {
    TYPES.iter().any(|row| row.0 == dtype)
}

/// The pieces of the snippet; none for a type that has none, which then does not compile.
pub(super) fn pieces(dtype: TensorType) -> &'static [&'static str] {
    TYPES.iter().find(|row| row.0 == dtype).map_or(&[], |row| row.1)
}

/// The type in the name of a kernel.
pub(super) fn label(dtype: TensorType) -> String {
    dtype.name().to_lowercase()
}

/// Every type.
#[cfg(test)]
pub(super) fn types() -> impl Iterator<Item = TensorType> {
    TYPES.iter().map(|row| row.0)
}
