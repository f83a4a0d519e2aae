//! A graph as it is at one stage: what has been decided by then, and nothing later.

use crate::assign::Reason;
use crate::backend::Backend;
use crate::compile::{CompileError, Compiled, GraphSource, compile};
use crate::fuse::FusionRecord;
use crate::graph::{ComputeGraph, Node, NodeId};
use crate::op::Op;
use crate::params::GraphParams;
use crate::plan::{BufferKey, MemoryPlan};
use crate::registry::Registry;
use crate::split::Split;
use crate::verify::Stage;

/// The graph of a step as a stage leaves it, kept while the passes went on.
#[derive(Clone, Debug)]
pub struct Snapshot {
    stage: Stage,
    graph: ComputeGraph,
    compiled: Compiled,
}

impl Snapshot {
    /// Runs the passes of a real step and keeps what `stage` leaves.
    pub fn take(
        source: &dyn GraphSource,
        params: &GraphParams,
        registry: &Registry,
        stage: Stage,
    ) -> Result<Snapshot, CompileError> {
        let mut kept = None;
        let compiled = compile(source, params, registry, &mut |at, graph| {
            if at == stage {
                kept = Some(graph.clone());
            }
        })?;
        let graph = kept.unwrap_or_else(|| compiled.graph.clone());
        Ok(Snapshot { stage, graph, compiled })
    }

    /// What there is to see.
    pub fn view(&self) -> View<'_> {
        View { stage: self.stage, graph: &self.graph, compiled: &self.compiled }
    }
}

/// What exports look at.
#[derive(Clone, Copy, Debug)]
pub struct View<'a> {
    stage: Stage,
    graph: &'a ComputeGraph,
    compiled: &'a Compiled,
}

impl<'a> View<'a> {
    /// A graph with every decision made.
    pub fn planned(compiled: &'a Compiled) -> Self {
        View { stage: Stage::Planned, graph: &compiled.graph, compiled }
    }

    /// How far the graph has come.
    pub fn stage(&self) -> Stage {
        self.stage
    }

    /// The nodes at this stage.
    pub fn graph(&self) -> &'a ComputeGraph {
        self.graph
    }

    /// What the graph was built for.
    pub fn params(&self) -> &'a GraphParams {
        &self.compiled.params
    }

    /// Why a node has its owner.
    pub fn reason(&self, id: NodeId) -> Option<&'a Reason> {
        self.from(Stage::Assigned)?.reasons.get(id.index())
    }

    /// Fusion candidates seen so far: those of the model from the start, local patterns once they are folded.
    pub fn fusions(&self) -> &'a [FusionRecord] {
        self.from(Stage::Fused).map_or(&self.graph.considered, |c| &c.fusions)
    }

    /// Whether a node runs, or is filled by the caller. Known once the graph is folded.
    pub fn is_live(&self, node: &Node) -> Option<bool> {
        let compiled = self.from(Stage::Fused)?;
        Some(compiled.live[node.id.index()] || node.op == Op::Input)
    }

    /// Runs of nodes on one backend.
    pub fn splits(&self) -> &'a [Split] {
        self.from(Stage::Planned).map_or(&[], |c| &c.splits)
    }

    /// Every buffer in use.
    pub fn buffers(&self) -> Vec<BufferKey> {
        self.from(Stage::Planned).map_or_else(Vec::new, |c| c.plan.buffers())
    }

    /// Where values lie.
    pub fn plan(&self) -> Option<&'a MemoryPlan> {
        self.from(Stage::Planned).map(|c| &c.plan)
    }

    /// Bytes of all buffers of `backend`.
    pub fn bytes(&self, backend: Backend) -> usize {
        self.from(Stage::Planned).map_or(0, |c| c.plan.bytes(backend))
    }

    /// Where a node's value lies on its own backend: the buffer and the byte in it.
    pub fn buffer(&self, node: &Node) -> Option<(BufferKey, usize)> {
        self.from(Stage::Planned)?.plan.buffer(node.id, node.backend?)
    }

    /// The source whose memory the node's value takes over.
    pub fn alias(&self, node: &Node) -> Option<&'a Node> {
        let plan = &self.from(Stage::Planned)?.plan;
        let source = self.graph.node(*node.src.first()?);
        let own = plan.placement(node.id, node.backend?)?;
        let theirs = plan.placement(source.id, source.backend?)?;
        (own.storage == theirs.storage).then_some(source)
    }

    fn from(&self, stage: Stage) -> Option<&'a Compiled> {
        (self.stage >= stage).then_some(self.compiled)
    }
}
