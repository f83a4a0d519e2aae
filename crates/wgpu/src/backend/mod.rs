//! The device as a backend of the graph: claims, memory, weights, and prepared dispatches over the kernels of this crate.

mod claims;
mod execute;
mod places;
mod prepare;
mod region;
mod weights;
mod windows;

pub use claims::refusals;

use std::collections::HashMap;
use std::sync::{Arc, Mutex, PoisonError};

use minfer_gguf::TensorType;
use minfer_graph::{
    AttnSpan, Backend, BackendDriver, Buffer, ComputeGraph, InPlace, KernelFault, KvPart, KvSpec, NodeId, Op,
    OpKind, PrepareJob, Prepared, Support, WeightBytes, WeightRef, WeightSource, WeightUse,
};

use self::region::Region;
use self::weights::WeightCache;
use crate::device::{Adapter, Counts, Device, DeviceKind, GpuBuffer, Span, WgpuOptions};
use crate::error::DeviceError;

/// The handle of this backend on this system.
pub const BACKEND: Backend = if cfg!(target_os = "macos") { Backend::METAL } else { Backend::VULKAN };

/// The GPU backend: one device, one set of weights, any number of prepared graphs, of any number of contexts. One graph runs
/// at a time.
pub struct WgpuDriver {
    shared: Arc<Shared>,
}

/// What prepared graphs share with the driver.
struct Shared {
    device: Arc<Device>,
    weights: WeightCache,
    /// Frequencies of rotations, by what they are.
    turns: Mutex<HashMap<Vec<u32>, Span>>,
    /// Working memory that prepared graphs share.
    scratch: Mutex<Option<Arc<GpuBuffer>>>,
}

impl Shared {
    /// The frequencies on the device.
    fn turns(&self, words: Vec<u32>) -> Result<Span, KernelFault> {
        let mut known = self.turns.lock().unwrap_or_else(PoisonError::into_inner);
        if let Some(found) = known.get(&words) {
            return Ok(found.clone());
        }
        let bytes: Vec<u8> = words.iter().flat_map(|w| w.to_le_bytes()).collect();
        let span = weights::constant(&self.device, &bytes)?;
        known.insert(words, span.clone());
        Ok(span)
    }

    /// Working memory of at least `bytes` bytes. Graphs that have a smaller piece keep it.
    fn scratch(&self, bytes: usize) -> Result<Arc<GpuBuffer>, KernelFault> {
        let mut scratch = self.scratch.lock().unwrap_or_else(PoisonError::into_inner);
        match &*scratch {
            Some(buffer) if buffer.bytes() >= bytes => Ok(buffer.clone()),
            _ => Ok(scratch.insert(Arc::new(GpuBuffer::zeroed(&self.device, bytes)?)).clone()),
        }
    }
}

impl WgpuDriver {
    /// Opens the device that `options` ask for.
    pub fn open(options: &WgpuOptions) -> Result<WgpuDriver, DeviceError> {
        let shared = Shared {
            device: Device::open(options)?,
            weights: WeightCache::default(),
            turns: Mutex::default(),
            scratch: Mutex::default(),
        };
        Ok(WgpuDriver { shared: Arc::new(shared) })
    }

    /// The adapter in use.
    pub fn adapter(&self) -> &Adapter {
        self.shared.device.adapter()
    }

    /// Gives the device back: whatever is asked of it from now on is an error.
    pub fn lose(&self) {
        self.shared.device.lose();
    }

    /// How often the device was asked for pipelines, bind groups, buffers and submissions.
    pub fn counts(&self) -> Counts {
        self.shared.device.counts()
    }
}

impl BackendDriver for WgpuDriver {
    fn backend(&self) -> Backend {
        BACKEND
    }

    fn describe(&self) -> String {
        let adapter = self.adapter();
        format!("{}, {}, {}", adapter.name, adapter.kind.name(), adapter.driver)
    }

    fn own_memory(&self) -> Option<usize> {
        let adapter = self.adapter();
        let own = matches!(adapter.kind, DeviceKind::Discrete | DeviceKind::Virtual | DeviceKind::Other);
        own.then(|| adapter.memory.map_or(usize::MAX, |bytes| bytes as usize))
    }

    fn supports_op(&self, op: &Op, dtype: TensorType) -> Support {
        claims::op(op, dtype)
    }

    fn supports_fused(&self, _fused: OpKind) -> Support {
        Support::Yes
    }

    fn supports_attn_span(&self, span: &AttnSpan) -> Support {
        claims::span(span)
    }

    fn allocate(&self, bytes: usize) -> Result<Arc<dyn Buffer>, KernelFault> {
        Ok(Arc::new(GpuBuffer::zeroed(&self.shared.device, bytes)?))
    }

    fn max_kv_blocks(&self, spec: &KvSpec, part: KvPart) -> Option<usize> {
        Some(region::max_blocks(&self.shared.device, self.kv_block_bytes(spec, part)))
    }

    fn allocate_kv(&self, spec: &KvSpec, part: KvPart) -> Result<Arc<dyn Buffer>, KernelFault> {
        let block_bytes = self.kv_block_bytes(spec, part);
        Ok(Arc::new(Region::zeroed(&self.shared.device, spec, block_bytes)?))
    }

    fn weight_bytes(
        &self,
        weights: &[(WeightUse<'_>, &WeightRef)],
        source: &dyn WeightSource,
    ) -> WeightBytes {
        self.shared.weights.planned(&self.shared.device, weights, source)
    }

    fn in_place(&self, weights: &[(WeightUse<'_>, &WeightRef)], source: &dyn WeightSource) -> InPlace {
        self.shared.weights.in_place(&self.shared.device, weights, source)
    }

    fn expect_weights(&self, weights: &[(WeightUse<'_>, &WeightRef)], source: &dyn WeightSource) {
        self.shared.weights.expect(&self.shared.device, weights, source);
    }

    fn scratch_bytes(&self, graph: &ComputeGraph, nodes: &[NodeId], _kv: &[KvSpec]) -> usize {
        prepare::scratch_bytes(&self.shared.device, graph, nodes)
    }

    fn load_weight(&self, usage: WeightUse<'_>, weights: &dyn WeightSource) -> Result<(), KernelFault> {
        self.shared.weights.load(&self.shared.device, usage, weights)
    }

    fn prepare(&self, job: &PrepareJob<'_>) -> Result<Box<dyn Prepared>, KernelFault> {
        prepare::prepare(&self.shared, job)
    }
}
