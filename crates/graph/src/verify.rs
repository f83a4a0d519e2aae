//! Checks the graph between passes (in debug builds and tests): what a pass may rely on, stated as code.

use crate::assign::takes_fused;
use std::collections::HashMap;
use std::ops::Range;

use crate::backend::Backend;
use crate::builder::operand;
use crate::driver::{Support, kernel_dtypes};
use crate::graph::{ComputeGraph, DType, Node, NodeId, Shape};
use crate::op::{KvPart, Op};
use crate::params::{GraphParams, GraphType, KvType};
use crate::plan::{BufferKey, MemoryPlan};
use crate::registry::Registry;
use crate::shape::{ShapeError, infer};
use crate::split::Split;

/// How far a graph has come.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub enum Stage {
    /// Described by a model.
    Built,
    /// Every node has an owner.
    Assigned,
    /// Local patterns are folded.
    Fused,
    /// Splits are cut and memory is placed.
    Planned,
}

impl Stage {
    /// Lower-case name: `built`.
    pub fn name(self) -> &'static str {
        match self {
            Stage::Built => "built",
            Stage::Assigned => "assigned",
            Stage::Fused => "fused",
            Stage::Planned => "planned",
        }
    }
}

/// A rule of the graph that a node breaks.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
pub enum Violation {
    /// A node's id is not its position.
    #[error("its id is {0}")]
    Id(u32),
    /// Build order is not a topological order.
    #[error("source {0} does not come before it")]
    Order(u32),
    /// The list of inputs and the ops disagree.
    #[error("it is an input in one place and not in the other")]
    Input,
    /// The op cannot take its operands.
    #[error("{0}")]
    Operands(Box<ShapeError>),
    /// The node's value is not what the op makes.
    #[error("its value is {found:?}, the op makes {expected:?}")]
    Value {
        /// What the op makes.
        expected: (DType, Shape),
        /// What the node says.
        found: (DType, Shape),
    },
    /// A load that does not follow a store into its region.
    #[error("its source does not store into the same region")]
    LoadWithoutStore,
    /// Attention over something that is not its layer's cache.
    #[error("source {0} is not the layer's region")]
    AttnRegion(u32),
    /// A node without owner after assignment.
    #[error("it has no owner")]
    NoOwner,
    /// An owner that does not exist.
    #[error("its owner {0} is not registered")]
    Unregistered(Backend),
    /// An owner that never said yes.
    #[error("{backend} does not claim it: {reason}")]
    NotClaimed {
        /// The owner.
        backend: Backend,
        /// What it says.
        reason: &'static str,
    },
    /// A live value without memory on the backend that reads it.
    #[error("source {0} has no memory where it is read")]
    NoMemory(u32),
    /// The node writes where a value lies that is still to be read.
    #[error("it overwrites the value of node {0}, which a later node reads")]
    Overwrites(u32),
    /// A KV region lies on one backend, and everything that touches it must run there.
    #[error("it touches a KV region of another backend")]
    ForeignKv,
}

/// A rule of the graph is broken: a defect of the pass that ran last.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
#[error("graph at stage '{}': node {index} '{name}': {violation}", stage.name())]
pub struct VerifyError {
    /// How far the graph had come.
    pub stage: Stage,
    /// Position of the node.
    pub index: usize,
    /// Its name.
    pub name: String,
    /// Which rule.
    pub violation: Violation,
}

/// The size of a step does not fit the context.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
pub enum ParamsError {
    /// No tokens, or more rows than tokens.
    #[error("a step of {n_tokens} tokens cannot give {n_out} rows")]
    Rows {
        /// Tokens of the step.
        n_tokens: usize,
        /// Rows asked for.
        n_out: usize,
    },
    /// A size of the context is zero.
    #[error("context, block size, blocks and sequences must be positive")]
    Zero,
    /// A decode step has one token for each sequence.
    #[error("a decode step of {n_tokens} tokens needs as many sequences, there are {n_seq_max}")]
    Sequences {
        /// Tokens of the step.
        n_tokens: usize,
        /// Sequences that can share a step.
        n_seq_max: usize,
    },
}

