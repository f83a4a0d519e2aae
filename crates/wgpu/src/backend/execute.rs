//! A prepared run of nodes: dispatches in order, and what comes back with them.

use std::ops::Range;
use std::sync::Arc;

use minfer_graph::{FaultAt, KernelFault, NodeId, OpKind, Prepared};

use super::Shared;
use crate::device::{Dispatch, GpuBuffer, Report};

/// A node with its dispatches; views and cache handles have none.
pub(super) struct Step {
    pub(super) node: NodeId,
    pub(super) op: OpKind,
    pub(super) dispatches: Range<usize>,
}

/// Nodes that are ready to run.
pub(super) struct GpuPrepared {
    pub(super) shared: Arc<Shared>,
    pub(super) steps: Vec<Step>,
    pub(super) dispatches: Vec<Dispatch>,
    /// Values that others read after a run: buffer, byte, bytes.
    pub(super) exports: Vec<(wgpu::Buffer, usize, usize)>,
    /// Working memory of the dispatches.
    pub(super) _scratch: Option<Arc<GpuBuffer>>,
}

impl GpuPrepared {
    fn run(
        &self,
        steps: Range<usize>,
        exports: &[(wgpu::Buffer, usize, usize)],
    ) -> Result<Option<Report>, KernelFault> {
        let steps = &self.steps[steps];
        let range = match (steps.first(), steps.last()) {
            (Some(first), Some(last)) => first.dispatches.start..last.dispatches.end,
            _ => 0..0,
        };
        if range.is_empty() {
            return Ok(None);
        }
        let device = &self.shared.device;
        device.transfer()?.run(device, self.dispatches[range].iter(), exports)
    }

    fn outcome(&self, ran: Result<Option<Report>, KernelFault>, first: usize) -> Result<(), FaultAt> {
        match ran {
            Ok(None) => Ok(()),
            Ok(Some(report)) => {
                let step = &self.steps[report.place.min(self.steps.len() - 1)];
                Err(FaultAt { node: step.node, fault: refused(step.op, report.value) })
            }
            Err(fault) => Err(FaultAt { node: self.steps[first].node, fault }),
        }
    }
}

impl Prepared for GpuPrepared {
    fn kernels(&self) -> Vec<String> {
        self.dispatches.iter().map(|dispatch| dispatch.kernel().to_owned()).collect()
    }

    fn execute(&mut self) -> Result<(), FaultAt> {
        self.outcome(self.run(0..self.steps.len(), &self.exports), 0)
    }

    fn execute_node(&mut self, index: usize) -> Result<(), FaultAt> {
        self.outcome(self.run(index..index + 1, &[]), index)
    }
}

/// What a kernel's report means.
fn refused(op: OpKind, value: i32) -> KernelFault {
    let what = match op {
        OpKind::GetRows => format!("row {value} is outside the table"),
        OpKind::Rope => format!("position {value} is negative"),
        OpKind::KvcacheStore => format!("KV slot {value} is outside the region"),
        OpKind::QkvBiasRopeStore => format!("position or KV slot {value} is outside what there is"),
        OpKind::Attn => format!("sequence, length or block {value} is outside the cache"),
        _ => format!("input {value} is outside what there is"),
    };
    KernelFault::BadInput(what)
}
