//! Folds local patterns into fused ops where the owner has the kernel.
//!
//! The pass runs once per build, after assignment, on every path. Rules are a table; a rule only recognises its pattern.
//! The pass itself checks owners, other consumers and outputs, collects every rewrite, then applies them. A rewrite
//! changes one node in place: ids, shapes and the number of nodes never change. What is left without consumers becomes an
//! orphan: it stays, gets no buffer and is skipped. Patterns match only unfused ops, so the pass is idempotent.

use minfer_gguf::TensorType;

use crate::assign::takes_fused;
use crate::driver::Support;
use crate::graph::{ComputeGraph, Node, NodeId};
use crate::op::Op;
use crate::registry::Registry;

/// A pattern found at a node.
pub struct Match {
    /// What the node becomes.
    pub op: Op,
    /// The sources it then has.
    pub src: Vec<NodeId>,
    /// Nodes that the pattern swallows: nothing else may read them.
    pub inner: Vec<NodeId>,
}

/// One line of the table.
pub struct Rule {
    /// Name in reports.
    pub name: &'static str,
    /// Recognises the pattern that ends at a node.
    pub find: fn(&ComputeGraph, &Node) -> Option<Match>,
}

/// Every rule, in the order in which they are tried.
pub const RULES: &[Rule] = &[Rule { name: "swiglu", find: find_swiglu }];

/// What became of one candidate: of a local pattern, or of a structural fusion that a model thought of.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct FusionRecord {
    /// Name of the rule.
    pub rule: &'static str,
    /// The node whose value the fused op gives, or would give.
    pub node: NodeId,
    /// `None` when it was taken, else why it was not.
    pub refused: Option<&'static str>,
}

/// Applies every rule to every node; reports all candidates.
pub fn fuse(graph: &mut ComputeGraph, registry: &Registry) -> Vec<FusionRecord> {
    let consumers = graph.consumers();
    let mut records = Vec::new();
    let mut rewrites = Vec::new();
    for node in &graph.nodes {
        for rule in RULES {
            let Some(found) = (rule.find)(graph, node) else { continue };
            let refused = refusal(graph, registry, node, &found, &consumers);
            records.push(FusionRecord { rule: rule.name, node: node.id, refused });
            if refused.is_none() {
                rewrites.push((node.id, found));
                break;
            }
        }
    }
    for (id, found) in rewrites {
        let node = &mut graph.nodes[id.index()];
        node.op = found.op;
        node.src = found.src;
    }
    records
}

fn refusal(
    graph: &ComputeGraph,
    registry: &Registry,
    node: &Node,
    found: &Match,
    consumers: &[Vec<NodeId>],
) -> Option<&'static str> {
    let Some(backend) = node.backend else { return Some("the node has no owner") };
    for inner in &found.inner {
        if graph.node(*inner).backend != Some(backend) {
            return Some("the pattern spans two backends");
        }
        if graph.outputs.contains(inner) {
            return Some("an inner value is an output");
        }
        if consumers[inner.index()] != [node.id] {
            return Some("an inner value has another consumer");
        }
    }
    match takes_fused(registry, backend, &found.op, &[TensorType::F32]) {
        Support::Yes => None,
        Support::No(reason) => Some(reason),
    }
}

/// `Mul(Silu(x), y)` or `Mul(y, Silu(x))` → `SwiGLU(x, y)`.
fn find_swiglu(graph: &ComputeGraph, node: &Node) -> Option<Match> {
    if node.op != Op::Mul || node.src.len() != 2 {
        return None;
    }
    let is_silu = |id: NodeId| graph.node(id).op == Op::Silu;
    let (silu, up) = match (node.src[0], node.src[1]) {
        (a, b) if is_silu(a) => (a, b),
        (a, b) if is_silu(b) => (b, a),
        _ => return None,
    };
    Some(Match { op: Op::SwiGlu, src: vec![graph.node(silu).src[0], up], inner: vec![silu] })
}
