//! Gives every node to a backend.
//!
//! The policy, whole: for every node without an owner, the first backend in priority order that is enabled, allowed,
//! eligible for the node's layer and says yes; otherwise the CPU. Assignment is total and final. A view follows its
//! source, since it is the source's memory.

use std::fmt;

use minfer_gguf::TensorType;

use crate::backend::Backend;
use crate::driver::{AttnSpan, BackendDriver, Support, kernel_dtypes};
use crate::graph::{ComputeGraph, Node};
use crate::op::Op;
use crate::params::{CParams, KvType};
use crate::registry::Registry;

/// No backend at all can run a node.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
#[error("no backend can run node '{node}' ({op}): {refusals}")]
pub struct AssignError {
    /// Name of the node.
    pub node: String,
    /// Name of its op.
    pub op: &'static str,
    /// Who was asked and what each said.
    pub refusals: String,
}

/// Why a node has its owner.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Reason {
    /// It had one before.
    Explicit,
    /// The first backend that said yes; those before it refused for these reasons.
    Chosen(Vec<(Backend, &'static str)>),
    /// A view goes where its source is.
    FollowsSource,
}

impl fmt::Display for Reason {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Reason::Explicit => f.write_str("explicit"),
            Reason::FollowsSource => f.write_str("follows its source"),
            Reason::Chosen(refusals) if refusals.is_empty() => f.write_str("first in priority order"),
            Reason::Chosen(refusals) => {
                let refusals: Vec<_> = refusals.iter().map(|(b, r)| format!("{}: {r}", b.name())).collect();
                write!(f, "refused by {}", refusals.join("; "))
            }
        }
    }
}

/// Who may own what: registry and settings together.
#[derive(Clone, Copy)]
pub struct Policy<'a> {
    registry: &'a Registry,
    cparams: &'a CParams,
}

impl<'a> Policy<'a> {
    /// The policy of a context.
    pub fn new(registry: &'a Registry, cparams: &'a CParams) -> Self {
        Policy { registry, cparams }
    }

    /// The first backend that takes `op` on all of `dtypes` in `layer`, and the refusals of those asked before it.
    pub fn choose(
        &self,
        op: &Op,
        dtypes: &[TensorType],
        layer: Option<usize>,
    ) -> (Option<Backend>, Vec<(Backend, &'static str)>) {
        let mut refusals = Vec::new();
        for driver in self.registry.drivers() {
            match self.ask(driver.as_ref(), op, dtypes, layer) {
                Support::Yes => return (Some(driver.backend()), refusals),
                Support::No(reason) => refusals.push((driver.backend(), reason)),
            }
        }
        (None, refusals)
    }

    /// Whether the backend that owns `base` on these types in `layer` also has the fused kernel `fused` for them. This is
    /// what a model asks before it emits a structural fusion, which all its parts would have run on one backend.
    pub fn claims_fused(
        &self,
        fused: &Op,
        base: &Op,
        dtypes: &[TensorType],
        layer: Option<usize>,
    ) -> Support {
        let (owner, _) = self.choose(base, dtypes, layer);
        match owner.and_then(|owner| self.registry.driver(owner)) {
            Some(driver) => self.ask(driver.as_ref(), fused, dtypes, layer),
            None => Support::No("no backend takes its parts"),
        }
    }

    fn ask(
        &self,
        driver: &dyn BackendDriver,
        op: &Op,
        dtypes: &[TensorType],
        layer: Option<usize>,
    ) -> Support {
        let backend = driver.backend();
        if !self.cparams.backends.contains(backend) {
            return Support::No("not among the backends in use");
        }
        if !self.eligible(backend, layer) {
            return Support::No("does not hold this part of the model");
        }
        if op.kind().is_fused()
            && let no @ Support::No(_) = driver.supports_fused(op.kind())
        {
            return no;
        }
        if let Op::Attn(spec) = op {
            let span = AttnSpan {
                head_dim: spec.head_dim,
                group: spec.n_heads / spec.n_kv_heads.max(1),
                n_ctx: self.cparams.n_ctx,
                kv_type: self.cparams.kv_type,
            };
            if let no @ Support::No(_) = driver.supports_attn_span(&span) {
                return no;
            }
        }
        dtypes.iter().map(|t| driver.supports_op(op, *t)).find(|s| !s.is_yes()).unwrap_or(Support::Yes)
    }

    fn eligible(&self, backend: Backend, layer: Option<usize>) -> bool {
        if backend == Backend::CPU {
            return true;
        }
        match (self.cparams.gpu, layer) {
            (Some(gpu), Some(layer)) => gpu.backend == backend && layer < gpu.n_layers,
            (Some(gpu), None) => gpu.backend == backend && gpu.outside_layers,
            (None, _) => false,
        }
    }
}

/// Gives every node of `graph` without an owner to one; says why, node by node.
pub fn assign(graph: &mut ComputeGraph, policy: &Policy<'_>) -> Result<Vec<Reason>, AssignError> {
    let mut reasons = Vec::with_capacity(graph.nodes.len());
    for i in 0..graph.nodes.len() {
        let (backend, reason) = owner(graph, &graph.nodes[i], policy)?;
        graph.nodes[i].backend = Some(backend);
        reasons.push(reason);
    }
    Ok(reasons)
}

fn owner(graph: &ComputeGraph, node: &Node, policy: &Policy<'_>) -> Result<(Backend, Reason), AssignError> {
    if let Some(backend) = node.backend {
        return Ok((backend, Reason::Explicit));
    }
    let source = node.src.first().and_then(|s| graph.node(*s).backend);
    if let (true, Some(backend)) = (node.op.is_view(), source) {
        return Ok((backend, Reason::FollowsSource));
    }
    let dtypes = kernel_dtypes(node, kv_type(policy));
    match policy.choose(&node.op, &dtypes, node.layer) {
        (Some(backend), refusals) => Ok((backend, Reason::Chosen(refusals))),
        (None, refusals) => Err(AssignError {
            node: node.name.to_string(),
            op: node.op.kind().name(),
            refusals: refusals
                .iter()
                .map(|(b, r)| format!("{}: {r}", b.name()))
                .collect::<Vec<_>>()
                .join("; "),
        }),
    }
}

fn kv_type(policy: &Policy<'_>) -> KvType {
    policy.cparams.kv_type
}

/// Whether `backend` may own `op`, which fusion makes, on `dtypes`.
pub(crate) fn takes_fused(registry: &Registry, backend: Backend, op: &Op, dtypes: &[TensorType]) -> Support {
    let Some(driver) = registry.driver(backend) else { return Support::No("the backend is not registered") };
    if let no @ Support::No(_) = driver.supports_fused(op.kind()) {
        return no;
    }
    dtypes.iter().map(|t| driver.supports_op(op, *t)).find(|s| !s.is_yes()).unwrap_or(Support::Yes)
}
