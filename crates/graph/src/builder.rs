//! Describes a graph. Methods append sources before consumers, so build order is a topological order.
//!
//! A mistake (a shape that does not fit) is remembered and reported once, by [`GraphBuilder::finish`], so that a model's
//! topology reads as plain wiring. Until then the node stands with the shape that was asked for.

use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};

use crate::fuse::FusionRecord;
use crate::graph::{ComputeGraph, DType, Node, NodeId, NodeMeta, Shape};
use crate::op::{AttnSpec, KvPart, Op, QkvDims, RopeSpec, WeightRef};
use crate::params::KvType;
use crate::shape::{Operand, ShapeError, infer};

/// A node could not be described.
#[derive(Clone, Debug, PartialEq, thiserror::Error)]
#[error("node '{node}' ({op}): {source}")]
pub struct BuildError {
    /// Name of the node.
    pub node: String,
    /// Name of its op.
    pub op: &'static str,
    /// What does not fit.
    pub source: Box<ShapeError>,
}

static NEXT_UID: AtomicU64 = AtomicU64::new(1);

/// Builds one [`ComputeGraph`].
#[derive(Debug, Default)]
pub struct GraphBuilder {
    nodes: Vec<Node>,
    inputs: Vec<NodeId>,
    outputs: Vec<NodeId>,
    considered: Vec<FusionRecord>,
    layer: Option<usize>,
    error: Option<BuildError>,
}

impl GraphBuilder {
    /// An empty graph.
    pub fn new() -> Self {
        Self::default()
    }

    /// Nodes described from here on belong to `layer`, and their names start with it.
    pub fn set_layer(&mut self, layer: Option<usize>) {
        self.layer = layer;
    }

    /// A value that the caller fills before each step. Inputs belong to no layer.
    pub fn input(&mut self, name: &str, shape: Shape, dtype: DType) -> NodeId {
        let layer = self.layer.take();
        let id = self.push(name, Op::Input, &[], &[], Operand { shape, dtype });
        self.layer = layer;
        self.inputs.push(id);
        id
    }

    /// Marks a value that the caller reads after each step.
    pub fn output(&mut self, id: NodeId) {
        self.outputs.push(id);
    }

    /// Notes that a structural fusion was taken at `node`, or why it was not; reports show it.
    pub fn consider(&mut self, rule: &'static str, node: NodeId, refused: Option<&'static str>) {
        self.considered.push(FusionRecord { rule, node, refused });
    }

    /// Rows of the table `w` by `ids`.
    pub fn embed(&mut self, name: &str, ids: NodeId, w: &WeightRef) -> NodeId {
        self.derive(name, Op::GetRows, &[ids], std::slice::from_ref(w))
    }

    /// Columns of `x` by `ids`.
    pub fn get_rows(&mut self, name: &str, x: NodeId, ids: NodeId) -> NodeId {
        self.derive(name, Op::GetRows, &[x, ids], &[])
    }

    /// `a + b`.
    pub fn add(&mut self, name: &str, a: NodeId, b: NodeId) -> NodeId {
        self.derive(name, Op::Add, &[a, b], &[])
    }

    /// The bias `w` added to every column of `x`.
    pub fn add_bias(&mut self, name: &str, x: NodeId, w: &WeightRef) -> NodeId {
        self.derive(name, Op::Add, &[x], std::slice::from_ref(w))
    }

    /// `a · b`, element by element.
    pub fn mul(&mut self, name: &str, a: NodeId, b: NodeId) -> NodeId {
        self.derive(name, Op::Mul, &[a, b], &[])
    }

    /// `x · factor`.
    pub fn scale(&mut self, name: &str, x: NodeId, factor: f32) -> NodeId {
        self.derive(name, Op::Scale { factor }, &[x], &[])
    }

    /// `x · sigmoid(x)`.
    pub fn silu(&mut self, name: &str, x: NodeId) -> NodeId {
        self.derive(name, Op::Silu, &[x], &[])
    }

