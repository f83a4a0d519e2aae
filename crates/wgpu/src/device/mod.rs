//! An opened device: what it allows, its pipelines, its memory, and the one queue everything goes through.
//!
//! Every call that can fail runs inside error scopes, so that what goes wrong is an error of the node that asked and never a
//! panic; every wait has a limit.

mod adapter;
mod buffer;
mod cache;
mod import;
mod memory;
mod pipeline;
mod transfer;

use std::sync::atomic::{AtomicU64, Ordering};
use std::sync::{Arc, Mutex, MutexGuard, OnceLock, PoisonError};

use minfer_graph::KernelFault;
use wgpu::{ErrorFilter, Features};

#[cfg(test)]
pub(crate) use adapter::IMMEDIATE_BYTES;
pub use adapter::{Adapter, DeviceKind, Faults, WgpuOptions, adapters};
pub(crate) use buffer::{GpuBuffer, Span};
pub(crate) use pipeline::Dispatch;
pub(crate) use transfer::{Report, Transfer};

use self::cache::PipelineCache;
use self::pipeline::Pipelines;
use crate::error::DeviceError;

/// How often the device was asked for what a replayed step must not ask for.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Counts {
    /// Compute pipelines compiled.
    pub pipelines: u64,
    /// Bind groups made.
    pub bind_groups: u64,
    /// Buffers allocated.
    pub buffers: u64,
    /// Command buffers submitted.
    pub submissions: u64,
    /// Bytes of buffers that are held now.
    pub allocated: u64,
    /// Bytes of mapped files that are read in place now, in whole pages.
    pub imported: u64,
    /// Buffers, bind groups and pipelines that wgpu itself holds now; 0 unless its counters are compiled in.
    pub held: u64,
}

#[derive(Default)]
struct Counters {
    pipelines: AtomicU64,
    bind_groups: AtomicU64,
    buffers: AtomicU64,
    submissions: AtomicU64,
    allocated: AtomicU64,
    imported: AtomicU64,
    imports: AtomicU64,
}

/// An opened device.
pub(crate) struct Device {
    raw: wgpu::Device,
    queue: wgpu::Queue,
    adapter: Adapter,
    limits: wgpu::Limits,
    /// What ends of imports are multiples of, or why there are none.
    import_alignment: Result<usize, String>,
    pipelines: Pipelines,
    cache: Option<PipelineCache>,
    transfer: OnceLock<Mutex<Transfer>>,
    counters: Counters,
    faults: Faults,
    /// Why the device is gone, once it is.
    lost: Arc<OnceLock<String>>,
}

impl Device {
    /// Opens the adapter that `options` ask for.
    pub(crate) fn open(options: &WgpuOptions) -> Result<Arc<Device>, DeviceError> {
        let (raw_adapter, adapter) = adapter::choose(options)?;
        let limits = raw_adapter.limits();
        let wanted = Features::PIPELINE_CACHE | Features::SUBGROUP;
        let features = Features::IMMEDIATES | (raw_adapter.features() & wanted);
        let descriptor = wgpu::DeviceDescriptor {
            required_features: features,
            required_limits: limits.clone(),
            ..Default::default()
        };
        let name = adapter.name.clone();
        let refused = |reason: String| DeviceError::Refused { name: name.clone(), reason };
        let import_alignment = import_alignment(options, &adapter);
        let opened = match import_alignment {
            Ok(_) => import::open(&raw_adapter, &descriptor),
            Err(_) => pollster::block_on(raw_adapter.request_device(&descriptor)).map_err(|e| e.to_string()),
        };
        let (raw, queue) = opened.map_err(refused)?;
        let lost: Arc<OnceLock<String>> = Arc::default();
        let (gone, failed) = (lost.clone(), lost.clone());
        raw.set_device_lost_callback(move |_, message| {
            let _ = gone.set(message);
        });
        raw.on_uncaptured_error(Arc::new(move |error: wgpu::Error| {
            let _ = failed.set(error.to_string());
        }));
        let cache = PipelineCache::open(&raw, &raw_adapter.get_info(), options.cache.as_deref());
        let device = Arc::new(Device {
            raw,
            queue,
            adapter,
            limits,
            import_alignment,
            pipelines: Pipelines::default(),
            cache,
            transfer: OnceLock::new(),
            counters: Counters::default(),
            faults: options.faults,
            lost,
        });
        let transfer = Transfer::new(&device).map_err(|fault| refused(fault.to_string()))?;
        let _ = device.transfer.set(Mutex::new(transfer));
        Ok(device)
    }

    /// The adapter behind it.
    pub(crate) fn adapter(&self) -> &Adapter {
        &self.adapter
    }

    /// Most bytes that one binding may have.
    pub(crate) fn max_binding_bytes(&self) -> usize {
        let most = self.limits.max_storage_buffer_binding_size.min(self.limits.max_buffer_size);
        // Kernels address the bytes of an operand with 32 bits.
        let most = most.min(u64::from(u32::MAX)) as usize;
        self.faults.binding.map_or(most, |limit| limit.min(most))
    }

    /// Most operands that a kernel may have.
    pub(crate) fn max_bindings(&self) -> usize {
        self.limits.max_storage_buffers_per_shader_stage as usize
    }

