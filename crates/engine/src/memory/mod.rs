//! What a context will need, computed part by part and compared with what there is, before anything is allocated.
//!
//! The figures are upper bounds of what the process takes, from the sizes that the graphs of the largest steps were
//! planned with and from what the backends say of their own forms. The part that is there already (the program, the
//! vocabulary, the file's header) is measured.

mod available;
mod cgroup;
mod device;
mod ledger;
mod shortage;
mod sizes;

use std::sync::Arc;

use minfer_graph::{Backend, GraphParams, GraphType, LargestValue};

pub use available::{Available, LimitSource};
pub use device::GpuShare;
pub(crate) use device::fits_on_device;
pub(crate) use ledger::Reservation;
pub use shortage::Shortage;
#[cfg(feature = "gpu")]
pub(crate) use shortage::size;

use crate::error::EngineError;
use crate::model::Model;
use crate::params::{ContextParams, MAX_POSITIONS};
use crate::setup::{Setup, best_of};

/// What memory is for.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub enum PlanPart {
    /// What is there already: the program, the vocabulary, the file's header; other contexts.
    Program,
    /// Pages of the model file that are in use at once: while weights are loaded, and for good where a device reads them in
    /// place.
    File,
    /// Weights in the form that the backends read.
    Weights,
    /// Keys and values of all positions, and with them the cache of prefixes.
    Kv,
    /// Values of the nodes of the largest step.
    Activations,
    /// Working memory of the backends, all threads together.
    Scratch,
    /// Rows of logits, and what choosing tokens takes.
    Logits,
    /// Graphs that are kept ready.
    Graphs,
    /// A draft model, all that it takes.
    Draft,
}

impl PlanPart {
    /// Its name, as tables show it.
    pub fn name(self) -> &'static str {
        match self {
            PlanPart::Program => "program and vocabulary",
            PlanPart::File => "pages of the file",
            PlanPart::Weights => "weights",
            PlanPart::Kv => "KV cache",
            PlanPart::Activations => "activations",
            PlanPart::Scratch => "working memory",
            PlanPart::Logits => "logits and sampling",
            PlanPart::Graphs => "prepared graphs",
            PlanPart::Draft => "draft model",
        }
    }
}

/// The memory of a context.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Plan {
    /// Positions of one sequence.
    pub n_ctx: usize,
    /// Sequences at once.
    pub n_seq_max: usize,
    parts: Vec<(PlanPart, usize)>,
    arenas: Vec<(Backend, usize)>,
    /// The largest value in each.
    largest: Vec<(Backend, LargestValue)>,
    gpu: Option<GpuShare>,
    gpu_left_out: Option<String>,
}

impl Plan {
    /// The plan of a context with these settings. Nothing is allocated, no weight is read.
    pub fn new(model: &Arc<Model>, params: &ContextParams) -> Result<Plan, EngineError> {
        Plan::of(model, params, &Setup::new(model, params)?)
    }

    pub(crate) fn of(model: &Arc<Model>, params: &ContextParams, setup: &Setup) -> Result<Plan, EngineError> {
        let mut steps = largest_steps(params, setup);
        if setup.finds_best(model) {
            steps.extend(steps.clone().into_iter().map(best_of));
        }
        let sizes = sizes::Sizes::of(model, setup, &steps)?;
        let mut parts = vec![
            (PlanPart::Program, ledger::in_use()),
            (PlanPart::File, sizes::file_pages(model, sizes.machine(setup, |s| s.in_place))),
            (PlanPart::Weights, sizes.machine(setup, |s| s.weights)),
            (PlanPart::Kv, sizes.machine(setup, |s| s.kv)),
            (PlanPart::Activations, sizes.machine(setup, |s| s.arena)),
            (PlanPart::Scratch, sizes.machine(setup, |s| s.scratch)),
            (PlanPart::Logits, sizes::logits(model.n_vocab(), n_outputs(params), params.n_seq_max)),
            (PlanPart::Graphs, sizes.graphs),
        ];
        if params.draft_bytes > 0 {
            parts.push((PlanPart::Draft, params.draft_bytes));
        }
        let arenas = sizes.of_backends.iter().map(|(backend, size)| (*backend, size.arena)).collect();
        let largest =
            sizes.of_backends.iter().filter_map(|(b, size)| Some((*b, size.largest.clone()?))).collect();
        let gpu = GpuShare::of(&sizes, setup, model);
        Ok(Plan {
            n_ctx: setup.n_ctx,
            n_seq_max: params.n_seq_max,
            parts,
            arenas,
            largest,
            gpu,
            gpu_left_out: setup.gpu_left_out.clone(),
        })
    }

