//! From nodes to steps: operands located, weights fetched, kernels picked.
//!
//! A step's result must not share memory with its operands, except that an in-place op may take its first operand over
//! whole; KV regions share none with anything. The plan sees to that; it is checked here once, since the steps' safety
//! rests on it.

use std::sync::Arc;
use std::time::Instant;

use minfer_graph::{
    AttnSpec, FaultAt, KernelFault, KvPart, KvType, Node, NodeId, Op, PrepareJob, Prepared, RopeSpec,
    TimeSpan,
};

use super::memory::{Plain, Span};
use super::steps::{
    Argmax, Attn, BatchProduct, BiasRopeStore, Binary, Broadcast, Combine, Cx, Embed, Ffn, Input, MatMul,
    Norm, Nothing, PickRows, Qkv, QkvNorm, Rearrange, Region, Regions, Rope, Scale, Silu, Softmax, Step,
    Store,
};
use super::{Shared, kv_layout};
use crate::matmul::{Activations, PackedMatrix};
use crate::ops::{self, BatchShape};
use crate::pool::Pool;

pub(super) fn prepare(shared: &Arc<Shared>, job: &PrepareJob<'_>) -> Result<Box<dyn Prepared>, KernelFault> {
    let mut maker = Maker { shared, job, quantized: None };
    let mut steps = Vec::with_capacity(job.nodes.len());
    for &id in job.nodes {
        steps.push((id, maker.step(job.node(id))?));
    }
    Ok(Box::new(CpuPrepared {
        shared: shared.clone(),
        pool: shared.pool_for(job.gtype).clone(),
        id: shared.next_graph(),
        steps,
        records_spans: false,
        spans: Vec::new(),
    }))
}

struct CpuPrepared {
    shared: Arc<Shared>,
    /// The threads for this kind of step.
    pool: Pool,
    /// Tells it from all other graphs of the driver.
    id: u64,
    steps: Vec<(NodeId, Box<dyn Step>)>,
    records_spans: bool,
    /// Spans that nobody has taken yet.
    spans: Vec<TimeSpan>,
}

impl CpuPrepared {
    fn run(&mut self, range: std::ops::Range<usize>) -> Result<(), FaultAt> {
        let access = self.shared.lock.access();
        let mut working = self.shared.working();
        working.enter(self.id, &range);
        let pool = &self.pool;
        let mut cx = Cx { isa: self.shared.isa, pool, access: &access, working: &mut working };
        if !self.records_spans {
            for (node, step) in &self.steps[range] {
                step.run(&mut cx).map_err(|fault| FaultAt { node: *node, fault })?;
            }
            return Ok(());
        }
        // Contexts that share the pool take turns, so until this run ends every span is its own.
        let spans = &mut self.spans;
        pool.record_spans(true);
        let run = || {
            let mut start = Instant::now();
            for (node, step) in &self.steps[range] {
                pool.set_label(u64::from(node.0));
                step.run(&mut cx).map_err(|fault| FaultAt { node: *node, fault })?;
                let end = Instant::now();
                spans.push(TimeSpan { node: *node, thread: None, start, end });
                start = end;
            }
            Ok(())
        };
        let result = run();
        pool.record_spans(false);
        let end = Instant::now();
        pool.take_spans(&mut |s| {
            let (node, thread) = (NodeId(s.label as u32), Some(s.thread as u16));
            // A thread says that it has ended a moment after its last piece, or not yet if it lost its core; its node
            // had ended by then.
            let of_node = spans.iter().find(|s| s.node == node && s.thread.is_none()).map_or(end, |s| s.end);
            let end = if s.end > s.start { s.end.min(of_node) } else { of_node };
            spans.push(TimeSpan { node, thread, start: s.start, end });
        });
        result
    }
}

impl Prepared for CpuPrepared {
    fn execute(&mut self) -> Result<(), FaultAt> {
        self.run(0..self.steps.len())
    }

    fn execute_node(&mut self, index: usize) -> Result<(), FaultAt> {
        self.run(index..index + 1)
    }

    fn record_spans(&mut self, on: bool) {
        self.records_spans = on;
    }

    fn take_spans(&mut self, take: &mut dyn FnMut(TimeSpan)) {
        self.spans.drain(..).for_each(take);
    }
}

