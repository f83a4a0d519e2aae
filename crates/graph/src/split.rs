//! Cuts the node list into splits: maximal runs of nodes on one backend.
//!
//! Inputs and orphans belong to no split. Before a split runs, every value it reads from another backend is copied, once
//! for each backend: values never change after they are made, so a later split on the same backend finds the copy.

use std::collections::HashSet;

use crate::backend::Backend;
use crate::graph::{ComputeGraph, NodeId};
use crate::op::Op;

/// Consecutive nodes of one backend.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Split {
    /// Their owner.
    pub backend: Backend,
    /// In order; never empty.
    pub nodes: Vec<NodeId>,
    /// Values of other backends to copy before the split runs, in the order of first use.
    pub copies: Vec<NodeId>,
}

/// Splits of an assigned graph; `live` as from [`ComputeGraph::live`].
pub fn split(graph: &ComputeGraph, live: &[bool]) -> Vec<Split> {
    let mut splits: Vec<Split> = Vec::new();
    let mut copied: HashSet<(NodeId, Backend)> = HashSet::new();
    let runs = graph.nodes.iter().filter(|n| live[n.id.index()] && n.op != Op::Input);
    for node in runs {
        let Some(backend) = node.backend else { continue };
        if splits.last().is_none_or(|s| s.backend != backend) {
            splits.push(Split { backend, nodes: Vec::new(), copies: Vec::new() });
        }
        let Some(current) = splits.last_mut() else { continue };
        for &src in &node.src {
            let source = graph.node(src);
            let foreign = source.backend != Some(backend) && !source.op.is_kv_handle();
            if foreign && copied.insert((src, backend)) {
                current.copies.push(src);
            }
        }
        current.nodes.push(node.id);
    }
    splits
}
