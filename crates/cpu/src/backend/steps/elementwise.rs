//! Add, Mul, SwiGLU, Scale, Silu.

use std::sync::Arc;

use minfer_graph::KernelFault;

use super::{Cx, Step, refused};
use crate::KernelError;
use crate::backend::memory::Span;
use crate::isa::Isa;
use crate::ops;
use crate::pool::Cost;

/// Work for one element of a plain op, and of one with an exponential.
const PLAIN_PS: u64 = 150;
const EXP_PS: u64 = 500;

/// Rows into which a flat run of elements is cut, so that pieces begin at whole cache lines.
const RUN: usize = 16;

/// A kernel of two operands.
pub(in crate::backend) type Combine = fn(Isa, &[f32], &[f32], &mut [f32]) -> Result<(), KernelError>;

/// `out = f(a, b)`, all of one shape.
pub(in crate::backend) struct Binary {
    pub(in crate::backend) f: Combine,
    pub(in crate::backend) a: Span<f32>,
    pub(in crate::backend) b: Span<f32>,
    pub(in crate::backend) out: Span<f32>,
}

impl Step for Binary {
    fn run(&self, cx: &mut Cx<'_>) -> Result<(), KernelFault> {
        let (a, b) = (self.a.get(cx.access), self.b.get(cx.access));
        let out = self.out.get_mut(cx.access);
        let (isa, f) = (cx.isa, self.f);
        flat(cx, out, EXP_PS, |at, out| f(isa, &a[at..][..out.len()], &b[at..][..out.len()], out))
    }
}

/// `out = f(x, w)` with the vector `w` for every column.
pub(in crate::backend) struct Broadcast {
    pub(in crate::backend) f: Combine,
    pub(in crate::backend) x: Span<f32>,
    pub(in crate::backend) w: Arc<Vec<f32>>,
    pub(in crate::backend) out: Span<f32>,
}

impl Step for Broadcast {
    fn run(&self, cx: &mut Cx<'_>) -> Result<(), KernelFault> {
        let x = self.x.get(cx.access);
        let out = self.out.get_mut(cx.access);
        let d = self.w.len();
        let (isa, f, w) = (cx.isa, self.f, &self.w);
        let cost = Cost::of(out.len(), PLAIN_PS);
        all(|failed| {
            cx.pool.run_rows(out, d, cost, |rows, part| {
                let x = &x[rows.start * d..rows.end * d];
                for (x, out) in x.chunks_exact(d).zip(part.chunks_exact_mut(d)) {
                    failed.note(f(isa, x, w, out));
                }
            });
        })
    }
}

/// `out = x · factor`.
pub(in crate::backend) struct Scale {
    pub(in crate::backend) factor: f32,
    pub(in crate::backend) x: Span<f32>,
    pub(in crate::backend) out: Span<f32>,
}

impl Step for Scale {
    fn run(&self, cx: &mut Cx<'_>) -> Result<(), KernelFault> {
        let x = self.x.get(cx.access);
        let out = self.out.get_mut(cx.access);
        let (isa, factor) = (cx.isa, self.factor);
        flat(cx, out, PLAIN_PS, |at, out| ops::scale(isa, &x[at..][..out.len()], factor, out))
    }
}

/// `out = silu(x)`; without `x`, `out` holds the operand.
pub(in crate::backend) struct Silu {
    pub(in crate::backend) x: Option<Span<f32>>,
    pub(in crate::backend) out: Span<f32>,
}

impl Step for Silu {
    fn run(&self, cx: &mut Cx<'_>) -> Result<(), KernelFault> {
        let out = self.out.get_mut(cx.access);
        let isa = cx.isa;
        match &self.x {
            None => flat(cx, out, EXP_PS, |_, out| {
                ops::silu_in_place(isa, out);
                Ok(())
            }),
            Some(x) => {
                let x = x.get(cx.access);
                flat(cx, out, EXP_PS, |at, out| ops::silu(isa, &x[at..][..out.len()], out))
            }
        }
    }
}

/// Calls `piece(start, part)` for parts of a run of elements.
fn flat(
    cx: &Cx<'_>,
    out: &mut [f32],
    ps: u64,
    piece: impl Fn(usize, &mut [f32]) -> Result<(), KernelError> + Sync,
) -> Result<(), KernelFault> {
    let cost = Cost::of(out.len(), ps);
    let whole = out.len() / RUN * RUN;
    let (body, tail) = out.split_at_mut(whole);
    all(|failed| {
        cx.pool.run_rows(body, RUN, cost, |rows, part| failed.note(piece(rows.start * RUN, part)));
        failed.note(piece(whole, tail));
    })
}

/// Collects the first error of the pieces of an op.
#[derive(Default)]
pub(super) struct Failed(std::sync::OnceLock<KernelError>);

impl Failed {
    pub(super) fn note(&self, result: Result<(), KernelError>) {
        if let Err(e) = result {
            // A later error of the same op says nothing more.
            let _ = self.0.set(e);
        }
    }
}

/// Runs pieces that note their errors; gives the first.
pub(super) fn all(run: impl FnOnce(&Failed)) -> Result<(), KernelFault> {
    let failed = Failed::default();
    run(&failed);
    failed.0.into_inner().map_or(Ok(()), |e| Err(refused(e)))
}
