//! A backend that claims what it is told to claim and computes nothing: for tests of decisions.

use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};

use minfer_gguf::TensorType;

use crate::backend::Backend;
use crate::driver::{
    AttnSpan, BackendDriver, Buffer, FaultAt, KernelFault, KvSpec, PrepareJob, Prepared, Support,
    WeightSource, WeightUse,
};
use crate::op::{KvPart, Op, OpKind, WeightRef};
use crate::testing::reference::HostBuffer;

/// Claims every op except those refused; every step succeeds and writes nothing.
pub struct NullDriver {
    backend: Backend,
    refused: Vec<OpKind>,
    max_kv_bytes: Option<usize>,
    refuses_weights: bool,
    steps: Arc<AtomicU64>,
    loads: Arc<AtomicU64>,
}

impl NullDriver {
    /// A null backend under the handle `backend`.
    pub fn new(backend: Backend) -> Self {
        NullDriver {
            backend,
            refused: Vec::new(),
            max_kv_bytes: None,
            refuses_weights: false,
            steps: Arc::default(),
            loads: Arc::default(),
        }
    }

    /// The same, refusing some ops.
    #[must_use]
    pub fn refusing(mut self, ops: &[OpKind]) -> Self {
        self.refused.extend_from_slice(ops);
        self
    }

    /// The same, with room for so many bytes of one layer's keys or values.
    #[must_use]
    pub fn limiting_kv(mut self, bytes: usize) -> Self {
        self.max_kv_bytes = Some(bytes);
        self
    }

    /// The same, able to load no weight.
    #[must_use]
    pub fn refusing_weights(mut self) -> Self {
        self.refuses_weights = true;
        self
    }

    /// How many loads were begun and not ended.
    pub fn n_open_loads(&self) -> Arc<AtomicU64> {
        self.loads.clone()
    }

    /// How many nodes it has been asked to run.
    pub fn n_run(&self) -> Arc<AtomicU64> {
        self.steps.clone()
    }

    fn claims(&self, kind: OpKind) -> Support {
        if self.refused.contains(&kind) { Support::No("refused by the test") } else { Support::Yes }
    }
}

struct NullPrepared {
    n_nodes: usize,
    steps: Arc<AtomicU64>,
}

impl Prepared for NullPrepared {
    fn execute(&mut self) -> Result<(), FaultAt> {
        self.steps.fetch_add(self.n_nodes as u64, Ordering::Relaxed);
        Ok(())
    }

    fn execute_node(&mut self, _index: usize) -> Result<(), FaultAt> {
        self.steps.fetch_add(1, Ordering::Relaxed);
        Ok(())
    }
}

impl BackendDriver for NullDriver {
    fn backend(&self) -> Backend {
        self.backend
    }

    fn describe(&self) -> String {
        "does nothing".into()
    }

    fn supports_op(&self, op: &Op, _dtype: TensorType) -> Support {
        self.claims(op.kind())
    }

    fn supports_fused(&self, fused: OpKind) -> Support {
        self.claims(fused)
    }

    fn supports_attn_span(&self, _span: &AttnSpan) -> Support {
        Support::Yes
    }

    fn max_kv_blocks(&self, spec: &KvSpec, part: KvPart) -> Option<usize> {
        self.max_kv_bytes.map(|bytes| bytes / self.kv_block_bytes(spec, part).max(1))
    }

    fn allocate(&self, bytes: usize) -> Result<Arc<dyn Buffer>, KernelFault> {
        Ok(HostBuffer::zeroed(bytes))
    }

    fn begin_loading(&self, _weights: &[(WeightUse<'_>, &WeightRef)], _source: &dyn WeightSource) {
        self.loads.fetch_add(1, Ordering::Relaxed);
    }

    fn end_loading(&self) {
        self.loads.fetch_sub(1, Ordering::Relaxed);
    }

    fn load_weight(&self, usage: WeightUse<'_>, _weights: &dyn WeightSource) -> Result<(), KernelFault> {
        match self.refuses_weights {
            true => {
                Err(KernelFault::Weight { name: usage.name.into(), reason: "refused by the test".into() })
            }
            false => Ok(()),
        }
    }

    fn prepare(&self, job: &PrepareJob<'_>) -> Result<Box<dyn Prepared>, KernelFault> {
        Ok(Box::new(NullPrepared { n_nodes: job.nodes.len(), steps: self.steps.clone() }))
    }
}
