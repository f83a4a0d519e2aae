//! The CPU as a backend of the graph: claims, memory, weights, and prepared steps over the kernels of this crate.

mod claims;
mod memory;
mod plan;
mod prepare;
mod steps;
mod weights;

use std::sync::atomic::{AtomicU64, Ordering};
use std::sync::{Arc, Mutex, PoisonError};

use minfer_gguf::TensorType;
use minfer_graph::{
    AttnSpan, Backend, BackendDriver, Buffer, ComputeGraph, GraphType, KernelFault, KvPart, KvSpec, KvType,
    LoadNote, NodeId, Op, OpKind, PrepareJob, Prepared, Support, WeightBytes, WeightRef, WeightSource,
    WeightUse,
};

use self::memory::{CpuBuffer, MemoryLock};
use self::steps::Working;
use self::weights::{Packing, WeightCache};
use crate::isa::{Isa, IsaError};
use crate::ops::{KvLayout, block_values};
use crate::packed_cache::PackedCacheOptions;
use crate::pool::{Pool, PoolError};
use crate::threads::default_n_threads;

/// How to set up the CPU backend.
#[derive(Clone, Debug, Default)]
pub struct CpuOptions {
    /// Threads; `None` for one a physical core that this process may use.
    pub n_threads: Option<usize>,
    /// Threads of steps that read prompts; `None` for as many as of the others.
    pub n_threads_batch: Option<usize>,
    /// Widest instructions to use: `scalar`, `avx2`, `avx512`; `None` for the machine's best.
    pub isa: Option<String>,
    /// Where packed weights are kept for the next process; `None` to keep none.
    pub packed_cache: Option<PackedCacheOptions>,
}

