//! What the cache holds of each token, compared as it lies there: rounded to the cache's type, wherever a backend keeps it.
//!
//! A store leaves no value of its own in the graph, so the rows are read back after the step and take their place where the
//! node that stored them ran.

use std::ops::Range;
use std::sync::Arc;

use minfer_graph::{Backend, KvPart, Node, Op, StepError};

use super::NodeOn;
use super::run::Watcher;
use super::values::{Part, Value};
use crate::context::{Context, KV_BLOCK, SeqId};
use crate::error::EngineError;

/// Keys or values that a node of the step has stored.
#[derive(Clone)]
pub(super) struct Store {
    pub(super) layer: usize,
    pub(super) part: KvPart,
    /// Called as where it is a node of its own; a fused node stores both.
    pub(super) node: Arc<NodeOn>,
    /// Values that went by before it.
    pub(super) at: usize,
}

impl Store {
    /// What `node` stores; `at` values went by before it.
    pub(super) fn of(node: &Node, at: usize) -> Vec<Store> {
        let (layer, parts) = match node.op {
            Op::KvcacheStore { layer, part } => (layer, vec![part]),
            Op::QkvBiasRopeStore { layer, .. } => (layer, vec![KvPart::K, KvPart::V]),
            _ => return Vec::new(),
        };
        let store = |part| {
            let name = match part {
                KvPart::K => format!("{layer}.k_store"),
                KvPart::V => format!("{layer}.v_store"),
            };
            let backend = node.backend.unwrap_or(Backend::CPU);
            Store { layer, part, node: Arc::new(NodeOn { name, op: node.op.kind().name(), backend }), at }
        };
        parts.into_iter().map(store).collect()
    }

    /// What it stands for: the same on both sides, whoever stores it.
    pub(super) fn value(&self, width: usize) -> Value {
        let part = Part::Cached(self.part);
        Value { name: format!("{part} of layer {}", self.layer), rows: 0..width, part: Some(part) }
    }
}

/// Shows `watcher` the rows that were stored for these tokens of a sequence by the step that has just run. What a backend
/// cannot read back is left out.
pub(super) fn show(
    context: &Context,
    seq: SeqId,
    tokens: Range<usize>,
    watcher: &mut dyn Watcher,
) -> Result<(), EngineError> {
    let (kv, registry) = (context.scheduler().kv(), context.scheduler().registry());
    for store in watcher.take_stores() {
        for (i, block) in context.blocks(seq).iter().enumerate() {
            let held = i * KV_BLOCK..(i + 1) * KV_BLOCK;
            let new = tokens.start.max(held.start)..tokens.end.min(held.end);
            if new.is_empty() {
                continue;
            }
            let values = kv.values((store.layer, store.part), *block, registry).map_err(StepError::Memory)?;
            let Some(values) = values else { break };
            let width = values.len() / KV_BLOCK;
            for token in new {
                watcher.cached(&store, token as u32, &values[(token - held.start) * width..][..width]);
            }
        }
    }
    watcher.step_is_over();
    Ok(())
}
