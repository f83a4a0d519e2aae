//! Checks the graph between passes (in debug builds and tests): what a pass may rely on, stated as code.

use crate::assign::takes_fused;
use crate::backend::Backend;
use crate::builder::operand;
use crate::driver::{Support, kernel_dtypes};
use crate::graph::{ComputeGraph, DType, Node, Shape};
use crate::op::{KvPart, Op};
use crate::params::{GraphParams, GraphType, KvType};
use crate::registry::Registry;
use crate::shape::{ShapeError, infer};

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
