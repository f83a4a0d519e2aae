//! Rows by index, reordering, and the product of two activations.

use std::sync::Arc;

use minfer_graph::KernelFault;

use super::elementwise::all;
use super::{Cx, Step, refused};
use crate::KernelError;
use crate::backend::memory::Span;
use crate::matmul::PackedMatrix;
use crate::ops::{self, BatchShape};
use crate::pool::Cost;

const UNPACK_PS: u64 = 1500;
const COPY_PS: u64 = 300;
const MAC_PS: u64 = 100;

/// Rows of a weight matrix.
pub(in crate::backend) struct Embed {
    pub(in crate::backend) table: Arc<PackedMatrix>,
    pub(in crate::backend) ids: Span<i32>,
    pub(in crate::backend) out: Span<f32>,
}

impl Step for Embed {
    fn run(&self, cx: &mut Cx<'_>) -> Result<(), KernelFault> {
        let ids = self.ids.get(cx.access);
        for (at, &id) in ids.iter().enumerate() {
            KernelError::check_index("token", id, at, self.table.rows()).map_err(refused)?;
        }
        let out = self.out.get_mut(cx.access);
        let d = self.table.k();
        let cost = Cost::of(out.len(), UNPACK_PS);
        cx.pool.run_rows(out, d, cost, |rows, part| {
            for (&id, out) in ids[rows].iter().zip(part.chunks_exact_mut(d)) {
                self.table.row(id as usize, out);
            }
        });
        Ok(())
    }
}

/// Columns of an activation.
pub(in crate::backend) struct PickRows {
    pub(in crate::backend) x: Span<f32>,
    pub(in crate::backend) d: usize,
    pub(in crate::backend) ids: Span<i32>,
    pub(in crate::backend) out: Span<f32>,
}

impl Step for PickRows {
    fn run(&self, cx: &mut Cx<'_>) -> Result<(), KernelFault> {
        let (x, ids) = (self.x.get(cx.access), self.ids.get(cx.access));
        ops::get_rows(x, self.d, ids, self.out.get_mut(cx.access)).map_err(refused)
    }
}

/// An activation with its dimensions reordered.
pub(in crate::backend) struct Rearrange {
    pub(in crate::backend) x: Span<f32>,
    pub(in crate::backend) shape: [usize; 4],
    /// Where each dimension of the source goes.
    pub(in crate::backend) to: [usize; 4],
    pub(in crate::backend) row_len: usize,
    pub(in crate::backend) out: Span<f32>,
}

impl Step for Rearrange {
    fn run(&self, cx: &mut Cx<'_>) -> Result<(), KernelFault> {
        let x = self.x.get(cx.access);
        let out = self.out.get_mut(cx.access);
        let cost = Cost::of(out.len(), COPY_PS);
        all(|failed| {
            cx.pool.run_rows(out, self.row_len, cost, |rows, part| {
                failed.note(ops::permute(x, self.shape, self.to, rows, part));
            });
        })
    }
}

/// `aᵀ · b` for each of the outer dimensions.
pub(in crate::backend) struct BatchProduct {
    pub(in crate::backend) shape: BatchShape,
    pub(in crate::backend) a: Span<f32>,
    pub(in crate::backend) b: Span<f32>,
    pub(in crate::backend) out: Span<f32>,
}

impl Step for BatchProduct {
    fn run(&self, cx: &mut Cx<'_>) -> Result<(), KernelFault> {
        let (a, b) = (self.a.get(cx.access), self.b.get(cx.access));
        let out = self.out.get_mut(cx.access);
        let cost = Cost::of(out.len().saturating_mul(self.shape.k), MAC_PS);
        let isa = cx.isa;
        all(|failed| {
            cx.pool.run_rows(out, self.shape.m, cost, |rows, part| {
                failed.note(ops::batch_matmul(isa, self.shape, a, b, rows, part));
            });
        })
    }
}