    /// What a device takes of the model, if one does.
    pub fn gpu(&self) -> Option<&GpuShare> {
        self.gpu.as_ref()
    }

    /// Why a GPU of this machine that nobody asked for takes no layers, if that is so.
    pub fn gpu_left_out(&self) -> Option<&str> {
        self.gpu_left_out.as_deref()
    }

    /// Every part with its bytes.
    pub fn parts(&self) -> &[(PlanPart, usize)] {
        &self.parts
    }

    /// Bytes of one part.
    pub fn bytes(&self, part: PlanPart) -> usize {
        self.parts.iter().filter(|p| p.0 == part).map(|p| p.1).sum()
    }

    /// Bytes of all parts: the most that the process takes.
    pub fn total(&self) -> usize {
        self.parts.iter().fold(0, |sum, p| sum.saturating_add(p.1))
    }

    /// Bytes that are not there yet.
    pub fn missing(&self) -> usize {
        self.total() - self.bytes(PlanPart::Program)
    }

    /// Bytes of node values on each backend.
    pub(crate) fn arenas(&self) -> &[(Backend, usize)] {
        &self.arenas
    }

    /// The largest node value on a backend.
    pub(crate) fn largest(&self, backend: Backend) -> Option<LargestValue> {
        self.largest.iter().find(|(b, _)| *b == backend).map(|(_, value)| value.clone())
    }

    /// Refuses a plan that does not fit into what there is, or into `params.memory`; says what would.
    pub fn check(&self, model: &Arc<Model>, params: &ContextParams) -> Result<(), EngineError> {
        if let Some(gpu) = self.gpu.as_ref().filter(|gpu| !gpu.fits()) {
            return Err(EngineError::DeviceMemory(Box::new(gpu.clone())));
        }
        let Some(available) = Available::now(params.memory) else { return Ok(()) };
        if self.fits(&available) {
            return Ok(());
        }
        Err(Shortage::explain(self, available, model, params).into())
    }

    /// The longest context that fits into `available` with the same number of sequences, in whole blocks of the cache; 0
    /// when none does. It may be longer than the model was trained for.
    pub fn largest_n_ctx(&self, model: &Arc<Model>, params: &ContextParams, available: &Available) -> usize {
        let fits = shortage::Fits { model, params, available };
        let most = if self.fits(available) { MAX_POSITIONS / self.n_seq_max.max(1) } else { self.n_ctx };
        fits.largest_n_ctx(most, self.n_seq_max)
    }

    fn fits(&self, available: &Available) -> bool {
        self.missing() <= available.bytes
    }
}

/// Rows of logits in one step; without one, nothing could be answered.
pub(crate) fn n_outputs(params: &ContextParams) -> usize {
    params.n_outputs_max.unwrap_or(params.n_seq_max).max(1)
}

/// The steps that take most: a full chunk with all its rows of logits, and a decode step of all sequences. Smaller steps
/// find room where these do.
fn largest_steps(params: &ContextParams, setup: &Setup) -> Vec<GraphParams> {
    let n_tokens = params.n_ubatch.min(setup.n_ctx.saturating_mul(params.n_seq_max)).max(1);
    let n_out = n_outputs(params).clamp(1, n_tokens);
    let decode = |n| setup.params(n, n, GraphType::Decode);
    vec![decode(1), decode(params.n_seq_max), setup.params(n_tokens, n_out, GraphType::Prefill)]
}
