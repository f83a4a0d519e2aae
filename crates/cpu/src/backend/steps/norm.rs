//! RMS norm of columns or heads, softmax of columns.

use std::sync::Arc;

use minfer_graph::KernelFault;

use super::elementwise::all;
use super::{Cx, Step};
use crate::backend::memory::Span;
use crate::ops;
use crate::pool::Cost;

const NORM_PS: u64 = 300;
const SOFTMAX_PS: u64 = 700;

/// RMS norm of every run of `w.len()` elements.
pub(in crate::backend) struct Norm {
    pub(in crate::backend) x: Span<f32>,
    pub(in crate::backend) w: Arc<Vec<f32>>,
    pub(in crate::backend) eps: f32,
    pub(in crate::backend) out: Span<f32>,
}

impl Step for Norm {
    fn run(&self, cx: &mut Cx<'_>) -> Result<(), KernelFault> {
        let x = self.x.get(cx.access);
        let out = self.out.get_mut(cx.access);
        let (isa, d) = (cx.isa, self.w.len());
        let cost = Cost::of(out.len(), NORM_PS);
        all(|failed| {
            cx.pool.run_rows(out, d, cost, |rows, part| {
                failed.note(ops::rms_norm(isa, &x[rows.start * d..rows.end * d], &self.w, self.eps, part));
            });
        })
    }
}

/// The best of every run of `d` elements.
pub(in crate::backend) struct Argmax {
    pub(in crate::backend) x: Span<f32>,
    pub(in crate::backend) d: usize,
    pub(in crate::backend) out: Span<f32>,
}

impl Step for Argmax {
    fn run(&self, cx: &mut Cx<'_>) -> Result<(), KernelFault> {
        let x = self.x.get(cx.access);
        let out = self.out.get_mut(cx.access);
        let d = self.d;
        let cost = Cost::of(x.len(), SOFTMAX_PS);
        all(|failed| {
            cx.pool.run_rows(out, 2, cost, |rows, part| {
                failed.note(ops::argmax(&x[rows.start * d..rows.end * d], d, part));
            });
        })
    }
}

/// Softmax of every run of `d` elements.
pub(in crate::backend) struct Softmax {
    pub(in crate::backend) x: Span<f32>,
    pub(in crate::backend) d: usize,
    pub(in crate::backend) out: Span<f32>,
}

impl Step for Softmax {
    fn run(&self, cx: &mut Cx<'_>) -> Result<(), KernelFault> {
        let x = self.x.get(cx.access);
        let out = self.out.get_mut(cx.access);
        let (isa, d) = (cx.isa, self.d);
        let cost = Cost::of(out.len(), SOFTMAX_PS);
        all(|failed| {
            cx.pool.run_rows(out, d, cost, |rows, part| {
                failed.note(ops::softmax(isa, &x[rows.start * d..rows.end * d], d, part));
            });
        })
    }
}
