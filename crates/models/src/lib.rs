//! Model architectures: which metadata keys, which tensors, which graph.
//!
//! [`describe`] turns an open file into a [`Model`]: hyper-parameters read and checked, every tensor found with the shape
//! it must have, none left over. A model then describes the graph of any step ([`minfer_graph::GraphSource`]).
//!
//! Adding an architecture: one folder, one line in [`ARCHITECTURES`].

#![forbid(unsafe_code)]

mod decoder;
mod error;
mod hparams;
mod keys;
mod llama;
mod qwen2;
mod qwen3;
mod weights;

use minfer_gguf::Gguf;

pub use decoder::{Model, StepInput};
pub use error::ModelError;
pub use hparams::HParams;

/// What sets one decoder-only architecture apart from the next.
#[derive(Clone, Copy, Debug)]
pub struct Architecture {
    /// `general.architecture`, which is also the prefix of its metadata keys.
    pub name: &'static str,
    /// Which values a RoPE pair is made of.
    pub rope_style: minfer_graph::RopeStyle,
    /// Whether the projections of query, key and value have biases.
    pub qkv_bias: Presence,
    /// Whether query and key heads are normalized.
    pub qk_norm: Presence,
    /// Whether `rope_freqs.weight` may divide the rotary frequencies.
    pub rope_factors: Presence,
    /// Keys (without the prefix) that change the computation in ways this architecture does not know: refused unless they
    /// hold the value that changes nothing.
    pub refused: &'static [Refused],
}

/// Whether an architecture has a tensor.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Presence {
    /// It must be there.
    Required,
    /// It is used when it is there.
    Optional,
    /// It is an error when it is there.
    Absent,
}

/// A key that would change the computation.
#[derive(Clone, Copy, Debug)]
pub struct Refused {
    /// Without the architecture's prefix.
    pub key: &'static str,
    /// The value that changes nothing.
    pub neutral: f64,
    /// What the key would ask for.
    pub feature: &'static str,
}

/// Every architecture, in the order in which messages list them.
pub const ARCHITECTURES: &[Architecture] = &[qwen2::ARCHITECTURE, qwen3::ARCHITECTURE, llama::ARCHITECTURE];

/// Reads and checks everything about a model but the contents of its weights.
pub fn describe(file: &Gguf) -> Result<Model, ModelError> {
    let name = file.metadata().str("general.architecture")?;
    let Some(architecture) = ARCHITECTURES.iter().find(|a| a.name == name) else {
        let supported = ARCHITECTURES.iter().map(|a| a.name).collect::<Vec<_>>().join(", ");
        return Err(ModelError::UnsupportedArchitecture { name: name.into(), supported });
    };
    Model::describe(*architecture, file)
}
