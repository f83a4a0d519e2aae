//! What a graph's topology depends on, and nothing else: equal params mean the same graph, so a prepared one is reused.
//!
//! Positions, slots, block tables, bounds and output rows are data in input nodes and never appear here.

use minfer_gguf::TensorType;

use crate::backend::{Backend, BackendSet};
use crate::graph::DType;

/// Which kind of step a graph describes.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub enum GraphType {
    /// Chunks of prompts, any number of tokens for each sequence.
    Prefill,
    /// One token for each sequence: the structural fusions apply.
    Decode,
}

/// What a step gives for the rows that are wanted.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Hash)]
pub enum Head {
    /// How probable each token is next, `[n_vocab, n_out]`.
    #[default]
    Logits,
    /// The best token and its logit, `[2, n_out]`; see [`Op::Argmax`](crate::Op::Argmax). Spares reading all logits back from
    /// a device where the best is all that is wanted.
    Best,
    /// The values of the residual stream after the last norm, `[n_embd, n_out]`: what embeddings are made of.
    Hidden,
}

impl Head {
    /// As exports spell it.
    pub fn name(self) -> &'static str {
        match self {
            Head::Logits => "logits",
            Head::Best => "best",
            Head::Hidden => "hidden",
        }
    }
}

/// Element type of the KV cache.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub enum KvType {
    /// Half precision.
    F16,
    /// Single precision.
    F32,
    /// Int8 with a scale for each 32 elements of a position.
    Q8_0,
}

impl KvType {
    /// As the element type of a node.
    pub fn dtype(self) -> DType {
        match self {
            KvType::F16 => DType::F16,
            KvType::F32 => DType::F32,
            KvType::Q8_0 => DType::Q8_0,
        }
    }

    /// As the type a backend is asked about.
    pub fn tensor_type(self) -> TensorType {
        match self {
            KvType::F16 => TensorType::F16,
            KvType::F32 => TensorType::F32,
            KvType::Q8_0 => TensorType::Q8_0,
        }
    }

    /// Bytes of a row of so many elements.
    pub fn row_bytes(self, n_elems: usize) -> usize {
        match self {
            KvType::F16 => n_elems.saturating_mul(2),
            KvType::F32 => n_elems.saturating_mul(4),
            KvType::Q8_0 => n_elems.saturating_add(2 * n_elems.div_ceil(32)),
        }
    }
}

/// The part of the model that a device holds.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub struct GpuOffload {
    /// Who holds it.
    pub backend: Backend,
    /// Layers `0..n_layers` are its own.
    pub n_layers: usize,
    /// Whether nodes that belong to no layer (embedding, output) are its own too.
    pub outside_layers: bool,
}

/// Settings of a context: everything besides the size of the step that topology depends on.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub struct CParams {
    /// Positions that one sequence can hold; a multiple of `kv_block`.
    pub n_ctx: usize,
    /// Sequences that can share a step.
    pub n_seq_max: usize,
    /// Positions in one block of the KV cache.
    pub kv_block: usize,
    /// Blocks in each layer's region.
    pub n_kv_blocks: usize,
    /// Element type of the KV cache.
    pub kv_type: KvType,
    /// Backends that may own nodes: those enabled and allowed by name.
    pub backends: BackendSet,
    /// What a device takes part in.
    pub gpu: Option<GpuOffload>,
    /// Emit `FusedQKV`, `FusedQkvNorm`, `QkvBiasRopeStore` in decode steps.
    pub fuse_qkv: bool,
    /// Emit `FusedFFN` in decode steps.
    pub fuse_ffn: bool,
}

impl CParams {
    /// Blocks that a sequence of `n_ctx` positions needs.
    pub fn blocks_per_seq(&self) -> usize {
        self.n_ctx.div_ceil(self.kv_block)
    }
}

/// The reuse identity of a graph.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub struct GraphParams {
    /// Tokens in the step, over all sequences.
    pub n_tokens: usize,
    /// Rows whose output is wanted; only they go through the last layer's tail and the output projection.
    pub n_out: usize,
    /// What the output is.
    pub head: Head,
    /// Kind of step.
    pub gtype: GraphType,
    /// Settings of the context.
    pub cparams: CParams,
    /// Changes when the weights change: another model, an adapter applied.
    pub weights_version: u64,
}