    /// Softmax over dimension 0.
    pub fn softmax(&mut self, name: &str, x: NodeId) -> NodeId {
        self.derive(name, Op::Softmax, &[x], &[])
    }

    /// Place and value of the best element of each column.
    pub fn argmax(&mut self, name: &str, x: NodeId) -> NodeId {
        self.derive(name, Op::Argmax, &[x], &[])
    }

    /// RMS norm of each column, times `w`.
    pub fn rms_norm(&mut self, name: &str, x: NodeId, w: &WeightRef, eps: f32) -> NodeId {
        self.derive(name, Op::RmsNorm { eps }, &[x], std::slice::from_ref(w))
    }

    /// RMS norm of each head of each column, times `w: [head_dim]`.
    pub fn qk_norm(&mut self, name: &str, x: NodeId, w: &WeightRef, eps: f32, head_dim: usize) -> NodeId {
        self.derive(name, Op::QkNorm { eps, head_dim }, &[x], std::slice::from_ref(w))
    }

    /// `w · x`.
    pub fn matmul(&mut self, name: &str, x: NodeId, w: &WeightRef) -> NodeId {
        self.derive(name, Op::MatMul, &[x], std::slice::from_ref(w))
    }

    /// `aᵀ · b` for each of the outer dimensions.
    pub fn batch_matmul(&mut self, name: &str, a: NodeId, b: NodeId) -> NodeId {
        self.derive(name, Op::BatchMatMul, &[a, b], &[])
    }

    /// Rotary embedding; `factors` are the divisors of the frequencies, if the model has them.
    pub fn rope(
        &mut self,
        name: &str,
        x: NodeId,
        positions: NodeId,
        spec: RopeSpec,
        factors: Option<&WeightRef>,
    ) -> NodeId {
        self.derive(name, Op::Rope(spec), &[x, positions], factors.map_or(&[], std::slice::from_ref))
    }

    /// Stores the columns of `x` into their slots of the layer's region.
    pub fn kv_store(
        &mut self,
        name: &str,
        x: NodeId,
        slots: NodeId,
        layer: usize,
        part: KvPart,
        kv: KvType,
    ) -> NodeId {
        let wanted = Operand { shape: [0; 4], dtype: kv.dtype() };
        self.push(name, Op::KvcacheStore { layer, part }, &[x, slots], &[], wanted)
    }

    /// The layer's region, after `stored` has run; `shape` is `[kv_dim, positions]` of the whole region.
    pub fn kv_load(
        &mut self,
        name: &str,
        stored: NodeId,
        layer: usize,
        part: KvPart,
        shape: [usize; 2],
        kv: KvType,
    ) -> NodeId {
        let wanted = Operand { shape: [shape[0], shape[1], 1, 1], dtype: kv.dtype() };
        self.push(name, Op::KvcacheLoad { layer, part }, &[stored], &[], wanted)
    }

    /// Causal attention of `q` over the layer's regions; `bounds` are block table, table columns, lengths.
    pub fn attn(
        &mut self,
        name: &str,
        q: NodeId,
        kv: [NodeId; 2],
        bounds: [NodeId; 3],
        spec: AttnSpec,
    ) -> NodeId {
        self.derive(name, Op::Attn(spec), &[q, kv[0], kv[1], bounds[0], bounds[1], bounds[2]], &[])
    }

    /// `shape` elements of `x`, from element `offset` on.
    pub fn view(&mut self, name: &str, x: NodeId, offset: usize, shape: Shape) -> NodeId {
        let dtype = self.nodes[x.index()].out_dtype;
        self.push(name, Op::View { offset }, &[x], &[], Operand { shape, dtype })
    }

    /// The elements of `x` under another shape.
    pub fn reshape(&mut self, name: &str, x: NodeId, shape: Shape) -> NodeId {
        let dtype = self.nodes[x.index()].out_dtype;
        self.push(name, Op::Reshape, &[x], &[], Operand { shape, dtype })
    }

