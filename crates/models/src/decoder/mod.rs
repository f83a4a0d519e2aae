//! What the dense decoder-only architectures share: a stack of attention and SwiGLU blocks with RMS norms.

mod topology;

use minfer_gguf::Gguf;
use minfer_graph::{BuildError, ComputeGraph, GraphParams, GraphSource, KvSpec, KvType, Policy};

use crate::error::ModelError;
use crate::hparams::HParams;
use crate::weights::Weights;
use crate::{Architecture, Refused};

pub use topology::StepInput;

/// Keys under which other members of the family hide another computation.
pub(crate) const REFUSED: &[Refused] = &[
    Refused { key: "expert_count", neutral: 0.0, feature: "a mixture of experts" },
    Refused { key: "attention.sliding_window", neutral: 0.0, feature: "sliding-window attention" },
    Refused { key: "attention.causal", neutral: 1.0, feature: "attention to later tokens" },
    Refused { key: "attention.clamp_kqv", neutral: 0.0, feature: "clamping of query, key and value" },
    Refused { key: "attention.max_alibi_bias", neutral: 0.0, feature: "ALiBi" },
    Refused { key: "attn_logit_softcapping", neutral: 0.0, feature: "a soft cap of scores" },
    Refused { key: "final_logit_softcapping", neutral: 0.0, feature: "a soft cap of logits" },
    Refused { key: "logit_scale", neutral: 0.0, feature: "scaling of logits" },
    Refused { key: "residual_scale", neutral: 0.0, feature: "scaling of residuals" },
    Refused { key: "embedding_scale", neutral: 0.0, feature: "scaling of embeddings" },
    Refused { key: "rope.scaling.yarn_log_multiplier", neutral: 0.0, feature: "this variant of YaRN" },
];

/// A described model: sizes, tensors, and the graphs that follow from them.
#[derive(Clone, Debug, PartialEq)]
pub struct Model {
    architecture: &'static str,
    hparams: HParams,
    weights: Weights,
}

impl Model {
    pub(crate) fn describe(architecture: Architecture, file: &Gguf) -> Result<Model, ModelError> {
        let hparams = HParams::read(&architecture, file)?;
        let weights = Weights::find(&architecture, &hparams, file)?;
        Ok(Model { architecture: architecture.name, hparams, weights })
    }

    /// `general.architecture`.
    pub fn architecture(&self) -> &'static str {
        self.architecture
    }

    /// Sizes and constants.
    pub fn hparams(&self) -> &HParams {
        &self.hparams
    }

    /// Geometry of the KV cache, by layer.
    pub fn kv_specs(&self, block: usize, n_blocks: usize, kv_type: KvType) -> Vec<KvSpec> {
        let h = &self.hparams;
        let spec = KvSpec { n_kv_heads: h.n_kv_heads, head_dim: h.head_dim, block, n_blocks, kv_type };
        vec![spec; h.n_layers]
    }
}

impl GraphSource for Model {
    fn build(&self, params: &GraphParams, policy: &Policy<'_>) -> Result<ComputeGraph, BuildError> {
        topology::build(&self.hparams, &self.weights, params, policy)
    }
}
