//! Prepared nodes: operands resolved, weights in hand. A step checks nothing that was checked when it was prepared; what
//! only the values can show (an id outside the table, a slot outside the region) is an error of the step.

mod attention;
mod elementwise;
mod fused;
mod matmul;
mod norm;
mod rope;
mod rows;

pub(super) use attention::{Attn, Region, Regions, Store};
pub(super) use elementwise::{Binary, Broadcast, Combine, Scale, Silu};
pub(super) use fused::{BiasRopeStore, Ffn, Qkv, QkvNorm};
pub(super) use matmul::{Input, MatMul};
pub(super) use norm::{Argmax, Norm, Softmax};
pub(super) use rope::{Rope, RopeSlot};
pub(super) use rows::{BatchProduct, Embed, PickRows, Rearrange};

use std::ops::Range;

use minfer_graph::KernelFault;

use super::memory::Access;
use crate::KernelError;
use crate::isa::Isa;
use crate::matmul::{MatMulError, QuantizedActivations};
use crate::ops::AttentionScratch;
use crate::pool::Pool;

/// What a step works with.
pub(super) struct Cx<'a> {
    pub(super) isa: Isa,
    pub(super) pool: &'a Pool,
    pub(super) access: &'a Access<'a>,
    pub(super) working: &'a mut Working,
}

/// Memory that steps reuse; it grows on first use.
#[derive(Default)]
pub(super) struct Working {
    /// The activations quantized last.
    activations: QuantizedActivations,
    /// Whether the steps since then were all of one graph, in its order, so that a step may rely on what one before it
    /// quantized.
    is_current: bool,
    /// The graph that ran last, and its step that would be next.
    last: Option<(u64, usize)>,
    attention: AttentionScratch,
    /// Intermediate values of fused ops.
    temp: Vec<f32>,
    /// Rotation tables; steps know theirs by index.
    ropes: Vec<RopeSlot>,
}

impl Working {
    /// Steps `range` of `graph` are about to run. Unless they go on where the same graph stopped, another graph may have
    /// used the workspace since, and what it holds counts for nothing.
    pub(in crate::backend) fn enter(&mut self, graph: u64, range: &Range<usize>) {
        self.is_current &= range.start > 0 && self.last == Some((graph, range.start));
        self.last = Some((graph, range.end));
    }
}

/// One prepared node.
pub(super) trait Step: Send {
    /// Computes its value.
    fn run(&self, cx: &mut Cx<'_>) -> Result<(), KernelFault>;
}

/// A view or a KV handle: there is nothing to compute.
pub(super) struct Nothing;

impl Step for Nothing {
    fn run(&self, _cx: &mut Cx<'_>) -> Result<(), KernelFault> {
        Ok(())
    }
}

/// An index outside comes from the inputs; anything else was wrong before the step began.
fn refused(e: KernelError) -> KernelFault {
    match e {
        KernelError::Index { .. } => KernelFault::BadInput(e.to_string()),
        e => KernelFault::Bug(e.to_string()),
    }
}

fn product_refused(e: MatMulError) -> KernelFault {
    KernelFault::Bug(e.to_string())
}

/// The first `len` elements of a buffer that grows.
fn at_least(buffer: &mut Vec<f32>, len: usize) -> &mut [f32] {
    if buffer.len() < len {
        buffer.resize(len, 0.0);
    }
    &mut buffer[..len]
}
