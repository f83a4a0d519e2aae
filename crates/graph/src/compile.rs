//! All passes on one page: build → assign → fuse → split → plan.

use std::cmp::Reverse;
use std::collections::HashSet;

use crate::assign::{AssignError, Policy, Reason, assign};
use crate::backend::Backend;
use crate::builder::BuildError;
use crate::driver::WeightUse;
use crate::fuse::{FusionRecord, fuse};
use crate::graph::ComputeGraph;
use crate::op::{OpKind, WeightRef};
use crate::params::GraphParams;
use crate::plan::{MemoryPlan, plan};
use crate::registry::Registry;
use crate::split::{Split, split};
use crate::verify::{ParamsError, Stage, VerifyError, verify, verify_params, verify_plan};

/// A graph that could not be made ready.
#[derive(Clone, Debug, PartialEq, thiserror::Error)]
pub enum CompileError {
    /// The size of the step makes no sense for the context.
    #[error(transparent)]
    Params(#[from] ParamsError),
    /// The model described a node that does not fit.
    #[error(transparent)]
    Build(#[from] BuildError),
    /// Nobody can run a node.
    #[error(transparent)]
    Assign(#[from] AssignError),
    /// A pass broke a rule of the graph.
    #[error(transparent)]
    Verify(#[from] VerifyError),
}

/// A graph with every decision made.
#[derive(Clone, Debug)]
pub struct Compiled {
    /// Assigned and fused.
    pub graph: ComputeGraph,
    /// What it was built for.
    pub params: GraphParams,
    /// Which nodes run.
    pub live: Vec<bool>,
    /// Runs of nodes on one backend.
    pub splits: Vec<Split>,
    /// Where values lie.
    pub plan: MemoryPlan,
    /// Why each node has its owner.
    pub reasons: Vec<Reason>,
    /// What became of each fusion candidate: first those of the model, then local patterns.
    pub fusions: Vec<FusionRecord>,
}

impl Compiled {
    /// The largest value that `backend` keeps, its own or a copy; the first of equals.
    pub fn largest_value(&self, backend: Backend) -> Option<LargestValue> {
        let kept = self.graph.nodes.iter().filter(|n| self.plan.placement(n.id, backend).is_some());
        let node = kept.max_by_key(|n| (n.out_bytes(), Reverse(n.id.index())))?;
        Some(LargestValue { node: (&*node.name).into(), op: node.op.kind(), bytes: node.out_bytes() })
    }

    /// The weights that `backend` reads, each once, in the order in which they are loaded.
    pub fn weights_of(&self, backend: Backend) -> Vec<(WeightUse<'_>, &WeightRef)> {
        let mut seen = HashSet::new();
        let nodes = self.splits.iter().filter(|s| s.backend == backend).flat_map(|s| &s.nodes);
        nodes
            .map(|id| self.graph.node(*id))
            .flat_map(|node| node.meta.weights.iter().enumerate().map(move |(i, w)| (node, i, w)))
            .filter(|(_, _, w)| seen.insert(&*w.name))
            .map(|(node, index, w)| (WeightUse { name: &w.name, op: &node.op, index }, w))
            .collect()
    }
}

/// The largest value of a graph on a backend: what an error of its memory is to name.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct LargestValue {
    /// Name of the node.
    pub node: Box<str>,
    /// Its op.
    pub op: OpKind,
    /// Bytes of its value.
    pub bytes: usize,
}

/// Describes a graph; the policy tells which fused kernels there are.
pub trait GraphSource {
    /// The graph for `params`. Equal params and an equal policy give an equal graph.
    fn build(&self, params: &GraphParams, policy: &Policy<'_>) -> Result<ComputeGraph, BuildError>;
}

impl<F> GraphSource for F
where
    F: Fn(&GraphParams, &Policy<'_>) -> Result<ComputeGraph, BuildError>,
{
    fn build(&self, params: &GraphParams, policy: &Policy<'_>) -> Result<ComputeGraph, BuildError> {
        self(params, policy)
    }
}

/// Runs every pass. `at_stage` sees the graph as each pass leaves it, for dumps.
pub fn compile(
    source: &dyn GraphSource,
    params: &GraphParams,
    registry: &Registry,
    at_stage: &mut dyn FnMut(Stage, &ComputeGraph),
) -> Result<Compiled, CompileError> {
    verify_params(params)?;
    let policy = Policy::new(registry, &params.cparams);
    let mut check = |stage, graph: &ComputeGraph| {
        at_stage(stage, graph);
        // The passes keep these rules by construction; checking again is for whoever changes them.
        if cfg!(debug_assertions) { verify(graph, stage, registry, params.cparams.kv_type) } else { Ok(()) }
    };

    let mut graph = source.build(params, &policy)?;
    check(Stage::Built, &graph)?;
    let reasons = assign(&mut graph, &policy)?;
    check(Stage::Assigned, &graph)?;
    let local = fuse(&mut graph, registry);
    let fusions = [graph.considered.as_slice(), &local].concat();
    check(Stage::Fused, &graph)?;
    let live = graph.live();
    let splits = split(&graph, &live);
    let plan = plan(&graph, &live, &splits);
    check(Stage::Planned, &graph)?;
    if cfg!(debug_assertions) {
        verify_plan(&graph, &splits, &plan)?;
    }
    Ok(Compiled { graph, params: *params, live, splits, plan, reasons, fusions })
}
