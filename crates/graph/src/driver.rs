//! The contract of a backend: what it answers about itself, the memory it gives, how it prepares and runs nodes.
//!
//! A driver is asked before anything runs and never after: whatever breaks a kernel's preconditions during a step is a
//! [`KernelFault`], the step fails, and nothing is retried elsewhere.

use std::any::Any;
use std::ops::Range;
use std::sync::Arc;
use std::time::Instant;

use minfer_gguf::{MappedBytes, TensorType};

use crate::backend::Backend;
use crate::graph::{ComputeGraph, Node, NodeId};
use crate::op::{KvPart, Op, OpKind, WeightRef};
use crate::params::{GraphType, KvType};

/// A backend's answer about one of its abilities.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Support {
    /// It has the kernel.
    Yes,
    /// It does not, and why.
    No(&'static str),
}

impl Support {
    /// Whether the answer is yes.
    pub fn is_yes(&self) -> bool {
        *self == Support::Yes
    }
}

/// A stretch of attention that a backend may or may not be able to run.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct AttnSpan {
    /// Values per head.
    pub head_dim: usize,
    /// Query heads that share one KV head.
    pub group: usize,
    /// Positions that one sequence can hold.
    pub n_ctx: usize,
    /// Element type of the cache.
    pub kv_type: KvType,
}

/// Something went wrong inside a backend; the scheduler adds the node, the op and the operands.
#[derive(Clone, Debug, PartialEq, thiserror::Error)]
pub enum KernelFault {
    /// The values of an input are outside what the graph was built for: the caller's mistake.
    #[error("{0}")]
    BadInput(String),
    /// A weight is missing or not what the graph says: the model's fault.
    #[error("weight '{name}': {reason}")]
    Weight {
        /// Name in the model file.
        name: String,
        /// What is wrong with it.
        reason: String,
    },
    /// Memory could not be had.
    #[error("{bytes} bytes could not be allocated: {reason}")]
    OutOfMemory {
        /// How much was asked for.
        bytes: usize,
        /// What the system said.
        reason: String,
    },
    /// The device failed or did not answer in time.
    #[error("the device failed: {0}")]
    Device(String),
    /// A node that the backend never claimed, or a buffer that is not its own: a defect of this program.
    #[error("defect in minfer: {0}")]
    Bug(String),
}

/// Memory of a backend, addressed in bytes. Never moves and never changes size.
pub trait Buffer: Send + Sync + Any {
    /// Its size.
    fn bytes(&self) -> usize;

    /// Copies `data` to `offset`.
    fn write(&self, offset: usize, data: &[u8]) -> Result<(), KernelFault>;

    /// Copies from `offset` into all of `out`.
    fn read(&self, offset: usize, out: &mut [u8]) -> Result<(), KernelFault>;

    /// Copies `bytes` bytes within the buffer; the two ranges do not meet.
    fn copy_within(&self, from: usize, to: usize, bytes: usize) -> Result<(), KernelFault> {
        let mut staging = vec![0; bytes];
        self.read(from, &mut staging)?;
        self.write(to, &staging)
    }

    /// For the backend that made it to find its own type again.
    fn as_any(self: Arc<Self>) -> Arc<dyn Any + Send + Sync>;
}

/// Size of one layer's keys or values.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct KvSpec {
    /// Key and value heads.
    pub n_kv_heads: usize,
    /// Values per head.
    pub head_dim: usize,
    /// Positions in one block.
    pub block: usize,
    /// Blocks in the region.
    pub n_blocks: usize,
    /// Element type.
    pub kv_type: KvType,
}

impl KvSpec {
    /// Bytes that the values of one block take without padding.
    pub fn block_bytes(&self) -> usize {
        self.kv_type.row_bytes(self.head_dim).saturating_mul(self.n_kv_heads * self.block)
    }

    /// Positions in the region.
    pub fn n_slots(&self) -> usize {
        self.block * self.n_blocks
    }
}

/// The bytes of a weight.
#[derive(Clone, Copy, Debug)]
pub struct WeightData<'a> {
    /// How its elements are stored.
    pub dtype: TensorType,
    /// Dimension 0 fastest.
    pub shape: [usize; 4],
    /// As in the file.
    pub bytes: &'a [u8],
}

/// Where a backend finds weights while it prepares.
pub trait WeightSource: Send + Sync {
    /// Changes when the weights change; equal versions mean equal bytes for equal names.
    fn version(&self) -> u64;

    /// The weight called `name`.
    fn weight(&self, name: &str) -> Option<WeightData<'_>>;

    /// What tells these weights from all others on this machine, from one process to the next: equal origins mean equal bytes
    /// for equal names. `None` where that is not known, and nothing made from them can be kept.
    fn origin(&self) -> Option<&[u8]> {
        None
    }

    /// Where the bytes of a weight are mapped from its file, for a backend that can read them there; `None` where they are not.
    fn mapped(&self, name: &str) -> Option<MappedBytes> {
        let _ = name;
        None
    }

