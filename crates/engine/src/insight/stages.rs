//! The graph of a step of some size, at any stage, with the settings of a context that need not exist.

use std::sync::Arc;

use minfer_graph::export::{self, Snapshot};
use minfer_graph::{GraphType, Stage, StepError};
use serde_json::{Value, json};

use crate::error::EngineError;
use crate::model::Model;
use crate::params::{ContextParams, MAX_STEP};
use crate::setup::Setup;

/// How large a step is.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct StepSize {
    /// Tokens of all sequences.
    n_tokens: usize,
    /// Sequences that share the step.
    n_sequences: usize,
    /// Rows of logits.
    n_out: usize,
}

/// A step that cannot be.
#[derive(Clone, Copy, Debug, PartialEq, Eq, thiserror::Error)]
pub enum StepSizeError {
    /// A sequence of a step has at least one token.
    #[error("a step of {n_sequences} sequences has at least as many tokens, not {n_tokens}")]
    Tokens {
        /// Tokens asked for.
        n_tokens: usize,
        /// Sequences asked for.
        n_sequences: usize,
    },
    /// No step can be so large.
    #[error("a step of {n_tokens} tokens is too large: {MAX_STEP} at most")]
    Limit {
        /// Tokens asked for.
        n_tokens: usize,
    },
    /// Every row of logits belongs to a token.
    #[error("a step of {n_tokens} tokens cannot give {n_out} rows of logits")]
    Rows {
        /// Tokens asked for.
        n_tokens: usize,
        /// Rows asked for.
        n_out: usize,
    },
}

impl StepSize {
    /// A step of `n_sequences`; without other figures each has one token and one row of logits.
    pub fn new(
        n_sequences: usize,
        n_tokens: Option<usize>,
        n_out: Option<usize>,
    ) -> Result<StepSize, StepSizeError> {
        let (n_tokens, n_out) = (n_tokens.unwrap_or(n_sequences), n_out.unwrap_or(n_sequences));
        if n_tokens < n_sequences {
            return Err(StepSizeError::Tokens { n_tokens, n_sequences });
        }
        if n_tokens > MAX_STEP {
            return Err(StepSizeError::Limit { n_tokens });
        }
        if n_out > n_tokens {
            return Err(StepSizeError::Rows { n_tokens, n_out });
        }
        Ok(StepSize { n_tokens, n_sequences, n_out })
    }

    /// As a context tells them apart: a decode step has one token of each sequence.
    fn gtype(self) -> GraphType {
        if self.n_tokens == self.n_sequences { GraphType::Decode } else { GraphType::Prefill }
    }
}

/// The graph that a context with these settings makes for a step of this size. No memory is taken, no weight is read.
pub fn snapshot(
    model: &Arc<Model>,
    params: &ContextParams,
    size: StepSize,
    stage: Stage,
) -> Result<Snapshot, EngineError> {
    let params = ContextParams { n_seq_max: size.n_sequences, ..params.clone() };
    let setup = Setup::new(model, &params)?;
    let step = setup.params(size.n_tokens, size.n_out, size.gtype());
    Ok(Snapshot::take(model.description(), &step, &setup.registry, stage).map_err(StepError::from)?)
}

/// The graph as every pass leaves it, and the memory of its values, as JSON: an array `stages` of what
/// [`export::json`] gives, and `memory` as [`export::memory`] gives it.
pub fn stages(model: &Arc<Model>, params: &ContextParams, size: StepSize) -> Result<Value, EngineError> {
    let stages = [Stage::Built, Stage::Assigned, Stage::Fused, Stage::Planned];
    let taken = stages.map(|stage| snapshot(model, params, size, stage));
    let taken = taken.into_iter().collect::<Result<Vec<_>, _>>()?;
    Ok(json!({
        "stages": taken.iter().map(|snapshot| export::json(&snapshot.view())).collect::<Vec<_>>(),
        "memory": taken.last().map(|snapshot| export::memory(&snapshot.view())),
    }))
}
