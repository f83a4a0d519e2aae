//! Products of weights and activations, alone and side by side.

use minfer_graph::{KernelFault, Node, QkvDims};

use super::{Maker, Norm, word};
use crate::backend::weights::Matrix;
use crate::device::Span;
use crate::kernels;
use crate::kernels::elementwise::Binary;
use crate::kernels::matmul::Form;

/// Where the rows of a product go in the columns of a value.
struct Target<'a> {
    out: &'a Span,
    /// Elements of a column of the value.
    stride: usize,
    /// Where the first row goes in a column.
    at: usize,
}

impl Maker<'_> {
    pub(super) fn matmul(&mut self, node: &Node) -> Result<(), KernelFault> {
        let out = self.value(node)?;
        let w = self.matrix(node, 0)?;
        self.product(node, &w, &Target { out: &out, stride: w.n_rows, at: 0 })
    }

    /// Three products whose rows follow one another.
    pub(super) fn qkv(&mut self, node: &Node, dims: &QkvDims) -> Result<(), KernelFault> {
        let out = self.value(node)?;
        for (i, at) in [0, dims.q, dims.q + dims.kv].into_iter().enumerate() {
            let w = self.matrix(node, i)?;
            self.product(node, &w, &Target { out: &out, stride: dims.total(), at })?;
        }
        Ok(())
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
        for (i, norm) in Norm::of_heads(dims, n_columns, eps, head_dim).iter().enumerate() {
            let w = self.vector(node, 3 + i)?;
            self.norm(norm, [&w.span, &out, &out])?;
        }
        Ok(())
    }

    /// `silu(gate x) * (up x)`: the gate lands in the result, the other product in working memory.
    pub(super) fn ffn(&mut self, node: &Node) -> Result<(), KernelFault> {
        let out = self.value(node)?;
        let missing = || KernelFault::Bug("a fused node has no working memory".into());
        let scratch = Span::of(self.scratch.clone().ok_or_else(missing)?, 0, node.out_bytes())?;
        let (gate, up) = (self.matrix(node, 0)?, self.matrix(node, 1)?);
        self.product(node, &gate, &Target { out: &out, stride: gate.n_rows, at: 0 })?;
        self.product(node, &up, &Target { out: &scratch, stride: up.n_rows, at: 0 })?;
        let n = node.n_elems();
        self.combine(Binary::SwiGlu, [&out, &scratch, &out], (n, n), false)
    }

    /// The rows of `w` times the columns of the node's first source.
    fn product(&mut self, node: &Node, w: &Matrix, target: &Target<'_>) -> Result<(), KernelFault> {
        let source = self.source(node, 0)?;
        let n_cols = source.n_elems() / source.out_shape[0].max(1);
        let x = self.value(source)?;
        let form = Form::of(w.k, n_cols);
        let kernel = kernels::matmul::matmul(w.dtype, form);
        for part in &w.parts {
            let words = [
                word(w.k)?,
                word(w.row_bytes)?,
                part.span.start_bytes(),
                word(part.rows.len())?,
                word(n_cols)?,
                x.start(),
                word(w.k)?,
                target.out.start() + word(target.at + part.rows.start)?,
                word(target.stride)?,
            ];
            let n_tiles = part.rows.len().div_ceil(form.rows() as usize);
            let groups = kernels::grid(n_tiles, word(n_cols)?.div_ceil(form.cols));
            self.dispatch(&kernel, &[&part.span, &x, target.out], &words, groups)?;
            let products = (w.k as u64).saturating_mul(part.rows.len() as u64).saturating_mul(n_cols as u64);
            if let Some(last) = self.dispatches.pop() {
                self.dispatches.push(last.with_work(products));
            }
        }
        Ok(())
    }
}
