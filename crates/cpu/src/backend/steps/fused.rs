//! The decode fusions: each runs the kernels of its parts on the same values, so its bits are those of the parts.

use std::sync::Arc;

use minfer_graph::{KernelFault, KvPart, QkvDims};

use super::attention::{Regions, store};
use super::matmul::{Input, gated_product, products};
use super::{Cx, Step, at_least, refused};
use crate::backend::memory::Span;
use crate::matmul::PackedMatrix;
use crate::ops;

/// Query, key and value projections side by side.
pub(in crate::backend) struct Qkv {
    pub(in crate::backend) w: [Arc<PackedMatrix>; 3],
    pub(in crate::backend) input: Input,
    pub(in crate::backend) out: Span<f32>,
}

impl Qkv {
    fn matrices(&self) -> [&PackedMatrix; 3] {
        self.w.each_ref().map(|w| &**w)
    }
}

impl Step for Qkv {
    fn run(&self, cx: &mut Cx<'_>) -> Result<(), KernelFault> {
        self.input.ready(cx, self.matrices())?;
        let x = self.input.x.get(cx.access);
        let out = self.out.get_mut(cx.access);
        let operand = (&self.input, x, &cx.working.activations);
        products(cx.pool, cx.isa, operand, self.matrices(), out)
    }
}

/// [`Qkv`] with norms of query and key heads.
pub(in crate::backend) struct QkvNorm {
    pub(in crate::backend) qkv: Qkv,
    pub(in crate::backend) dims: QkvDims,
    /// Of query and key heads.
    pub(in crate::backend) norms: [Arc<Vec<f32>>; 2],
    pub(in crate::backend) eps: f32,
}

impl Step for QkvNorm {
    fn run(&self, cx: &mut Cx<'_>) -> Result<(), KernelFault> {
        let (input, dims) = (&self.qkv.input, self.dims);
        input.ready(cx, self.qkv.matrices())?;
        let x = input.x.get(cx.access);
        let out = self.qkv.out.get_mut(cx.access);
        let raw = at_least(&mut cx.working.temp, out.len());
        let operand = (input, x, &cx.working.activations);
        products(cx.pool, cx.isa, operand, self.qkv.matrices(), raw)?;
        for (raw, out) in raw.chunks_exact(dims.total()).zip(out.chunks_exact_mut(dims.total())) {
            let (q_end, k_end) = (dims.q, dims.q + dims.kv);
            let mut norm = |at: std::ops::Range<usize>, w: &[f32]| {
                ops::rms_norm(cx.isa, &raw[at.clone()], w, self.eps, &mut out[at]).map_err(refused)
            };
            norm(0..q_end, &self.norms[0])?;
            norm(q_end..k_end, &self.norms[1])?;
            out[k_end..].copy_from_slice(&raw[k_end..]);
        }
        Ok(())
    }
}

/// Biases, rotation and stores after a fused projection; the result is the rotated query.
pub(in crate::backend) struct BiasRopeStore {
    pub(in crate::backend) qkv: Span<f32>,
    pub(in crate::backend) positions: Span<i32>,
    pub(in crate::backend) slots: Span<i32>,
    pub(in crate::backend) dims: QkvDims,
    pub(in crate::backend) biases: Option<[Arc<Vec<f32>>; 3]>,
    pub(in crate::backend) table: usize,
    pub(in crate::backend) head_dim: usize,
    pub(in crate::backend) regions: Regions,
    pub(in crate::backend) out: Span<f32>,
}

impl Step for BiasRopeStore {
    fn run(&self, cx: &mut Cx<'_>) -> Result<(), KernelFault> {
        let qkv = self.qkv.get(cx.access);
        let out = self.out.get_mut(cx.access);
        let (positions, slots) = (self.positions.get(cx.access), self.slots.get(cx.access));
        let (q, kv) = (self.dims.q, self.dims.kv);
        let n = slots.len();
        // The buffer is taken out, since the rotation table is borrowed beside it.
        let mut temp = std::mem::take(&mut cx.working.temp);
        let (k, v) = at_least(&mut temp, 2 * n * kv).split_at_mut(n * kv);
        self.gather(cx, qkv, 0, 0, out)?;
        self.gather(cx, qkv, q, 1, k)?;
        self.gather(cx, qkv, q + kv, 2, v)?;
        let (isa, head_dim) = (cx.isa, self.head_dim);
        let table = cx.working.rope_table(self.table, positions)?;
        ops::rope_in_place(isa, table, 0..n, head_dim, out).map_err(refused)?;
        ops::rope_in_place(isa, table, 0..n, head_dim, k).map_err(refused)?;
        let layout = self.regions.layout;
        store(cx, layout, KvPart::K, k, slots, &self.regions.k)?;
        store(cx, layout, KvPart::V, v, slots, &self.regions.v)?;
        cx.working.temp = temp;
        Ok(())
    }
}

impl BiasRopeStore {
    /// One of the three parts of every column, with its bias.
    fn gather(
        &self,
        cx: &Cx<'_>,
        qkv: &[f32],
        offset: usize,
        bias: usize,
        out: &mut [f32],
    ) -> Result<(), KernelFault> {
        let rows = if bias == 0 { self.dims.q } else { self.dims.kv };
        let columns = qkv.chunks_exact(self.dims.total()).map(|c| &c[offset..offset + rows]);
        for (x, out) in columns.zip(out.chunks_exact_mut(rows)) {
            match &self.biases {
                Some(biases) => ops::add(cx.isa, x, &biases[bias], out).map_err(refused)?,
                None => out.copy_from_slice(x),
            }
        }
        Ok(())
    }
}

/// `silu(gate x) · (up x)`.
pub(in crate::backend) struct Ffn {
    pub(in crate::backend) gate: Arc<PackedMatrix>,
    pub(in crate::backend) up: Arc<PackedMatrix>,
    pub(in crate::backend) input: Input,
    pub(in crate::backend) out: Span<f32>,
}

impl Step for Ffn {
    fn run(&self, cx: &mut Cx<'_>) -> Result<(), KernelFault> {
        self.input.ready(cx, [&*self.gate, &*self.up])?;
        let x = self.input.x.get(cx.access);
        let out = self.out.get_mut(cx.access);
        let both = at_least(&mut cx.working.temp, 2 * out.len());
        let operand = (&self.input, x, &cx.working.activations);
        gated_product(cx.pool, cx.isa, operand, [&*self.gate, &*self.up], both, out)
    }
}
