//! A backend with a kernel that has been changed on purpose: what finds differences must find this one.

use std::sync::Arc;

use minfer_gguf::TensorType;

use crate::backend::Backend;
use crate::driver::{
    AttnSpan, BackendDriver, Buffer, FaultAt, KernelFault, KvSpec, PrepareJob, Prepared, Support,
    WeightSource, WeightUse,
};
use crate::op::{KvPart, Op, OpKind};

/// Passes everything on, and flips one bit of one element of one node's value after each run.
pub struct TamperedDriver {
    inner: Arc<dyn BackendDriver>,
    node: String,
    index: usize,
    bit: usize,
}

impl TamperedDriver {
    /// Flips bit `bit` of element `index` of the value of the node called `node`.
    pub fn new(inner: Arc<dyn BackendDriver>, node: &str, index: usize, bit: usize) -> Self {
        TamperedDriver { inner, node: node.into(), index, bit }
    }
}

struct TamperedPrepared {
    inner: Box<dyn Prepared>,
    n_nodes: usize,
    /// Place in the list, and where the element lies.
    target: Option<(usize, Arc<dyn Buffer>, usize)>,
    nodes: Vec<crate::graph::NodeId>,
    mask: u8,
}

impl Prepared for TamperedPrepared {
    fn execute(&mut self) -> Result<(), FaultAt> {
        (0..self.n_nodes).try_for_each(|i| self.execute_node(i))
    }

    fn execute_node(&mut self, index: usize) -> Result<(), FaultAt> {
        self.inner.execute_node(index)?;
        let Some((at, buffer, offset)) = &self.target else { return Ok(()) };
        if *at != index {
            return Ok(());
        }
        let mut byte = [0];
        let flipped =
            buffer.read(*offset, &mut byte).and_then(|()| buffer.write(*offset, &[byte[0] ^ self.mask]));
        flipped.map_err(|fault| FaultAt { node: self.nodes[index], fault })
    }
}

impl BackendDriver for TamperedDriver {
    fn backend(&self) -> Backend {
        self.inner.backend()
    }

    fn describe(&self) -> String {
        format!("{}, changed at {}", self.inner.describe(), self.node)
    }

    fn supports_op(&self, op: &Op, dtype: TensorType) -> Support {
        self.inner.supports_op(op, dtype)
    }

    fn supports_fused(&self, fused: OpKind) -> Support {
        self.inner.supports_fused(fused)
    }

    fn supports_attn_span(&self, span: &AttnSpan) -> Support {
        self.inner.supports_attn_span(span)
    }

    fn allocate(&self, bytes: usize) -> Result<Arc<dyn Buffer>, KernelFault> {
        self.inner.allocate(bytes)
    }

    fn kv_block_bytes(&self, spec: &KvSpec, part: KvPart) -> usize {
        self.inner.kv_block_bytes(spec, part)
    }

    fn allocate_kv(&self, spec: &KvSpec, part: KvPart) -> Result<Arc<dyn Buffer>, KernelFault> {
        self.inner.allocate_kv(spec, part)
    }

    fn kv_values(&self, spec: &KvSpec, part: KvPart, block: &[u8]) -> Option<Vec<f32>> {
        self.inner.kv_values(spec, part, block)
    }

    fn load_weight(&self, usage: WeightUse<'_>, weights: &dyn WeightSource) -> Result<(), KernelFault> {
        self.inner.load_weight(usage, weights)
    }

    fn prepare(&self, job: &PrepareJob<'_>) -> Result<Box<dyn Prepared>, KernelFault> {
        let inner = self.inner.prepare(job)?;
        let at = job.nodes.iter().position(|id| *job.node(*id).name == *self.node);
        let located = |at: usize| {
            let (buffer, offset) = job.memory.value(job.nodes[at])?;
            Ok((at, buffer, offset + self.index * 4 + self.bit / 8))
        };
        let target = at.map(located).transpose()?;
        Ok(Box::new(TamperedPrepared {
            inner,
            n_nodes: job.nodes.len(),
            target,
            nodes: job.nodes.to_vec(),
            mask: 1 << (self.bit % 8),
        }))
    }
}