/// Checks order, arity, shapes and KV handles, and from [`Stage::Assigned`] on that every owner claims its nodes.
pub fn verify(
    graph: &ComputeGraph,
    stage: Stage,
    registry: &Registry,
    kv: KvType,
) -> Result<(), VerifyError> {
    for (index, node) in graph.nodes.iter().enumerate() {
        let checked = check_place(graph, index, node)
            .and_then(|()| check_shape(graph, node))
            .and_then(|()| check_kv(graph, node))
            .and_then(|()| match stage {
                Stage::Built => Ok(()),
                _ => check_owner(graph, node, registry, kv),
            });
        checked.map_err(|violation| VerifyError { stage, index, name: node.name.to_string(), violation })?;
    }
    Ok(())
}

fn check_place(graph: &ComputeGraph, index: usize, node: &Node) -> Result<(), Violation> {
    if node.id.index() != index {
        return Err(Violation::Id(node.id.0));
    }
    if let Some(src) = node.src.iter().find(|s| s.index() >= index) {
        return Err(Violation::Order(src.0));
    }
    if (node.op == Op::Input) != graph.inputs.contains(&node.id) {
        return Err(Violation::Input);
    }
    Ok(())
}

fn check_shape(graph: &ComputeGraph, node: &Node) -> Result<(), Violation> {
    let operands: Vec<_> = node.src.iter().map(|s| operand(graph.node(*s))).collect();
    let own = operand(node);
    let made = infer(&node.op, &operands, &node.meta.weights, own);
    let made = made.map_err(|e| Violation::Operands(Box::new(e)))?;
    let (expected, found) = ((made.dtype, made.shape), (own.dtype, own.shape));
    if expected == found { Ok(()) } else { Err(Violation::Value { expected, found }) }
}

fn check_kv(graph: &ComputeGraph, node: &Node) -> Result<(), Violation> {
    match &node.op {
        Op::KvcacheLoad { layer, part } => {
            let stores = match graph.node(node.src[0]).op {
                Op::KvcacheStore { layer: l, part: p } => l == *layer && p == *part,
                Op::QkvBiasRopeStore { layer: l, .. } => l == *layer,
                _ => false,
            };
            if stores { Ok(()) } else { Err(Violation::LoadWithoutStore) }
        }
        Op::Attn(spec) => {
            let wanted = [(node.src[1], KvPart::K), (node.src[2], KvPart::V)];
            let wrong = wanted.into_iter().find(|(src, part)| {
                graph.node(*src).op != Op::KvcacheLoad { layer: spec.layer, part: *part }
            });
            wrong.map_or(Ok(()), |(src, _)| Err(Violation::AttnRegion(src.0)))
        }
        _ => Ok(()),
    }
}

fn check_owner(graph: &ComputeGraph, node: &Node, registry: &Registry, kv: KvType) -> Result<(), Violation> {
    let backend = node.backend.ok_or(Violation::NoOwner)?;
    let driver = registry.driver(backend).ok_or(Violation::Unregistered(backend))?;
    let dtypes = kernel_dtypes(node, kv);
    let fused = match node.op.kind().is_fused() {
        true => takes_fused(registry, backend, &node.op, &dtypes),
        false => Support::Yes,
    };
    let mut answers = dtypes.iter().map(|t| driver.supports_op(&node.op, *t)).chain([fused]);
    if let Some(Support::No(reason)) = answers.find(|s| !s.is_yes()) {
        return Err(Violation::NotClaimed { backend, reason });
    }
    let mut kv_sources = node.src.iter().map(|s| graph.node(*s)).filter(|s| s.op.is_kv_handle());
    if kv_sources.any(|s| s.backend != Some(backend)) {
        return Err(Violation::ForeignKv);
    }
    Ok(())
}

/// Checks the size of a step and the geometry of the KV cache before a graph is built from them.
pub(crate) fn verify_params(p: &GraphParams) -> Result<(), ParamsError> {
    let (n_tokens, n_out, c) = (p.n_tokens, p.n_out, &p.cparams);
    if n_tokens == 0 || n_out > n_tokens {
        return Err(ParamsError::Rows { n_tokens, n_out });
    }
    if c.kv_block == 0 || c.n_ctx == 0 || c.n_kv_blocks == 0 || c.n_seq_max == 0 {
        return Err(ParamsError::Zero);
    }
    if p.gtype == GraphType::Decode && n_tokens > c.n_seq_max {
        return Err(ParamsError::Sequences { n_tokens, n_seq_max: c.n_seq_max });
    }
    Ok(())
}

