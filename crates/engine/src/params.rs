//! Settings of a context, and what graphs depend on of them.

use std::path::PathBuf;

use minfer_cpu::PackedCacheOptions;
use minfer_graph::{Backend, BackendSet, CParams, KvType};

use crate::context::KV_BLOCK;
use crate::error::EngineError;
use crate::gpu::GpuLayers;
use crate::trace::TraceSettings;

/// Context when nobody asks for another, and of a model whose file does not say what it was trained for.
pub(crate) const DEFAULT_N_CTX: usize = 4096;

/// Most tokens in one step.
pub(crate) const MAX_STEP: usize = 65_536;

/// Most positions of all sequences together: positions and slots are 32-bit inputs of the graph.
pub(crate) const MAX_POSITIONS: usize = 1 << 30;

/// Settings of a context.
#[derive(Clone, Debug)]
pub struct ContextParams {
    /// Positions of one sequence; 0 for what the model was trained for.
    pub n_ctx: usize,
    /// Sequences at once.
    pub n_seq_max: usize,
    /// Positions of the KV cache, which all sequences share; `None` for all of them at full length.
    pub n_kv: Option<usize>,
    /// Most tokens in one step; a longer prompt is cut into chunks.
    pub n_ubatch: usize,
    /// Threads; `None` for one a physical core that this process may use.
    pub n_threads: Option<usize>,
    /// Threads of steps that read prompts, which are all steps with several tokens of one sequence: chunks of prompts, alone or
    /// beside sequences that generate, and guesses that are checked. `None` for as many as `n_threads`.
    pub n_threads_batch: Option<usize>,
    /// Widest instructions to use, by name (`scalar`, `avx2`, `avx512`); `None` for the machine's best.
    pub isa: Option<String>,
    /// Element type of the KV cache.
    pub kv_type: KvType,
    /// Backends by name, such as `cpu,vulkan`; `None` for all that can be used.
    pub backends: Option<String>,
    /// Backends that are out of play, whatever `backends` says; the CPU cannot be.
    pub disabled: Vec<Backend>,
    /// Layers that a GPU takes.
    pub gpu_layers: GpuLayers,
    /// Part of the name of the device to use; `None` for the best that is no software.
    pub device: Option<String>,
    /// Folder in which a device's compiled kernels are kept from one process to the next; `None` to keep none.
    pub device_cache: Option<PathBuf>,
    /// Where packed weights are kept from one process to the next, and how many; `None` to keep none. The first context of a
    /// model with its threads and instructions decides.
    pub packed_cache: Option<PackedCacheOptions>,
    /// Let a device that works in the machine's memory read weights where their file is mapped, if it can.
    pub gpu_import: bool,
    /// Fuse the projections of query, key and value in decode steps.
    pub fuse_qkv: bool,
    /// Fuse gate, up and SwiGLU in decode steps.
    pub fuse_ffn: bool,
    /// Rows of logits in one step that memory is planned for; `None` for one for each sequence. Guessing ahead and
    /// log-probabilities of prompts take what is left of them.
    pub n_outputs_max: Option<usize>,
    /// Most bytes that the process may take, the weights included; `None` for what the machine has.
    pub memory: Option<usize>,
    /// Bytes that the plan sets aside for what a draft model will take; 0 without one.
    pub draft_bytes: usize,
    /// Write node values to a file.
    pub trace: Option<TraceSettings>,
}

impl Default for ContextParams {
    fn default() -> Self {
        ContextParams {
            n_ctx: DEFAULT_N_CTX,
            n_seq_max: 1,
            n_kv: None,
            n_ubatch: 512,
            n_threads: None,
            n_threads_batch: None,
            isa: None,
            kv_type: KvType::F16,
            backends: None,
            disabled: Vec::new(),
            gpu_layers: GpuLayers::Auto,
            device: None,
            device_cache: None,
            packed_cache: None,
            gpu_import: true,
            fuse_qkv: true,
            fuse_ffn: true,
            n_outputs_max: None,
            memory: None,
            draft_bytes: 0,
            trace: None,
        }
    }
}

impl ContextParams {
    /// Refuses what no context can have; `n_ctx` is the size in effect: the file's own claim where the caller leaves it to the file.
    pub(crate) fn check(&self, n_ctx: usize) -> Result<(), EngineError> {
        let refuse = |setting, value: usize, reason| {
            Err(EngineError::Setting { setting, value: value.to_string(), reason })
        };
        if self.n_seq_max == 0 || self.n_seq_max > 4096 {
            return refuse("the number of sequences", self.n_seq_max, "it must be between 1 and 4096");
        }
        if n_ctx.saturating_mul(self.n_seq_max) > MAX_POSITIONS {
            return refuse("the context size", n_ctx, "all sequences together can hold 2^30 positions");
        }
        if self.n_kv.is_some_and(|n| n == 0 || n > MAX_POSITIONS) {
            return refuse(
                "the size of the KV cache",
                self.n_kv.unwrap_or(0),
                "it must be between 1 and 2^30 positions",
            );
        }
        if self.n_ubatch == 0 || self.n_ubatch > MAX_STEP {
            return refuse("the chunk size", self.n_ubatch, "it must be between 1 and 65536");
        }
        for (setting, n) in [
            ("the number of threads", self.n_threads),
            ("the number of threads for prompts", self.n_threads_batch),
        ] {
            if n == Some(0) {
                return refuse(setting, 0, "it must be at least 1");
            }
        }
        Ok(())
    }

    /// What a graph depends on; `n_ctx` as for [`Self::check`].
    pub(crate) fn cparams(&self, n_ctx: usize, backends: BackendSet) -> CParams {
        let n_ctx = n_ctx.next_multiple_of(KV_BLOCK);
        CParams {
            n_ctx,
            n_seq_max: self.n_seq_max,
            kv_block: KV_BLOCK,
            n_kv_blocks: self.n_kv.map_or(n_ctx / KV_BLOCK * self.n_seq_max, |n| n.div_ceil(KV_BLOCK)),
            kv_type: self.kv_type,
            backends,
            gpu: None,
            fuse_qkv: self.fuse_qkv,
            fuse_ffn: self.fuse_ffn,
        }
    }
}