    /// `x` with its dimensions reordered.
    pub fn permute(&mut self, name: &str, x: NodeId, axes: [usize; 4]) -> NodeId {
        self.derive(name, Op::Permute { axes }, &[x], &[])
    }

    /// Query, key and value projections in one node.
    pub fn fused_qkv(&mut self, name: &str, x: NodeId, w: [&WeightRef; 3], dims: QkvDims) -> NodeId {
        self.derive(name, Op::FusedQkv(dims), &[x], &w.map(WeightRef::clone))
    }

    /// Query, key and value projections with norms of query and key heads; weights q, k, v, q norm, k norm.
    pub fn fused_qkv_norm(
        &mut self,
        name: &str,
        x: NodeId,
        w: [&WeightRef; 5],
        dims: QkvDims,
        eps: f32,
        head_dim: usize,
    ) -> NodeId {
        self.derive(name, Op::FusedQkvNorm { dims, eps, head_dim }, &[x], &w.map(WeightRef::clone))
    }

    /// Biases, rotation and store of a fused projection; gives the rotated query. `sources` are the projection, the
    /// positions and the slots.
    pub fn qkv_bias_rope_store(
        &mut self,
        name: &str,
        sources: [NodeId; 3],
        layer: usize,
        dims: QkvDims,
        biases: Option<[&WeightRef; 3]>,
        rope: (RopeSpec, Option<&WeightRef>),
    ) -> NodeId {
        let op = Op::QkvBiasRopeStore { layer, dims, bias: biases.is_some(), rope: rope.0 };
        let weights: Vec<_> = biases.into_iter().flatten().chain(rope.1).cloned().collect();
        self.derive(name, op, &sources, &weights)
    }

    /// `silu(gate x) · (up x)` in one node.
    pub fn fused_ffn(&mut self, name: &str, x: NodeId, gate: &WeightRef, up: &WeightRef) -> NodeId {
        self.derive(name, Op::FusedFfn, &[x], &[gate.clone(), up.clone()])
    }

    /// Extents of a node described so far.
    pub fn shape(&self, id: NodeId) -> Shape {
        self.nodes[id.index()].out_shape
    }

    /// The graph, or the first thing that did not fit.
    pub fn finish(self) -> Result<ComputeGraph, BuildError> {
        match self.error {
            Some(error) => Err(error),
            None => Ok(ComputeGraph {
                nodes: self.nodes,
                inputs: self.inputs,
                outputs: self.outputs,
                considered: self.considered,
                uid: NEXT_UID.fetch_add(1, Ordering::Relaxed),
            }),
        }
    }

    fn derive(&mut self, name: &str, op: Op, src: &[NodeId], weights: &[WeightRef]) -> NodeId {
        let wanted = Operand { shape: [0; 4], dtype: DType::F32 };
        self.push(name, op, src, weights, wanted)
    }

    fn push(&mut self, name: &str, op: Op, src: &[NodeId], weights: &[WeightRef], wanted: Operand) -> NodeId {
        let id = NodeId(self.nodes.len() as u32);
        let name: Arc<str> = match self.layer {
            Some(layer) => format!("{layer}.{name}").into(),
            None => name.into(),
        };
        let operands: Vec<_> = src.iter().map(|s| operand(&self.nodes[s.index()])).collect();
        let out = infer(&op, &operands, weights, wanted).unwrap_or_else(|e| {
            let source = Box::new(e);
            let error = BuildError { node: name.to_string(), op: op.kind().name(), source };
            self.error.get_or_insert(error);
            wanted
        });
        self.nodes.push(Node {
            id,
            name,
            op,
            src: src.to_vec(),
            out_shape: out.shape,
            out_dtype: out.dtype,
            layer: self.layer,
            backend: None,
            meta: NodeMeta { weights: weights.to_vec() },
        });
        id
    }
}

/// What the shape rules need to know of a node.
pub(crate) fn operand(node: &Node) -> Operand {
    Operand { shape: node.out_shape, dtype: node.out_dtype }
}