/// Checks a memory plan against the graph alone: walking the run in order, what a node reads must still lie where it was
/// put. The planner's own idea of lives is not believed.
pub fn verify_plan(graph: &ComputeGraph, splits: &[Split], plan: &MemoryPlan) -> Result<(), VerifyError> {
    let mut ledger = Ledger { graph, plan, holders: HashMap::new() };
    for &id in &graph.inputs {
        if let Some(backend) = graph.node(id).backend {
            ledger.write(id, backend);
        }
    }
    for split in splits {
        for &id in &split.copies {
            ledger.read(id, graph.node(id).backend, graph.node(split.nodes[0]))?;
            ledger.write(id, split.backend);
        }
        for &id in &split.nodes {
            let node = graph.node(id);
            for &src in node.src.iter().filter(|s| !graph.node(**s).op.is_kv_handle()) {
                ledger.read(src, Some(split.backend), node)?;
            }
            ledger.write(id, split.backend);
        }
    }
    // Inputs stay readable to the end as well: a caller may look at what it gave.
    for &id in graph.outputs.iter().chain(&graph.inputs) {
        ledger.read(id, graph.node(id).backend, graph.node(id))?;
    }
    Ok(())
}

/// Whose value each stretch of memory holds while the run is walked.
struct Ledger<'a> {
    graph: &'a ComputeGraph,
    plan: &'a MemoryPlan,
    /// By buffer: values with their byte ranges.
    holders: HashMap<BufferKey, Vec<(NodeId, Range<usize>)>>,
}

impl Ledger<'_> {
    /// The value of `id` now lies on `backend`; what it overlaps is gone, unless it is a view of it.
    fn write(&mut self, id: NodeId, backend: Backend) {
        let node = self.graph.node(id);
        let Some((key, offset)) = self.plan.buffer(id, backend) else { return };
        let range = offset..offset + node.out_bytes();
        let held = self.holders.entry(key).or_default();
        let is_view = node.op.is_view() && node.backend == Some(backend);
        if !is_view {
            held.retain(|(_, r)| r.end <= range.start || range.end <= r.start);
        }
        held.push((id, range));
    }

    fn read(&self, id: NodeId, backend: Option<Backend>, reader: &Node) -> Result<(), VerifyError> {
        let at = backend.and_then(|b| self.plan.buffer(id, b));
        let violation = match at.map(|(key, _)| self.holders.get(&key)) {
            None => Violation::NoMemory(id.0),
            Some(held) if held.is_some_and(|h| h.iter().any(|(holder, _)| *holder == id)) => return Ok(()),
            Some(_) => Violation::Overwrites(id.0),
        };
        let (index, name) = (reader.id.index(), reader.name.to_string());
        Err(VerifyError { stage: Stage::Planned, index, name, violation })
    }
}

#[cfg(test)]
mod tests {
    use std::sync::Arc;

    use super::*;
    use crate::params::CParams;
    use crate::testing::NullDriver;
    use crate::{BackendSet, GraphBuilder, KvType, Policy, assign, plan, split};

    /// `last = b · 3`, `b = a + a`, `a = x · 2`, then a value is moved onto another's memory.
    #[test]
    fn a_plan_that_overwrites_a_value_still_to_be_read_is_named() {
        let mut registry = Registry::new();
        registry.register(Arc::new(NullDriver::new(Backend::CPU)));
        let mut b = GraphBuilder::new();
        let x = b.input("x", [8, 1, 1, 1], DType::F32);
        let first = b.scale("first", x, 2.0);
        let second = b.scale("second", x, 3.0);
        let sum = b.add("sum", first, second);
        b.output(sum);
        let mut graph = b.finish().unwrap();
        let cparams = CParams {
            n_ctx: 32,
            n_seq_max: 1,
            kv_block: 32,
            n_kv_blocks: 1,
            kv_type: KvType::F32,
            backends: BackendSet::CPU_ONLY,
            gpu: None,
            fuse_qkv: true,
            fuse_ffn: true,
        };
        assign(&mut graph, &Policy::new(&registry, &cparams)).unwrap();
        let live = graph.live();
        let splits = split(&graph, &live);
        let mut plan = plan(&graph, &live, &splits);
        assert_eq!(verify_plan(&graph, &splits, &plan), Ok(()));
        let (from, to) = (plan.placement(second, Backend::CPU), plan.placement(first, Backend::CPU));
        let target = plan.storages[to.unwrap().storage].buffer;
        plan.storages[from.unwrap().storage].buffer = target;
        let error = verify_plan(&graph, &splits, &plan).unwrap_err();
        assert_eq!((error.violation, &*error.name), (Violation::Overwrites(first.0), "sum"));
    }
}
