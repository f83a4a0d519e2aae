//! From nodes to dispatches: operands located, weights fetched, kernels compiled, everything bound.

use std::sync::Arc;

use minfer_graph::{ComputeGraph, KernelFault, KvPart, Node, NodeId, Op, PrepareJob, Prepared, QkvDims};

use super::Shared;
use super::execute::{GpuPrepared, Step};
use super::region::{self, Region};
use super::weights::{Matrix, Vector};
use crate::device::{Device, Dispatch, GpuBuffer, Span};
use crate::kernels::elementwise::{Binary, Unary};
use crate::kernels::{self, Kernel};

mod attention;
mod products;

pub(super) fn prepare(shared: &Arc<Shared>, job: &PrepareJob<'_>) -> Result<Box<dyn Prepared>, KernelFault> {
    let scratch = match scratch_bytes(&shared.device, job.graph, job.nodes) {
        0 => None,
        bytes => Some(shared.scratch(bytes)?),
    };
    let status = shared.device.transfer()?.status(&shared.device)?;
    let mut maker = Maker { shared, job, status, place: 0, scratch, dispatches: Vec::new() };
    let mut steps = Vec::with_capacity(job.nodes.len());
    let mut exports = Vec::new();
    for (place, &id) in job.nodes.iter().enumerate() {
        let node = job.node(id);
        let first = maker.dispatches.len();
        maker.place = place;
        maker.add(node).map_err(|fault| named(node, fault))?;
        let dispatches = first..maker.dispatches.len();
        steps.push(Step { node: id, op: node.op.kind(), dispatches });
        if is_read_elsewhere(job.graph, node) {
            let span = maker.value(node)?;
            let (buffer, at) = span.place();
            exports.push((buffer.clone(), at, node.out_bytes()));
        }
    }
    shared.device.keep_pipelines();
    let Maker { dispatches, scratch, .. } = maker;
    Ok(Box::new(GpuPrepared { shared: shared.clone(), steps, dispatches, exports, _scratch: scratch }))
}

/// Whether the value leaves the device: it is an output, or a node of another backend reads it.
fn is_read_elsewhere(graph: &ComputeGraph, node: &Node) -> bool {
    let reads = |n: &Node| n.backend != node.backend && n.src.contains(&node.id);
    !node.op.is_kv_handle() && (graph.outputs.contains(&node.id) || graph.nodes.iter().any(reads))
}

/// Bytes of working memory that the largest node takes.
pub(super) fn scratch_bytes(device: &Device, graph: &ComputeGraph, nodes: &[NodeId]) -> usize {
    let bytes = nodes.iter().map(|id| products::scratch_bytes(device, graph.node(*id)));
    bytes.max().unwrap_or(0)
}

/// What the device refuses says which node it was for.
fn named(node: &Node, fault: KernelFault) -> KernelFault {
    let place = format!("node '{}' ({})", node.name, node.op.kind().name());
    match fault {
        KernelFault::OutOfMemory { bytes, reason } => {
            KernelFault::OutOfMemory { bytes, reason: format!("{reason}; asked for by {place}") }
        }
        KernelFault::Device(reason) => KernelFault::Device(format!("{reason}; at {place}")),
        other => other,
    }
}

struct Maker<'a> {
    shared: &'a Shared,
    job: &'a PrepareJob<'a>,
    status: Span,
    /// Of the node that is being added, in the list.
    place: usize,
    scratch: Option<Arc<GpuBuffer>>,
    dispatches: Vec<Dispatch>,
}

