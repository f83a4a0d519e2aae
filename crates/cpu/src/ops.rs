//! The ops on f32 activations: everything but the product with a weight matrix.
//!
//! Activations are `[d, n_tokens]`: token after token, `d` elements each. Every function computes each output from its
//! inputs in an order fixed by its text, so a caller may cut the rows of an op as it likes, hand each part the matching
//! rows of input and output, and get the same bits.
//!
//! Functions check lengths and parameters first; an error means that nothing was written. Numbers are never refused:
//! NaN and infinity flow through as IEEE arithmetic has them.

mod add;
mod argmax;
mod attention;
mod batch_matmul;
mod get_rows;
mod kv;
mod map;
mod mul;
mod outer;
mod permute;
mod rms_norm;
mod rope;
mod scale;
mod silu;
mod softmax;
mod swiglu;

pub use add::add;
pub use argmax::argmax;
pub use attention::{Attention, AttentionScratch, SPAN, Sight};
pub use batch_matmul::{BatchShape, batch_matmul};
pub use get_rows::get_rows;
pub(crate) use kv::values::block_values;
pub use kv::{KvLayout, KvRegions, RegionMut, store_kv};
pub use mul::mul;
pub use permute::permute;
pub use rms_norm::rms_norm;
pub use rope::{RopeTable, rope, rope_in_place};
pub use scale::scale;
pub use silu::{silu, silu_in_place};
pub use softmax::softmax;
pub use swiglu::swiglu;
