//! The sizes behind a plan.

use std::collections::HashSet;
use std::sync::Arc;

use minfer_graph::{
    Backend, BackendDriver, CACHED_GRAPHS, Compiled, GraphParams, InPlace, KvPart, KvSpec, LargestValue,
    StepError, compile,
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

/// What one backend takes.
#[derive(Clone, Debug, Default)]
pub(super) struct Size {
    pub(super) weights: usize,
    /// Pages of the file that it reads in place.
    pub(super) in_place: usize,
    /// Why it does not, if it does not.
    pub(super) uploaded_because: Option<String>,
    pub(super) kv: usize,
    pub(super) scratch: usize,
    /// Values of nodes.
    pub(super) arena: usize,
    /// The largest of them, in the step that takes most.
    pub(super) largest: Option<LargestValue>,
}

/// What graphs and backends say.
#[derive(Default)]
pub(super) struct Sizes {
    pub(super) graphs: usize,
    pub(super) of_backends: Vec<(Backend, Size)>,
}

impl Sizes {
    /// The first of `steps` names every weight in the order in which they are loaded.
    pub(super) fn of(model: &Arc<Model>, setup: &Setup, steps: &[GraphParams]) -> Result<Sizes, EngineError> {
        let backends = setup.registry.drivers().iter().map(|d| (d.backend(), Size::default()));
        let mut sizes = Sizes { graphs: 0, of_backends: backends.collect() };
        let mut n_nodes = 0;
        for (i, params) in steps.iter().enumerate() {
            let compiled = compile(model.description(), params, &setup.registry, &mut |_, _| {});
            let compiled = compiled.map_err(StepError::from)?;
            n_nodes = n_nodes.max(compiled.graph.nodes.len());
            for (backend, size) in &mut sizes.of_backends {
                let Some(driver) = setup.registry.driver(*backend) else { continue };
                if i == 0 {
                    missing_weights(&compiled, driver, model, size);
                    size.kv = kv(&compiled, driver, &setup.kv);
                }
                size.scratch = size.scratch.max(scratch(&compiled, driver, &setup.kv));
                let arena = compiled.plan.bytes(*backend);
                if arena > size.arena {
                    (size.arena, size.largest) = (arena, compiled.largest_value(*backend));
                }
            }
        }
        sizes.graphs = CACHED_GRAPHS * n_nodes * NODE_BYTES;
        Ok(sizes)
    }

    /// What backends that work in the machine's memory take of something, together.
    pub(super) fn machine(&self, setup: &Setup, of: impl Fn(&Size) -> usize) -> usize {
        let is_machine =
            |b: Backend| setup.registry.driver(b).is_none_or(|driver| driver.own_memory().is_none());
        let sizes = self.of_backends.iter().filter(|(backend, _)| is_machine(*backend));
        sizes.fold(0, |sum, (_, size)| sum.saturating_add(of(size)))
    }
}

type Driver = Arc<dyn BackendDriver>;

/// What a backend will take for the weights, without what it has.
fn missing_weights(compiled: &Compiled, driver: &Driver, model: &Model, size: &mut Size) {
    let (weights, source) = (compiled.weights_of(driver.backend()), model.weights());
    let bytes = driver.weight_bytes(&weights, source.as_ref());
    (size.weights, size.in_place) = (bytes.own, bytes.in_place);
    size.uploaded_because = match driver.in_place(&weights, source.as_ref()) {
        InPlace::No(reason) if !weights.is_empty() => Some(reason),
        _ => None,
    };
}

/// The cache of the layers whose attention the backend runs.
fn kv(compiled: &Compiled, driver: &Driver, specs: &[KvSpec]) -> usize {
    let mut total = 0usize;
    let mut seen = HashSet::new();
    for node in compiled.graph.nodes.iter().filter(|n| n.backend == Some(driver.backend())) {
        let Some(layer) = node.op.kv_layer() else { continue };
        let Some(spec) = specs.get(layer) else { continue };
        if seen.insert(layer) {
            for part in [KvPart::K, KvPart::V] {
                let region = driver.kv_block_bytes(spec, part).saturating_mul(spec.n_blocks);
                total = total.saturating_add(region);
            }
        }
    }
    total
}

fn scratch(compiled: &Compiled, driver: &Driver, specs: &[KvSpec]) -> usize {
    let splits = compiled.splits.iter().filter(|s| s.backend == driver.backend());
    let nodes: Vec<_> = splits.flat_map(|s| s.nodes.iter().copied()).collect();
    driver.scratch_bytes(&compiled.graph, &nodes, specs)
}

/// Logits of the largest step, on their way and as they are given out; a row and a sampler for each sequence.
pub(super) fn logits(n_vocab: usize, n_outputs: usize, n_seq_max: usize) -> usize {
    let row = n_vocab.saturating_mul(size_of::<f32>());
    let outputs = row.saturating_mul(2).saturating_mul(n_outputs);
    let per_sequence = row.saturating_add(n_vocab.saturating_mul(SAMPLER_BYTES));
    outputs.saturating_add(per_sequence.saturating_mul(n_seq_max))
}

/// Pages of a mapped file that are in memory while weights are loaded, and those that stay because `in_place` bytes of them
/// are read there.
pub(super) fn file_pages(model: &Model, in_place: usize) -> usize {
    let (n_bytes, n_tensors) =
        model.file().tensors().fold((0usize, 0usize), |(b, n), t| (b.saturating_add(t.n_bytes()), n + 1));
    let passing = FILE_STRETCH.saturating_add(n_tensors.saturating_mul(FAULT_AROUND)).min(n_bytes);
    // What stays is counted in whole pages, so it may be more than the tensors are.
    passing.saturating_add(in_place).min(n_bytes.max(in_place))
}