struct Maker<'a> {
    shared: &'a Shared,
    job: &'a PrepareJob<'a>,
    /// The value whose quantized form the workspace holds at this point of the run.
    quantized: Option<NodeId>,
}

impl Maker<'_> {
    fn step(&mut self, node: &Node) -> Result<Box<dyn Step>, KernelFault> {
        if node.op.is_view() || matches!(node.op, Op::KvcacheLoad { .. }) {
            return Ok(Box::new(Nothing));
        }
        self.check_overlap(node)?;
        Ok(match &node.op {
            Op::Input | Op::View { .. } | Op::Reshape | Op::KvcacheLoad { .. } => Box::new(Nothing),
            Op::GetRows => self.get_rows(node)?,
            Op::Add => self.combine(node, ops::add)?,
            Op::Mul => self.combine(node, ops::mul)?,
            Op::SwiGlu => self.combine(node, ops::swiglu)?,
            Op::Scale { factor } => {
                Box::new(Scale { factor: *factor, x: self.src(node, 0)?, out: self.out(node)? })
            }
            Op::Silu => Box::new(Silu { x: self.unless_in_place(node)?, out: self.out(node)? }),
            Op::Softmax => {
                Box::new(Softmax { x: self.src(node, 0)?, d: node.out_shape[0], out: self.out(node)? })
            }
            Op::Argmax => {
                let d = self.source(node, 0)?.out_shape[0];
                Box::new(Argmax { x: self.src(node, 0)?, d, out: self.out(node)? })
            }
            Op::RmsNorm { eps } | Op::QkNorm { eps, .. } => Box::new(Norm {
                x: self.src(node, 0)?,
                w: self.vector(node, 0)?,
                eps: *eps,
                out: self.out(node)?,
            }),
            Op::MatMul => {
                let w = self.matrix(node, 0)?;
                Box::new(MatMul { input: self.input(node, &[&w])?, w, out: self.out(node)? })
            }
            Op::BatchMatMul => self.batch_matmul(node)?,
            Op::Rope(spec) => self.rope(node, spec)?,
            Op::Attn(spec) => self.attn(node, spec)?,
            Op::KvcacheStore { layer, part } => self.store(node, *layer, *part)?,
            Op::Permute { axes } => self.permute(node, *axes)?,
            Op::FusedQkv(_) => Box::new(self.qkv(node)?),
            Op::FusedQkvNorm { dims, eps, .. } => Box::new(QkvNorm {
                qkv: self.qkv(node)?,
                dims: *dims,
                norms: [self.vector(node, 3)?, self.vector(node, 4)?],
                eps: *eps,
            }),
            Op::QkvBiasRopeStore { .. } => self.bias_rope_store(node)?,
            Op::FusedFfn => {
                let (gate, up) = (self.matrix(node, 0)?, self.matrix(node, 1)?);
                Box::new(Ffn { input: self.input(node, &[&gate, &up])?, gate, up, out: self.out(node)? })
            }
        })
    }

    fn value<T: Plain>(&self, node: &Node) -> Result<Span<T>, KernelFault> {
        let (buffer, start) = self.job.memory.value(node.id)?;
        Span::new(buffer, start, node.n_elems())
    }

    fn src<T: Plain>(&self, node: &Node, i: usize) -> Result<Span<T>, KernelFault> {
        self.value(self.source(node, i)?)
    }

    fn source<'n>(&'n self, node: &Node, i: usize) -> Result<&'n Node, KernelFault> {
        let missing = || KernelFault::Bug(format!("node '{}' has no source {i}", node.name));
        node.src.get(i).map(|s| self.job.node(*s)).ok_or_else(missing)
    }

    fn out(&self, node: &Node) -> Result<Span<f32>, KernelFault> {
        self.value(node)
    }

    /// The first operand, or `None` when the result takes its place.
    fn unless_in_place(&self, node: &Node) -> Result<Option<Span<f32>>, KernelFault> {
        let x: Span<f32> = self.src(node, 0)?;
        Ok((!x.is_same(&self.out(node)?)).then_some(x))
    }

    fn check_overlap(&self, node: &Node) -> Result<(), KernelFault> {
        // Every value outside the KV cache has elements of 4 bytes, so these spans cover the integers too.
        let value = |node: &Node| (!node.op.is_kv_handle()).then(|| self.value::<f32>(node)).transpose();
        let out = value(node)?;
        let mut operands = Vec::with_capacity(node.src.len());
        for (i, src) in node.src.iter().enumerate() {
            let Some(x) = value(self.job.node(*src))? else { continue };
            if out.as_ref().is_some_and(|out| out.meets(&x) && !takes_over(node, i, out, &x)) {
                let what = format!("node '{}' would overwrite its operand {i}", node.name);
                return Err(KernelFault::Bug(what));
            }
            operands.push(x);
        }
        let Some(layer) = node.op.kv_layer() else { return Ok(()) };
        let Regions { k, v, .. } = self.regions(layer)?;
        if k.meets_region(&v) || operands.iter().chain(&out).any(|x| k.meets(x) || v.meets(x)) {
            return Err(KernelFault::Bug(format!("a KV region of node '{}' is in use twice", node.name)));
        }
        Ok(())
    }

    fn weight_name<'n>(&self, node: &'n Node, i: usize) -> Result<&'n str, KernelFault> {
        let missing = || KernelFault::Bug(format!("node '{}' has no weight {i}", node.name));
        node.meta.weights.get(i).map(|w| &*w.name).ok_or_else(missing)
    }

    fn matrix(&self, node: &Node, i: usize) -> Result<Arc<PackedMatrix>, KernelFault> {
        let name = self.weight_name(node, i)?;
        let matrix = self.shared.weights.matrix(name, self.job.weights, self.shared.packing())?;
        let [k, rows, ..] = node.meta.weights[i].shape;
        self.check_size(name, (k, rows), (matrix.k(), matrix.rows()))?;
        Ok(matrix)
    }

    fn vector(&self, node: &Node, i: usize) -> Result<Arc<Vec<f32>>, KernelFault> {
        let name = self.weight_name(node, i)?;
        let vector = self.shared.weights.vector(name, self.job.weights)?;
        self.check_size(name, (node.meta.weights[i].shape[0], 1), (vector.len(), 1))?;
        Ok(vector)
    }

    fn check_size(
        &self,
        name: &str,
        expected: (usize, usize),
        found: (usize, usize),
    ) -> Result<(), KernelFault> {
        if expected == found {
            return Ok(());
        }
        let reason = format!("is {found:?}, the graph was built for {expected:?}");
        Err(KernelFault::Weight { name: name.into(), reason })
    }

    /// The activations of a product; knows whether they are quantized already when the step runs.
    fn input(&mut self, node: &Node, matrices: &[&Arc<PackedMatrix>]) -> Result<Input, KernelFault> {
        let source = self.source(node, 0)?;
        let (id, k) = (source.id, source.out_shape[0]);
        let input = Input {
            x: self.value(source)?,
            n_tokens: source.n_elems() / k.max(1),
            k,
            is_quantized: self.quantized == Some(id),
        };
        if matrices.iter().any(|m| Activations::quantized_for(m.dtype())) {
            self.quantized = Some(id);
        }
        Ok(input)
    }

    fn combine(&self, node: &Node, f: Combine) -> Result<Box<dyn Step>, KernelFault> {
        let out = self.out(node)?;
        if node.src.len() == 1 {
            return Ok(Box::new(Broadcast { f, x: self.src(node, 0)?, w: self.vector(node, 0)?, out }));
        }
        Ok(Box::new(Binary { f, a: self.src(node, 0)?, b: self.src(node, 1)?, out }))
    }

    fn get_rows(&self, node: &Node) -> Result<Box<dyn Step>, KernelFault> {
        let out = self.out(node)?;
        if node.src.len() == 1 {
            return Ok(Box::new(Embed { table: self.matrix(node, 0)?, ids: self.src(node, 0)?, out }));
        }
        let d = node.out_shape[0];
        Ok(Box::new(PickRows { x: self.src(node, 0)?, d, ids: self.src(node, 1)?, out }))
    }

    fn batch_matmul(&self, node: &Node) -> Result<Box<dyn Step>, KernelFault> {
        let [k, m, p, q] = self.source(node, 0)?.out_shape;
        let n = self.source(node, 1)?.out_shape[1];
        let shape = BatchShape { k, m, n, a_batch: [p, q], b_batch: [p, q] };
        Ok(Box::new(BatchProduct {
            shape,
            a: self.src(node, 0)?,
            b: self.src(node, 1)?,
            out: self.out(node)?,
        }))
    }

    fn permute(&self, node: &Node, axes: [usize; 4]) -> Result<Box<dyn Step>, KernelFault> {
        let mut to = [0; 4];
        for (i, axis) in axes.into_iter().enumerate() {
            to[axis] = i;
        }
        let shape = self.source(node, 0)?.out_shape;
        let row_len = node.out_shape[0];
        Ok(Box::new(Rearrange { x: self.src(node, 0)?, shape, to, row_len, out: self.out(node)? }))
    }

    fn rope_table(&self, node: &Node, spec: &RopeSpec) -> Result<usize, KernelFault> {
        let last = node.meta.weights.len().wrapping_sub(1);
        let factors = spec.freq_factors.then(|| self.vector(node, last)).transpose()?;
        self.shared.working().rope_index(spec, factors)
    }

    fn rope(&self, node: &Node, spec: &RopeSpec) -> Result<Box<dyn Step>, KernelFault> {
        Ok(Box::new(Rope {
            table: self.rope_table(node, spec)?,
            head_dim: spec.head_dim,
            d: node.out_shape[0],
            x: self.unless_in_place(node)?,
            positions: self.src(node, 1)?,
            out: self.out(node)?,
        }))
    }

    fn attn(&self, node: &Node, spec: &AttnSpec) -> Result<Box<dyn Step>, KernelFault> {
        Ok(Box::new(Attn {
            n_heads: spec.n_heads,
            scale: spec.scale,
            q: self.src(node, 0)?,
            regions: self.regions(spec.layer)?,
            blocks_per_seq: self.source(node, 3)?.out_shape[0],
            block_table: self.src(node, 3)?,
            seq_rows: self.src(node, 4)?,
            kv_lens: self.src(node, 5)?,
            out: self.out(node)?,
        }))
    }

    fn store(&self, node: &Node, layer: usize, part: KvPart) -> Result<Box<dyn Step>, KernelFault> {
        let Regions { layout, k, v } = self.regions(layer)?;
        let region = if part == KvPart::K { k } else { v };
        Ok(Box::new(Store { layout, part, x: self.src(node, 0)?, slots: self.src(node, 1)?, region }))
    }

    fn regions(&self, layer: usize) -> Result<Regions, KernelFault> {
        let missing = || KernelFault::Bug(format!("layer {layer} has no KV geometry"));
        let spec = self.job.kv.get(layer).ok_or_else(missing)?;
        let region = |part| -> Result<Region, KernelFault> {
            let buffer = self.job.memory.kv(layer, part)?;
            Ok(match spec.kv_type {
                KvType::F16 => Region::F16(Span::whole(buffer)?),
                KvType::F32 => Region::F32(Span::whole(buffer)?),
                KvType::Q8_0 => Region::Q8_0(Span::whole(buffer)?),
            })
        };
        Ok(Regions { layout: kv_layout(spec), k: region(KvPart::K)?, v: region(KvPart::V)? })
    }

    fn qkv(&mut self, node: &Node) -> Result<Qkv, KernelFault> {
        let w = [self.matrix(node, 0)?, self.matrix(node, 1)?, self.matrix(node, 2)?];
        let input = self.input(node, &[&w[0], &w[1], &w[2]])?;
        Ok(Qkv { w, input, out: self.out(node)? })
    }

    fn bias_rope_store(&self, node: &Node) -> Result<Box<dyn Step>, KernelFault> {
        let Op::QkvBiasRopeStore { layer, dims, bias, rope } = &node.op else {
            return Err(KernelFault::Bug(format!("node '{}' stores nothing", node.name)));
        };
        let biases = match bias {
            true => Some([self.vector(node, 0)?, self.vector(node, 1)?, self.vector(node, 2)?]),
            false => None,
        };
        Ok(Box::new(BiasRopeStore {
            qkv: self.src(node, 0)?,
            positions: self.src(node, 1)?,
            slots: self.src(node, 2)?,
            dims: *dims,
            biases,
            table: self.rope_table(node, rope)?,
            head_dim: rope.head_dim,
            regions: self.regions(*layer)?,
            out: self.out(node)?,
        }))
    }
}

/// Whether an in-place op takes the memory of its first operand over whole.
fn takes_over(node: &Node, i: usize, out: &Span<f32>, x: &Span<f32>) -> bool {
    i == 0 && node.op.may_run_in_place() && out.is_same(x) && out.len() == x.len()
}