    /// Says that a backend holds its own copy of these bytes of a weight, so the file's pages may go.
    fn release(&self, name: &str, bytes: Range<usize>) {
        let _ = (name, bytes);
    }
}

/// What a backend prepares: consecutive nodes of one planned graph, all its own.
pub struct PrepareJob<'a> {
    /// The whole graph.
    pub graph: &'a ComputeGraph,
    /// The nodes to run, in order; orphans are not among them.
    pub nodes: &'a [NodeId],
    /// The kind of step that the graph describes: a backend may give each kind other resources.
    pub gtype: GraphType,
    /// Memory of node values and KV regions.
    pub memory: &'a dyn JobMemory,
    /// Weights by name.
    pub weights: &'a dyn WeightSource,
    /// The context's KV geometry, by layer.
    pub kv: &'a [KvSpec],
}

impl<'a> PrepareJob<'a> {
    /// The node at `id`.
    pub fn node(&self, id: NodeId) -> &'a Node {
        self.graph.node(id)
    }
}

/// Where a prepared node finds its operands, on the preparing backend.
pub trait JobMemory {
    /// The buffer that holds the value of `id` on this backend, and the byte where the value starts.
    fn value(&self, id: NodeId) -> Result<(Arc<dyn Buffer>, usize), KernelFault>;

    /// The layer's region of keys or values.
    fn kv(&self, layer: usize, part: KvPart) -> Result<Arc<dyn Buffer>, KernelFault>;
}

/// A fault with the place in the prepared list where it happened.
#[derive(Clone, Debug, PartialEq)]
pub struct FaultAt {
    /// The node.
    pub node: NodeId,
    /// What went wrong there.
    pub fault: KernelFault,
}

/// Nodes that are ready to run again and again. Everything that can be resolved once has been: a run allocates nothing,
/// formats nothing and looks nothing up by name.
pub trait Prepared: Send {
    /// Runs all nodes and waits for them, for a bounded time.
    fn execute(&mut self) -> Result<(), FaultAt>;

    /// Runs the node at `index` of the job's list alone and waits for it.
    fn execute_node(&mut self, index: usize) -> Result<(), FaultAt>;

    /// Names of the kernels that run, each as often as it does; none where a backend does not say.
    fn kernels(&self) -> Vec<String> {
        Vec::new()
    }

    /// Keeps spans of what runs from now on, or no longer. A backend that has no clock keeps none.
    fn record_spans(&mut self, on: bool) {
        let _ = on;
    }

    /// Hands over the spans kept since the last time.
    fn take_spans(&mut self, take: &mut dyn FnMut(TimeSpan)) {
        let _ = take;
    }
}

/// A stretch of time in which a backend worked on a node.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct TimeSpan {
    /// The node.
    pub node: NodeId,
    /// Which thread or queue, 0 being the one that runs the step; `None` for the node as a whole.
    pub thread: Option<u16>,
    /// When it began.
    pub start: Instant,
    /// When it ended.
    pub end: Instant,
}

/// A backend that is in this build and usable on this machine.
pub trait BackendDriver: Send + Sync {
    /// Which backend this is.
    fn backend(&self) -> Backend;

    /// One line about the device, for people: `2 threads, x86_64 avx512vnni`.
    fn describe(&self) -> String;

    /// Whether it can run `op` on `dtype`: the type of a weight, of the KV cache for ops that touch it, `F32` or `I32`
    /// (the type of the value) for the rest. Ops with several weights are asked about once for each.
    fn supports_op(&self, op: &Op, dtype: TensorType) -> Support;

    /// Whether it has the fused kernel. Asked before a fused op is emitted or made; [`Self::supports_op`] is asked too.
    fn supports_fused(&self, fused: OpKind) -> Support;

    /// Whether its attention reaches over `span`.
    fn supports_attn_span(&self, span: &AttnSpan) -> Support;

    /// Bytes of memory of its own; `None` when it works in the machine's memory.
    fn own_memory(&self) -> Option<usize> {
        None
    }

    /// Memory for node values, zeroed.
    fn allocate(&self, bytes: usize) -> Result<Arc<dyn Buffer>, KernelFault>;

    /// Bytes of one block of keys or values in this backend's layout: block `b` is bytes `b * n..(b + 1) * n` of a region,
    /// in an order of its own.
    fn kv_block_bytes(&self, spec: &KvSpec, part: KvPart) -> usize {
        let _ = part;
        spec.block_bytes()
    }

    /// Most blocks that a layer's keys, or values, can have; `None` where only memory is a limit.
    fn max_kv_blocks(&self, spec: &KvSpec, part: KvPart) -> Option<usize> {
        let _ = (spec, part);
        None
    }

    /// Memory for one layer's keys or values, zeroed.
    fn allocate_kv(&self, spec: &KvSpec, part: KvPart) -> Result<Arc<dyn Buffer>, KernelFault> {
        self.allocate(self.kv_block_bytes(spec, part).saturating_mul(spec.n_blocks))
    }