impl Maker<'_> {
    fn add(&mut self, node: &Node) -> Result<(), KernelFault> {
        match &node.op {
            Op::Input | Op::View { .. } | Op::Reshape | Op::KvcacheLoad { .. } => Ok(()),
            Op::GetRows => self.get_rows(node),
            Op::Add => self.binary(node, Binary::Add),
            Op::Mul => self.binary(node, Binary::Mul),
            Op::SwiGlu => self.binary(node, Binary::SwiGlu),
            Op::Scale { factor } => self.unary(node, Unary::Scale, *factor),
            Op::Silu => self.unary(node, Unary::Silu, 1.0),
            Op::Argmax => self.argmax(node),
            Op::RmsNorm { eps } => self.rms_norm(node, *eps, node.out_shape[0]),
            Op::QkNorm { eps, head_dim } => self.rms_norm(node, *eps, *head_dim),
            Op::MatMul => self.matmul(node),
            Op::FusedQkv(dims) => self.qkv(node, dims),
            Op::FusedQkvNorm { dims, eps, head_dim } => self.qkv_norm(node, dims, *eps, *head_dim),
            Op::FusedFfn => self.ffn(node),
            Op::Rope(spec) => self.rope(node, spec),
            Op::Attn(spec) => self.attention(node, spec),
            Op::KvcacheStore { layer, part } => self.store(node, *layer, *part),
            Op::QkvBiasRopeStore { .. } => self.bias_rope_store(node),
            Op::Softmax | Op::BatchMatMul | Op::Permute { .. } => {
                Err(KernelFault::Bug(format!("node '{}' has an op without a kernel", node.name)))
            }
        }
    }

    fn device(&self) -> &Arc<Device> {
        &self.shared.device
    }

    /// The place of the node, for kernels that report.
    fn node_word(&self) -> u32 {
        self.place as u32
    }

    fn dispatch(
        &mut self,
        kernel: &Kernel,
        operands: &[&Span],
        words: &[u32],
        groups: [u32; 3],
    ) -> Result<(), KernelFault> {
        let device = self.device();
        let pipeline = device.pipeline(kernel)?;
        let dispatch = device.dispatch(&pipeline, operands, words, groups)?;
        self.dispatches.push(dispatch);
        Ok(())
    }

    fn value(&self, node: &Node) -> Result<Span, KernelFault> {
        let (buffer, offset) = self.job.memory.value(node.id)?;
        Span::new(buffer, offset, node.out_bytes())
    }

    fn source<'n>(&'n self, node: &Node, i: usize) -> Result<&'n Node, KernelFault> {
        let missing = || KernelFault::Bug(format!("node '{}' has no source {i}", node.name));
        node.src.get(i).map(|s| self.job.node(*s)).ok_or_else(missing)
    }

    fn src(&self, node: &Node, i: usize) -> Result<Span, KernelFault> {
        self.value(self.source(node, i)?)
    }

    fn kv(&self, layer: usize, part: KvPart) -> Result<Arc<Region>, KernelFault> {
        region::of(self.job.memory.kv(layer, part)?, layer, part)
    }

    fn weight_name<'n>(&self, node: &'n Node, i: usize) -> Result<&'n str, KernelFault> {
        let missing = || KernelFault::Bug(format!("node '{}' has no weight {i}", node.name));
        node.meta.weights.get(i).map(|w| &*w.name).ok_or_else(missing)
    }

    fn matrix(&self, node: &Node, i: usize) -> Result<Arc<Matrix>, KernelFault> {
        let name = self.weight_name(node, i)?;
        let matrix = self.shared.weights.matrix(self.device(), name, self.job.weights)?;
        let [k, rows, ..] = node.meta.weights[i].shape;
        check_size(name, (k, rows), (matrix.k, matrix.n_rows))?;
        Ok(matrix)
    }

    fn vector(&self, node: &Node, i: usize) -> Result<Arc<Vector>, KernelFault> {
        let name = self.weight_name(node, i)?;
        let vector = self.shared.weights.vector(self.device(), name, self.job.weights)?;
        check_size(name, (node.meta.weights[i].shape[0], 1), (vector.values.len(), 1))?;
        Ok(vector)
    }

    fn get_rows(&mut self, node: &Node) -> Result<(), KernelFault> {
        if node.src.len() == 1 {
            return self.embed(node);
        }
        let (x, ids, out) = (self.src(node, 0)?, self.src(node, 1)?, self.value(node)?);
        let d = node.out_shape[0];
        let n = node.n_elems() / d.max(1);
        let n_columns = self.source(node, 0)?.n_elems() / d.max(1);
        let words =
            [self.node_word(), word(d)?, word(n_columns)?, word(n)?, x.start(), ids.start(), out.start()];
        let status = self.status.clone();
        let groups = kernels::threads(node.n_elems());
        self.dispatch(&kernels::rows::pick(), &[&x, &ids, &out, &status], &words, groups)
    }

    fn embed(&mut self, node: &Node) -> Result<(), KernelFault> {
        let table = self.matrix(node, 0)?;
        let (ids, out) = (self.src(node, 0)?, self.value(node)?);
        let n = node.n_elems() / table.k.max(1);
        let status = self.status.clone();
        let kernel = kernels::rows::embed(table.dtype);
        for part in &table.parts {
            let words = [
                self.node_word(),
                word(table.k)?,
                word(table.row_bytes)?,
                part.span.start_bytes(),
                word(part.rows.start)?,
                word(part.rows.len())?,
                word(table.n_rows)?,
                word(n)?,
                ids.start(),
                out.start(),
            ];
            let groups = kernels::threads(n * table.k.div_ceil(kernels::dequant::GROUP));
            self.dispatch(&kernel, &[&part.span, &ids, &out, &status], &words, groups)?;
        }
        Ok(())
    }

    fn binary(&mut self, node: &Node, op: Binary) -> Result<(), KernelFault> {
        let (a, out) = (self.src(node, 0)?, self.value(node)?);
        let (b, b_len, weight) = match node.src.len() {
            1 => (self.vector(node, 0)?.span.clone(), node.out_shape[0], true),
            _ => (self.src(node, 1)?, node.n_elems(), false),
        };
        self.combine(op, [&a, &b, &out], (node.n_elems(), b_len), weight)
    }

    /// `out = a OP b` over `n` elements, `b` having `b_len`.
    fn combine(
        &mut self,
        op: Binary,
        [a, b, out]: [&Span; 3],
        (n, b_len): (usize, usize),
        weight: bool,
    ) -> Result<(), KernelFault> {
        let words = [word(n)?, word(b_len)?, a.start(), b.start(), out.start()];
        let kernel = kernels::elementwise::binary(op, weight);
        self.dispatch(&kernel, &[a, b, out], &words, kernels::threads(n))
    }

    fn unary(&mut self, node: &Node, op: Unary, factor: f32) -> Result<(), KernelFault> {
        let (x, out) = (self.src(node, 0)?, self.value(node)?);
        let words = [word(node.n_elems())?, x.start(), out.start(), factor.to_bits()];
        let groups = kernels::threads(node.n_elems());
        self.dispatch(&kernels::elementwise::unary(op), &[&x, &out], &words, groups)
    }

    fn argmax(&mut self, node: &Node) -> Result<(), KernelFault> {
        let (x, out) = (self.src(node, 0)?, self.value(node)?);
        let (d, n) = (self.source(node, 0)?.out_shape[0], node.n_elems() / 2);
        let words = [word(d)?, word(n)?, x.start(), out.start()];
        self.dispatch(&kernels::rows::argmax(), &[&x, &out], &words, kernels::grid(n, 1))
    }

    fn rms_norm(&mut self, node: &Node, eps: f32, d: usize) -> Result<(), KernelFault> {
        let (x, out) = (self.src(node, 0)?, self.value(node)?);
        let column = node.out_shape[0];
        let n_columns = node.n_elems() / column.max(1);
        let w = self.vector(node, 0)?;
        let per_column = column / d.max(1);
        let norm = Norm { d, eps, n_columns, per_column, n_first: per_column, stride: column };
        self.norm(&norm, [&w.span, &w.span, &x, &out])
    }

    fn norm(&mut self, norm: &Norm, [w, second, x, out]: [&Span; 4]) -> Result<(), KernelFault> {
        let stride = word(norm.stride)?;
        let words = [
            word(norm.d)?,
            word(norm.per_column)?,
            word(norm.n_columns)?,
            word(norm.n_first)?,
            x.start(),
            stride,
            out.start(),
            stride,
            norm.eps.to_bits(),
        ];
        let groups = kernels::grid(norm.per_column * norm.n_columns, 1);
        self.dispatch(&kernels::rows::rms_norm(), &[w, second, x, out], &words, groups)
    }
}