    /// Most bytes that one buffer may have.
    pub(crate) fn max_buffer_bytes(&self) -> usize {
        self.limits.max_buffer_size as usize
    }

    /// What starts (in memory) and lengths of imported pieces of a mapped file are multiples of, or why none is imported.
    pub(crate) fn import_alignment(&self) -> Result<usize, &str> {
        self.import_alignment.as_ref().copied().map_err(String::as_str)
    }

    /// Most bytes of a mapped file that one buffer has.
    pub(crate) fn max_import_bytes(&self) -> usize {
        let most = self.max_buffer_bytes();
        self.faults.import_bytes.map_or(most, |limit| limit.min(most))
    }

    /// Bindings start at multiples of this, which are whole words.
    pub(crate) fn binding_alignment(&self) -> usize {
        (self.limits.min_storage_buffer_offset_alignment as usize).max(4)
    }

    /// Whether kernels may pass sums on within subgroups: there are such operations, and four neighbours are always together.
    pub(crate) fn shares_sums(&self) -> bool {
        let has = self.raw.features().contains(Features::SUBGROUP);
        has && self.adapter.subgroup_sizes.0 >= 4 && !self.faults.no_subgroups
    }

    /// Most workgroups along one axis.
    pub(crate) fn max_groups(&self) -> u32 {
        self.limits.max_compute_workgroups_per_dimension
    }

    /// Keeps compiled kernels for the next process, if there are new ones.
    pub(crate) fn keep_pipelines(&self) {
        if let Some(cache) = &self.cache {
            cache.keep(self.counts().pipelines);
        }
    }

    /// How often it was asked for what takes time.
    pub(crate) fn counts(&self) -> Counts {
        let read = |counter: &AtomicU64| counter.load(Ordering::Relaxed);
        Counts {
            pipelines: read(&self.counters.pipelines),
            bind_groups: read(&self.counters.bind_groups),
            buffers: read(&self.counters.buffers),
            submissions: read(&self.counters.submissions),
            allocated: read(&self.counters.allocated),
            imported: read(&self.counters.imported),
            held: self.held(),
        }
    }

    fn held(&self) -> u64 {
        let hal = self.raw.get_internal_counters().hal;
        let all = [hal.buffers.read(), hal.bind_groups.read(), hal.compute_pipelines.read()];
        all.into_iter().sum::<isize>().max(0) as u64
    }

    /// Gives the device back: whatever is asked of it from now on is an error.
    pub(crate) fn lose(&self) {
        self.raw.destroy();
        let _ = self.raw.poll(wgpu::PollType::Poll);
    }

    /// Uses it no more, for this reason.
    fn give_up(&self, reason: String) {
        let _ = self.lost.set(reason);
    }

    /// Whether it is not to answer, for a test.
    fn is_silent(&self) -> bool {
        let n = self.counters.submissions.load(Ordering::Relaxed);
        self.faults.silent_after.is_some_and(|most| n > most)
    }

    /// The queue's one user at a time.
    pub(crate) fn transfer(&self) -> Result<MutexGuard<'_, Transfer>, KernelFault> {
        let transfer = self.transfer.get();
        let transfer = transfer.ok_or_else(|| KernelFault::Bug("the device is not open yet".into()))?;
        Ok(transfer.lock().unwrap_or_else(PoisonError::into_inner))
    }

    /// An error if the device is gone.
    fn check_alive(&self) -> Result<(), KernelFault> {
        match self.lost.get() {
            Some(reason) => Err(KernelFault::Device(format!("it was lost: {reason}"))),
            None => Ok(()),
        }
    }

    fn out_of_memory(&self, bytes: usize) -> KernelFault {
        let held = self.counters.allocated.load(Ordering::Relaxed);
        let of = self.adapter.memory.map_or_else(String::new, |all| format!(" of {all}"));
        let reason =
            format!("device '{}' has no more memory, {held}{of} bytes are in use", self.adapter.name);
        KernelFault::OutOfMemory { bytes, reason }
    }

    /// Runs `f`; what the device refuses meanwhile is the error. `bytes` is what `f` allocates.
    fn checked<T>(&self, bytes: usize, f: impl FnOnce() -> T) -> Result<T, KernelFault> {
        self.check_alive()?;
        let internal = self.raw.push_error_scope(ErrorFilter::Internal);
        let validation = self.raw.push_error_scope(ErrorFilter::Validation);
        let memory = self.raw.push_error_scope(ErrorFilter::OutOfMemory);
        let value = f();
        let no_memory = pollster::block_on(memory.pop());
        let invalid = pollster::block_on(validation.pop());
        let failed = pollster::block_on(internal.pop());
        self.check_alive()?;
        if no_memory.is_some() {
            return Err(self.out_of_memory(bytes));
        }
        match invalid.or(failed) {
            Some(error) => Err(KernelFault::Device(error.to_string())),
            None => Ok(value),
        }
    }
}

fn import_alignment(options: &WgpuOptions, adapter: &Adapter) -> Result<usize, String> {
    match &adapter.in_place {
        _ if !options.import => Err("switched off by MINFER_NO_GPU_IMPORT or gpu_import".into()),
        Ok(bytes) => Ok(options.faults.import_alignment.unwrap_or(*bytes as usize)),
        Err(reason) => Err(reason.clone()),
    }
}
