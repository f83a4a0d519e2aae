//! Products of weights and activations, alone and side by side.

use std::sync::Arc;

use minfer_graph::{KernelFault, Node, Op, QkvDims};

use super::{Maker, Norm, word};
use crate::backend::weights::{Matrix, fits_one_binding};
use crate::device::{Device, Span};
use crate::kernels::elementwise::Binary;
use crate::kernels::matmul::{FEW_COLUMNS, Few, Form, Sums};
use crate::kernels::{self, Kernel};

/// Where the rows of a product go in the columns of a value.
struct Target<'a> {
    out: &'a Span,
    /// Elements of a column of the value.
    stride: usize,
    /// Where the first row goes in a column.
    at: usize,
}

/// The columns that a node multiplies.
struct Columns {
    x: Span,
    /// Elements of a column.
    k: usize,
    n: usize,
}

/// Whether gate and up of a fused node go through one kernel; otherwise they need working memory.
pub(super) fn is_gated(device: &Device, node: &Node) -> bool {
    let [gate, up] = &node.meta.weights[..] else { return false };
    let n_columns = node.n_elems() / node.out_shape[0].max(1);
    n_columns <= FEW_COLUMNS
        && gate.dtype == up.dtype
        && gate.shape == up.shape
        && fits_one_binding(device, gate.dtype, gate.shape)
}

/// Bytes of working memory that a node takes.
pub(super) fn scratch_bytes(device: &Device, node: &Node) -> usize {
    if node.op == Op::FusedFfn && !is_gated(device, node) { node.out_bytes() } else { 0 }
}

