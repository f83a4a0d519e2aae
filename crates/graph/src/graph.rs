//! The graph itself: nodes in an order in which every source comes before its consumers.

use std::sync::Arc;

use crate::backend::Backend;
use crate::fuse::FusionRecord;
use crate::op::{Op, WeightRef};

/// A node's position in the graph, which is also its place in the order of execution.
#[derive(Clone, Copy, PartialEq, Eq, Hash, PartialOrd, Ord, Debug)]
pub struct NodeId(pub u32);

impl NodeId {
    /// As an index into [`ComputeGraph::nodes`].
    pub fn index(self) -> usize {
        self.0 as usize
    }
}

/// Element type of a node's value.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub enum DType {
    /// 32-bit float: every activation.
    F32,
    /// 16-bit float: only the KV cache.
    F16,
    /// 8-bit integers with scales: only the KV cache.
    Q8_0,
    /// 32-bit integer: token ids, positions, slots, tables.
    I32,
}

impl DType {
    /// Bytes of one element, without what elements share.
    pub fn bytes(self) -> usize {
        match self {
            DType::Q8_0 => 1,
            DType::F16 => 2,
            DType::F32 | DType::I32 => 4,
        }
    }

    /// Lower-case name: `f32`.
    pub fn name(self) -> &'static str {
        match self {
            DType::F32 => "f32",
            DType::F16 => "f16",
            DType::Q8_0 => "q8_0",
            DType::I32 => "i32",
        }
    }
}

/// Extents with dimension 0 fastest; unused dimensions are 1.
pub type Shape = [usize; 4];

/// What a node carries besides its op and its place.
#[derive(Clone, Debug, Default, PartialEq)]
pub struct NodeMeta {
    /// The weights that the op reads, in the order its definition states.
    pub weights: Vec<WeightRef>,
}

/// One operation of the graph.
#[derive(Clone, Debug, PartialEq)]
pub struct Node {
    /// Its own position.
    pub id: NodeId,
    /// `attn_norm` in layer 3 is named `3.attn_norm`.
    pub name: Arc<str>,
    /// What it computes.
    pub op: Op,
    /// Where its operands come from; all earlier nodes.
    pub src: Vec<NodeId>,
    /// Extents of its value.
    pub out_shape: Shape,
    /// Element type of its value.
    pub out_dtype: DType,
    /// The layer it belongs to; `None` before the first and after the last.
    pub layer: Option<usize>,
    /// Its owner; set once, by assignment.
    pub backend: Option<Backend>,
    /// Names of weights.
    pub meta: NodeMeta,
}

impl Node {
    /// Elements of its value.
    pub fn n_elems(&self) -> usize {
        self.out_shape.iter().product()
    }

    /// Bytes of its value.
    pub fn out_bytes(&self) -> usize {
        self.n_elems() * self.out_dtype.bytes()
    }
}

/// A description of one forward step. Building it has no effect on anything else.
#[derive(Clone, Debug)]
pub struct ComputeGraph {
    /// In build order, which is a topological order and the order of execution.
    pub nodes: Vec<Node>,
    /// Nodes that the caller fills.
    pub inputs: Vec<NodeId>,
    /// Nodes that the caller reads.
    pub outputs: Vec<NodeId>,
    /// Structural fusions that the model thought of while it described the step, taken and refused.
    pub considered: Vec<FusionRecord>,
    /// Different for every graph built in this process.
    pub uid: u64,
}

impl ComputeGraph {
    /// The node at `id`.
    pub fn node(&self, id: NodeId) -> &Node {
        &self.nodes[id.index()]
    }

    /// The first node called `name`.
    pub fn by_name(&self, name: &str) -> Option<&Node> {
        self.nodes.iter().find(|n| &*n.name == name)
    }

    /// For every node, the later nodes that read it, in order; a node that reads it twice stands there twice.
    pub fn consumers(&self) -> Vec<Vec<NodeId>> {
        let mut consumers = vec![Vec::new(); self.nodes.len()];
        for node in &self.nodes {
            for src in &node.src {
                consumers[src.index()].push(node.id);
            }
        }
        consumers
    }

    /// Which nodes must run: those that an output or a store into the KV cache depends on. The rest are orphans.
    pub fn live(&self) -> Vec<bool> {
        let mut live = vec![false; self.nodes.len()];
        for id in &self.outputs {
            live[id.index()] = true;
        }
        for node in self.nodes.iter().rev() {
            if node.op.has_side_effect() {
                live[node.id.index()] = true;
            }
            if live[node.id.index()] {
                for src in &node.src {
                    live[src.index()] = true;
                }
            }
        }
        live
    }
}