/// The CPU backend cannot be set up as asked.
#[derive(Debug, thiserror::Error)]
pub enum CpuError {
    /// The instruction set.
    #[error(transparent)]
    Isa(#[from] IsaError),
    /// The threads.
    #[error(transparent)]
    Pool(#[from] PoolError),
}

/// The CPU backend: one pool, one set of packed weights, any number of prepared graphs, of any number of contexts. One
/// graph runs at a time.
pub struct CpuDriver {
    shared: Arc<Shared>,
}

/// What prepared steps share with the driver.
struct Shared {
    isa: Isa,
    /// For decode steps.
    pool: Pool,
    /// For steps that read prompts.
    batch_pool: Pool,
    lock: Arc<MemoryLock>,
    working: Mutex<Working>,
    weights: WeightCache,
    n_graphs: AtomicU64,
}

impl CpuDriver {
    /// Starts the threads.
    pub fn new(options: &CpuOptions) -> Result<CpuDriver, CpuError> {
        let isa = match &options.isa {
            Some(name) => Isa::from_name(name)?,
            None => Isa::detect(),
        };
        let n_threads = options.n_threads.unwrap_or_else(default_n_threads);
        let [pool, batch_pool] = Pool::pair([n_threads, options.n_threads_batch.unwrap_or(n_threads)])?;
        let shared = Shared {
            isa,
            pool,
            batch_pool,
            lock: Arc::default(),
            working: Mutex::default(),
            weights: WeightCache::new(options.packed_cache.clone()),
            n_graphs: AtomicU64::new(0),
        };
        Ok(CpuDriver { shared: Arc::new(shared) })
    }

    /// Threads that work on an op of a decode step.
    pub fn n_threads(&self) -> usize {
        self.shared.pool.n_threads()
    }

    /// Threads that work on an op of a step that reads prompts.
    pub fn n_threads_batch(&self) -> usize {
        self.shared.batch_pool.n_threads()
    }

    /// The instruction set in use.
    pub fn isa(&self) -> Isa {
        self.shared.isa
    }
}

/// The layout of a layer's regions.
fn kv_layout(spec: &KvSpec) -> KvLayout {
    KvLayout {
        block_size: spec.block,
        n_kv_heads: spec.n_kv_heads,
        k_dim: spec.head_dim,
        v_dim: spec.head_dim,
    }
}

impl BackendDriver for CpuDriver {
    fn backend(&self) -> Backend {
        Backend::CPU
    }

    fn describe(&self) -> String {
        let threads = match (self.n_threads(), self.n_threads_batch()) {
            (1, 1) => "1 thread".to_owned(),
            (n, n_batch) if n == n_batch => format!("{n} threads"),
            (n, n_batch) => format!("{n} threads ({n_batch} for prompts)"),
        };
        format!("{threads}, {} {}", std::env::consts::ARCH, self.isa().name())
    }

    fn supports_op(&self, op: &Op, dtype: TensorType) -> Support {
        claims::op(op, dtype)
    }

    fn supports_fused(&self, _fused: OpKind) -> Support {
        // Each fused op shares one quantization of the activations or one fork-join, which always pays here.
        Support::Yes
    }

    fn supports_attn_span(&self, _span: &AttnSpan) -> Support {
        Support::Yes
    }

    fn allocate(&self, bytes: usize) -> Result<Arc<dyn Buffer>, KernelFault> {
        Ok(Arc::new(CpuBuffer::zeroed(bytes, &self.shared.lock)?))
    }

    fn kv_block_bytes(&self, spec: &KvSpec, part: KvPart) -> usize {
        let layout = kv_layout(spec);
        let elems = match part {
            KvPart::K => layout.k_block_elems(),
            KvPart::V => layout.v_block_elems(),
        };
        match spec.kv_type {
            KvType::F16 => elems.saturating_mul(size_of::<half::f16>()),
            KvType::F32 => elems.saturating_mul(size_of::<f32>()),
            KvType::Q8_0 => layout.q8_0_block_bytes(part),
        }
    }

    fn kv_values(&self, spec: &KvSpec, part: KvPart, block: &[u8]) -> Option<Vec<f32>> {
        block_values(&kv_layout(spec), part, spec.kv_type, block)
    }

    fn weight_bytes(
        &self,
        weights: &[(WeightUse<'_>, &WeightRef)],
        source: &dyn WeightSource,
    ) -> WeightBytes {
        let loaded = self.shared.weights.loaded_bytes(source.version());
        WeightBytes { own: weights::planned_bytes(weights).saturating_sub(loaded), in_place: 0 }
    }

    fn scratch_bytes(&self, graph: &ComputeGraph, nodes: &[NodeId], kv: &[KvSpec]) -> usize {
        plan::scratch_bytes(graph, nodes, kv, self.shared.largest_pool().n_threads())
    }

    fn begin_loading(&self, weights: &[(WeightUse<'_>, &WeightRef)], source: &dyn WeightSource) {
        self.shared.weights.begin(weights, source, self.shared.largest_pool());
    }

    fn end_loading(&self) {
        self.shared.weights.end();
    }

    fn take_load_notes(&self) -> Vec<LoadNote> {
        self.shared.weights.take_notes()
    }

    fn load_weight(&self, usage: WeightUse<'_>, weights: &dyn WeightSource) -> Result<(), KernelFault> {
        self.shared.weights.load(usage, weights, self.shared.packing())
    }

    fn prepare(&self, job: &PrepareJob<'_>) -> Result<Box<dyn Prepared>, KernelFault> {
        prepare::prepare(&self.shared, job)
    }
}

impl Shared {
    /// A number that no other prepared graph has.
    fn next_graph(&self) -> u64 {
        self.n_graphs.fetch_add(1, Ordering::Relaxed)
    }

    fn packing(&self) -> Packing<'_> {
        Packing { pool: self.largest_pool(), isa: self.isa }
    }

    /// The threads of a kind of step.
    fn pool_for(&self, gtype: GraphType) -> &Pool {
        match gtype {
            GraphType::Decode => &self.pool,
            GraphType::Prefill => &self.batch_pool,
        }
    }

    /// All threads that there are.
    fn largest_pool(&self) -> &Pool {
        if self.pool.n_threads() > self.batch_pool.n_threads() { &self.pool } else { &self.batch_pool }
    }

    fn working(&self) -> std::sync::MutexGuard<'_, Working> {
        self.working.lock().unwrap_or_else(PoisonError::into_inner)
    }
}