impl Maker<'_> {
    pub(super) fn matmul(&mut self, node: &Node) -> Result<(), KernelFault> {
        let (x, out) = (self.columns(node)?, self.value(node)?);
        let w = self.matrix(node, 0)?;
        self.product(&w, &x, &Target { out: &out, stride: w.n_rows, at: 0 })
    }

    /// Three products whose rows follow one another: those of one type that lie in one piece go through one kernel.
    pub(super) fn qkv(&mut self, node: &Node, dims: &QkvDims) -> Result<(), KernelFault> {
        let (x, out) = (self.columns(node)?, self.value(node)?);
        let all = (0..3).map(|i| self.matrix(node, i)).collect::<Result<Vec<_>, _>>()?;
        let mut at = 0;
        for group in all.chunk_by(|a, b| a.dtype == b.dtype) {
            let target = Target { out: &out, stride: dims.total(), at };
            at += group.iter().map(|w| w.n_rows).sum::<usize>();
            self.side_by_side(group, &x, target)?;
        }
        Ok(())
    }

    fn side_by_side(
        &mut self,
        group: &[Arc<Matrix>],
        x: &Columns,
        mut target: Target<'_>,
    ) -> Result<(), KernelFault> {
        let few = Few::of(x.k, x.n, self.sums());
        let whole: Option<Vec<_>> = group.iter().map(|w| w.only_part()).collect();
        if let (Some(form), Some(parts), true) = (few, whole, group.len() > 1) {
            return self.stacked(group, &parts, (form, x), &target);
        }
        for w in group {
            self.product(w, x, &target)?;
            target.at += w.n_rows;
        }
        Ok(())
    }

    fn stacked(
        &mut self,
        group: &[Arc<Matrix>],
        parts: &[&Span],
        (form, x): (Few, &Columns),
        target: &Target<'_>,
    ) -> Result<(), KernelFault> {
        let rows_of = |n: usize| group.iter().take(n).map(|w| w.n_rows).sum::<usize>();
        let rows = rows_of(group.len());
        // Of two matrices, the third has no rows.
        let part = |i: usize| parts.get(i).copied().unwrap_or(parts[0]);
        let (w, w1, w2) = (part(0), part(1), part(2));
        let product =
            Product { rows, row_bytes: group[0].row_bytes, w: [w, w1, w2], begin: [rows_of(1), rows_of(2)] };
        let words = product.words(x, target)?;
        let kernel = kernels::matmul::stacked(group[0].dtype, form);
        let work = Work { kernel, rows, extent: form.extent(), products: x.products(rows) };
        self.multiply(work, &[w, w1, w2, &x.x, target.out], &words, x.n)
    }

    pub(super) fn qkv_norm(
        &mut self,
        node: &Node,
        dims: &QkvDims,
        eps: f32,
        head_dim: usize,
    ) -> Result<(), KernelFault> {
        self.qkv(node, dims)?;
        let out = self.value(node)?;
        let n_columns = node.n_elems() / dims.total().max(1);
        let (q, k) = (self.vector(node, 3)?, self.vector(node, 4)?);
        self.norm(&Norm::of_heads(dims, n_columns, eps, head_dim), [&q.span, &k.span, &out, &out])
    }

    /// `silu(gate x) * (up x)`: in one kernel, or the gate lands in the result, the other product in working memory.
    pub(super) fn ffn(&mut self, node: &Node) -> Result<(), KernelFault> {
        let (x, out) = (self.columns(node)?, self.value(node)?);
        let (gate, up) = (self.matrix(node, 0)?, self.matrix(node, 1)?);
        if is_gated(self.device(), node)
            && let (Some(form), Some(w), Some(w1)) =
                (Few::of(x.k, x.n, self.sums()), gate.only_part(), up.only_part())
        {
            return self.gated(&gate, [w, w1, &out], form, &x);
        }
        let missing = || KernelFault::Bug("a fused node has no working memory".into());
        let scratch = Span::of(self.scratch.clone().ok_or_else(missing)?, 0, node.out_bytes())?;
        self.product(&gate, &x, &Target { out: &out, stride: gate.n_rows, at: 0 })?;
        self.product(&up, &x, &Target { out: &scratch, stride: up.n_rows, at: 0 })?;
        let n = node.n_elems();
        self.combine(Binary::SwiGlu, [&out, &scratch, &out], (n, n), false)
    }

    fn gated(
        &mut self,
        gate: &Matrix,
        [w, w1, out]: [&Span; 3],
        form: Few,
        x: &Columns,
    ) -> Result<(), KernelFault> {
        let product = Product { rows: gate.n_rows, row_bytes: gate.row_bytes, w: [w, w1, w], begin: [0; 2] };
        let words = product.words(x, &Target { out, stride: gate.n_rows, at: 0 })?;
        let kernel = kernels::matmul::gated(gate.dtype, form);
        let products = x.products(2 * gate.n_rows);
        let work = Work { kernel, rows: gate.n_rows, extent: form.extent(), products };
        self.multiply(work, &[w, w1, &x.x, out], &words, x.n)
    }

    /// The rows of `w` times the columns.
    fn product(&mut self, w: &Matrix, x: &Columns, target: &Target<'_>) -> Result<(), KernelFault> {
        let form = Form::of(w.k, x.n, self.sums());
        for part in &w.parts {
            let rows = part.rows.len();
            let product = Product { rows, row_bytes: w.row_bytes, w: [&part.span; 3], begin: [0; 2] };
            let words = product.words(x, &Target { at: target.at + part.rows.start, ..*target })?;
            let kernel = kernels::matmul::matmul(w.dtype, form);
            let work = Work { kernel, rows, extent: form.extent(), products: x.products(rows) };
            self.multiply(work, &[&part.span, &x.x, target.out], &words, x.n)?;
        }
        Ok(())
    }

    fn multiply(
        &mut self,
        work: Work,
        operands: &[&Span],
        words: &[u32],
        n_columns: usize,
    ) -> Result<(), KernelFault> {
        let (rows, columns) = work.extent;
        let groups = kernels::grid(work.rows.div_ceil(rows as usize), word(n_columns)?.div_ceil(columns));
        self.dispatch(&work.kernel, operands, words, groups)?;
        if let Some(last) = self.dispatches.pop() {
            self.dispatches.push(last.with_work(work.products));
        }
        Ok(())
    }

    /// What a node multiplies its weights with.
    fn columns(&self, node: &Node) -> Result<Columns, KernelFault> {
        let source = self.source(node, 0)?;
        let k = source.out_shape[0];
        Ok(Columns { x: self.value(source)?, k, n: source.n_elems() / k.max(1) })
    }

    fn sums(&self) -> Sums {
        if self.device().shares_sums() { Sums::Shared } else { Sums::Alone }
    }
}

/// What the kernels for products are told of their matrices.
struct Product<'a> {
    /// Of the result.
    rows: usize,
    row_bytes: usize,
    /// Those that a kernel does not have may be any.
    w: [&'a Span; 3],
    /// Row of the result that the second, and the third begins with.
    begin: [usize; 2],
}

impl Product<'_> {
    /// The parameters, in the order of `params.wgsl`.
    fn words(&self, x: &Columns, target: &Target<'_>) -> Result<[u32; 13], KernelFault> {
        let [w, w1, w2] = self.w.map(Span::start_bytes);
        Ok([
            word(x.k)?,
            word(self.row_bytes)?,
            word(self.rows)?,
            word(x.n)?,
            x.x.start(),
            word(x.k)?,
            target.out.start() + word(target.at)?,
            word(target.stride)?,
            w,
            w1,
            w2,
            word(self.begin[0])?,
            word(self.begin[1])?,
        ])
    }
}

/// A kernel over rows, in workgroups of so many rows and columns.
struct Work {
    kernel: Kernel,
    rows: usize,
    extent: (u32, u32),
    products: u64,
}

impl Columns {
    /// Products that `rows` rows take.
    fn products(&self, rows: usize) -> u64 {
        (self.k as u64).saturating_mul(rows as u64).saturating_mul(self.n as u64)
    }
}
