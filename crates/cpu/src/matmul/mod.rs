//! Matrix products: packed weights times activations, `out[token][row] = sum over k of w[row][k] * x[token][k]`.
//!
//! **Contract.** Each output has one f32 accumulator, to which the blocks of k are added in order; `reference.rs` defines
//! every rounding. The same bits come out on every instruction set, for any tile, any number of tokens in a step, and any
//! split of panels between threads (NaN for NaN: sign and payload of a NaN are not defined). Infinite or NaN activations
//! and weights give what IEEE arithmetic gives, never undefined behaviour; integers cannot overflow (bounds in `scales.rs`).
//!
//! Weights are quantized, or floats; activations accordingly are int8 per 32 ([`QuantizedActivations`]) or f32:
//!
//! - pack each matrix once ([`PackedMatrix`], [`Packer`]),
//! - quantize the activations of a step once, [prepare](QuantizedActivations::prepare) them for the types of all matrices
//!   that read them, and use them for these,
//! - split `0..n_panels` between threads, each calling [`matmul_panels`] with its own [`Scratch`].
//!
//! Files: `format.rs` the weight types, `quants.rs` and `scales.rs` their packed layouts, `walk.rs` the order in a panel,
//! `pack.rs` and `rearrange*.rs` the packing, `activations.rs`, `quantize_avx512.rs` and `corrections.rs` the other operand,
//! `kernels.rs` the table of `scalar.rs`, `avx2.rs` and `avx512.rs`; `float.rs` and `float_*.rs` the float types.

mod activations;
#[cfg(target_arch = "x86_64")]
mod avx2;
#[cfg(target_arch = "x86_64")]
mod avx512;
mod corrections;
mod float;
#[cfg(target_arch = "x86_64")]
mod float_avx2;
#[cfg(target_arch = "x86_64")]
mod float_avx512;
mod format;
mod kernels;
mod pack;
mod product;
#[cfg(target_arch = "x86_64")]
mod quantize_avx512;
mod quants;
mod rearrange;
#[cfg(target_arch = "x86_64")]
mod rearrange_avx2;
#[cfg(test)]
mod reference;
mod scalar;
mod scales;
#[cfg(test)]
mod tests;
mod walk;

pub use activations::{ActivationWriter, QuantizedActivations};
pub use pack::{PACK_VERSION, PANEL_ROWS, PackError, PackedBytes, PackedMatrix, Packer};
pub use product::{Activations, MatMulError, OutPtr, Scratch, kernel_name, matmul_panels};