/// Stretches of columns to be normed.
struct Norm {
    /// Elements of a stretch.
    d: usize,
    eps: f32,
    n_columns: usize,
    /// Stretches of a column, from its first element on.
    per_column: usize,
    /// Those of them that have the first weight; the others have the second.
    n_first: usize,
    /// Elements of a column.
    stride: usize,
}

impl Norm {
    /// The heads of the query and those of the key in the columns of a fused projection.
    fn of_heads(dims: &QkvDims, n_columns: usize, eps: f32, d: usize) -> Norm {
        let heads = |rows: usize| rows / d.max(1);
        let (n_first, per_column) = (heads(dims.q), heads(dims.q + dims.kv));
        Norm { d, eps, n_columns, per_column, n_first, stride: dims.total() }
    }
}

fn check_size(name: &str, expected: (usize, usize), found: (usize, usize)) -> Result<(), KernelFault> {
    if expected == found {
        return Ok(());
    }
    let reason = format!("is {found:?}, the graph was built for {expected:?}");
    Err(KernelFault::Weight { name: name.into(), reason })
}

/// A size as a kernel takes it.
fn word(size: usize) -> Result<u32, KernelFault> {
    u32::try_from(size).map_err(|_| KernelFault::Bug(format!("a size of {size} is more than a kernel takes")))
}
