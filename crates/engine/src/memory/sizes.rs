//! The sizes behind a plan.

use std::collections::HashSet;
use std::sync::Arc;

use minfer_graph::{
    Backend, CACHED_GRAPHS, Compiled, GraphParams, KvPart, StepError, WeightRef, WeightUse, compile,
};

use crate::error::EngineError;
use crate::model::Model;
use crate::setup::Setup;

/// What one node of a prepared graph takes, its decisions and its step included: measured, with a third more.
const NODE_BYTES: usize = 640;

/// Raw bytes of a matrix that are in memory while it is packed, before their pages go.
const FILE_STRETCH: usize = 8 << 20;

/// The system maps 64 KiB around a page that is touched; of what it maps behind a place that has been let go, half on
/// average, stays.
const FAULT_AROUND: usize = 32 << 10;

/// What the sampler keeps for each token of the vocabulary: a rank, and a candidate.
const SAMPLER_BYTES: usize = 8 + 16;

/// What graphs and backends say.
#[derive(Default)]
pub(super) struct Sizes {
    pub(super) weights: usize,
    pub(super) kv: usize,
    pub(super) scratch: usize,
    pub(super) graphs: usize,
    pub(super) arenas: Vec<(Backend, usize)>,
}

impl Sizes {
    /// The first of `steps` names every weight in the order in which they are loaded.
    pub(super) fn of(model: &Arc<Model>, setup: &Setup, steps: &[GraphParams]) -> Result<Sizes, EngineError> {
        let mut sizes = Sizes::default();
        let mut n_nodes = 0;
        for (i, params) in steps.iter().enumerate() {
            let compiled = compile(model.description(), params, &setup.registry, &mut |_, _| {});
            let compiled = compiled.map_err(StepError::from)?;
            n_nodes = n_nodes.max(compiled.graph.nodes.len());
            if i == 0 {
                sizes.weights = missing_weights(&compiled, setup);
                sizes.kv = kv(&compiled, setup);
            }
            sizes.scratch = sizes.scratch.max(scratch(&compiled, setup));
            sizes.grow_arenas(&compiled, setup);
        }
        sizes.graphs = CACHED_GRAPHS * n_nodes * NODE_BYTES;
        Ok(sizes)
    }

    fn grow_arenas(&mut self, compiled: &Compiled, setup: &Setup) {
        for driver in setup.registry.drivers() {
            let (backend, bytes) = (driver.backend(), compiled.plan.bytes(driver.backend()));
            match self.arenas.iter_mut().find(|a| a.0 == backend) {
                Some(arena) => arena.1 = arena.1.max(bytes),
                None => self.arenas.push((backend, bytes)),
            }
        }
    }
}

/// What backends will take for their forms of the weights, without what they have.
fn missing_weights(compiled: &Compiled, setup: &Setup) -> usize {
    let mut total = 0usize;
    for driver in setup.registry.drivers() {
        let mut seen = HashSet::new();
        let nodes = compiled.splits.iter().filter(|s| s.backend == driver.backend()).flat_map(|s| &s.nodes);
        let weights: Vec<(WeightUse<'_>, &WeightRef)> = nodes
            .map(|id| compiled.graph.node(*id))
            .flat_map(|node| node.meta.weights.iter().enumerate().map(move |(i, w)| (node, i, w)))
            .filter(|(_, _, w)| seen.insert(w.name.clone()))
            .map(|(node, index, w)| (WeightUse { name: &w.name, op: &node.op, index }, w))
            .collect();
        let loaded = driver.loaded_bytes(compiled.params.weights_version);
        total = total.saturating_add(driver.weight_bytes(&weights).saturating_sub(loaded));
    }
    total
}

fn kv(compiled: &Compiled, setup: &Setup) -> usize {
    let mut total = 0usize;
    let mut seen = HashSet::new();
    for node in &compiled.graph.nodes {
        let (Some(layer), Some(backend)) = (node.op.kv_layer(), node.backend) else { continue };
        let (Some(spec), Some(driver)) = (setup.kv.get(layer), setup.registry.driver(backend)) else {
            continue;
        };
        if seen.insert(layer) {
            for part in [KvPart::K, KvPart::V] {
                let region = driver.kv_block_bytes(spec, part).saturating_mul(spec.n_blocks);
                total = total.saturating_add(region);
            }
        }
    }
    total
}

fn scratch(compiled: &Compiled, setup: &Setup) -> usize {
    let of_driver = |driver: &Arc<dyn minfer_graph::BackendDriver>| {
        let splits = compiled.splits.iter().filter(|s| s.backend == driver.backend());
        let nodes: Vec<_> = splits.flat_map(|s| s.nodes.iter().copied()).collect();
        driver.scratch_bytes(&compiled.graph, &nodes, &setup.kv)
    };
    setup.registry.drivers().iter().map(of_driver).fold(0, usize::saturating_add)
}

/// Logits of the largest step, on their way and as they are given out; a row and a sampler for each sequence.
pub(super) fn logits(n_vocab: usize, n_outputs: usize, n_seq_max: usize) -> usize {
    let row = n_vocab.saturating_mul(size_of::<f32>());
    let outputs = row.saturating_mul(2).saturating_mul(n_outputs);
    let per_sequence = row.saturating_add(n_vocab.saturating_mul(SAMPLER_BYTES));
    outputs.saturating_add(per_sequence.saturating_mul(n_seq_max))
}

/// Pages of a mapped file that are in memory while it is being read.
pub(super) fn file_pages(model: &Model) -> usize {
    let (n_bytes, n_tensors) =
        model.file().tensors().fold((0usize, 0usize), |(b, n), t| (b.saturating_add(t.n_bytes()), n + 1));
    FILE_STRETCH.saturating_add(n_tensors.saturating_mul(FAULT_AROUND)).min(n_bytes)
}