    /// Bytes that these weights will take beside those that are loaded, in this order; each comes once.
    fn weight_bytes(
        &self,
        weights: &[(WeightUse<'_>, &WeightRef)],
        source: &dyn WeightSource,
    ) -> WeightBytes {
        let _ = source;
        let own = weights.iter().fold(0usize, |sum, (_, weight)| sum.saturating_add(weight.file_bytes()));
        WeightBytes { own, in_place: 0 }
    }

    /// Whether weights of this source stay where their file is mapped. The answer is given once for a source and kept.
    fn in_place(&self, weights: &[(WeightUse<'_>, &WeightRef)], source: &dyn WeightSource) -> InPlace {
        let _ = (weights, source);
        InPlace::No("the engine keeps a form of its own".into())
    }

    /// Says which weights will be loaded next, so that those that lie side by side in a file can be taken together.
    fn expect_weights(&self, weights: &[(WeightUse<'_>, &WeightRef)], source: &dyn WeightSource) {
        let _ = (weights, source);
    }

    /// Most bytes of working memory that these nodes take besides their values, all threads together.
    fn scratch_bytes(&self, graph: &ComputeGraph, nodes: &[NodeId], kv: &[KvSpec]) -> usize {
        let _ = (graph, nodes, kv);
        0
    }

    /// Reads one block of a region that this backend made, in its own layout, into all of `out`.
    fn read_kv_block(&self, region: &dyn Buffer, block: usize, out: &mut [u8]) -> Result<(), KernelFault> {
        region.read(block.saturating_mul(out.len()), out)
    }

    /// Writes one block as [`Self::read_kv_block`] read it.
    fn write_kv_block(&self, region: &dyn Buffer, block: usize, bytes: &[u8]) -> Result<(), KernelFault> {
        region.write(block.saturating_mul(bytes.len()), bytes)
    }

    /// The values of one block that [`Self::read_kv_block`] read, in f32: `[position][kv head][element]`. Nothing from a
    /// backend that cannot tell.
    fn kv_values(&self, spec: &KvSpec, part: KvPart, block: &[u8]) -> Option<Vec<f32>> {
        let _ = (spec, part, block);
        None
    }

    /// Says which weights [`Self::load_weight`] will be asked for next, in this order.
    fn begin_loading(&self, weights: &[(WeightUse<'_>, &WeightRef)], source: &dyn WeightSource) {
        let _ = (weights, source);
    }

    /// Says that those weights are loaded, or that one could not be.
    fn end_loading(&self) {}

    /// What happened while loading that did not stop it, since the last call.
    fn take_load_notes(&self) -> Vec<LoadNote> {
        Vec::new()
    }

    /// Loads one weight ahead of [`Self::prepare`], so that a caller can show progress. Loading twice is free.
    fn load_weight(&self, usage: WeightUse<'_>, weights: &dyn WeightSource) -> Result<(), KernelFault>;

    /// Resolves weights and operands, picks kernels.
    fn prepare(&self, job: &PrepareJob<'_>) -> Result<Box<dyn Prepared>, KernelFault>;
}

/// Something about loading, for people.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum LoadNote {
    /// How it was done, for who wants to know.
    Info(String),
    /// Something is not as it should be, and was got round.
    Warning(String),
}

/// What weights take.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct WeightBytes {
    /// Bytes of memory that the backend allocates.
    pub own: usize,
    /// Bytes of the mapped file's own pages that it reads in place.
    pub in_place: usize,
}

/// Whether a backend reads weights in the pages of the mapped file.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum InPlace {
    /// It does.
    Yes,
    /// It makes a copy, for this reason.
    No(String),
}

/// A weight and the op that will read it.
#[derive(Clone, Copy, Debug)]
pub struct WeightUse<'a> {
    /// Name in the model file.
    pub name: &'a str,
    /// Decides the form in which the backend keeps it.
    pub op: &'a Op,
    /// Its place among the op's weights.
    pub index: usize,
}

/// The types that `node` is asked about; see [`BackendDriver::supports_op`].
pub fn kernel_dtypes(node: &Node, kv: KvType) -> Vec<TensorType> {
    if matches!(node.op, Op::Attn(_) | Op::KvcacheStore { .. } | Op::KvcacheLoad { .. }) {
        return vec![kv.tensor_type()];
    }
    if let Op::QkvBiasRopeStore { .. } = node.op {
        return vec![kv.tensor_type()];
    }
    if node.meta.weights.is_empty() {
        return vec![match node.out_dtype {
            crate::graph::DType::I32 => TensorType::I32,
            crate::graph::DType::F16 => TensorType::F16,
            crate::graph::DType::Q8_0 => TensorType::Q8_0,
            crate::graph::DType::F32 => TensorType::F32,
        }];
    }
    let mut types: Vec<_> = node.meta.weights.iter().map(|w| w.dtype).collect();
    types.dedup();
    types
}
