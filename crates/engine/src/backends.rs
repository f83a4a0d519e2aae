//! The backends of a model: made once, shared by all contexts with equal settings, gone with the last of them.
//!
//! A backend holds its own copy of the weights and its threads, which together are most of what a context costs. Contexts
//! that share them take turns, step by step: a backend runs one graph at a time.

use std::path::Path;
use std::sync::{Arc, Mutex, PoisonError, Weak};

use minfer_cpu::isa::Isa;
use minfer_cpu::threads::default_n_threads;
use minfer_cpu::{CpuDriver, CpuError, CpuOptions, PackedCacheOptions};
use minfer_graph::Registry;

use crate::gpu::{self, GpuWish};

/// What backends differ in; contexts with equal settings share theirs.
#[derive(Clone, Debug, PartialEq, Eq)]
struct Settings {
    threads: Threads,
    isa: &'static str,
    gpu: Gpu,
    /// Whether the GPU may read weights in place; of no matter without one.
    gpu_import: bool,
}

/// What a context asks of the CPU backend; `None` leaves a setting to the machine.
#[derive(Clone, Copy, Debug, Default)]
pub(crate) struct CpuRequest<'a> {
    pub(crate) n_threads: Option<usize>,
    /// As many as `n_threads` unless it says otherwise.
    pub(crate) n_threads_batch: Option<usize>,
    pub(crate) isa: Option<&'a str>,
    /// No part of what contexts are told apart by: it changes no result.
    pub(crate) packed_cache: Option<&'a PackedCacheOptions>,
}

/// Threads of the CPU backend.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct Threads {
    /// Of decode steps.
    pub(crate) decode: usize,
    /// Of steps that read prompts.
    pub(crate) batch: usize,
}

/// What a context asks of GPUs.
#[derive(Clone, Copy, Debug)]
pub(crate) struct GpuRequest<'a> {
    pub(crate) wish: GpuWish,
    /// Part of its name.
    pub(crate) device: Option<&'a str>,
    /// Folder for compiled kernels.
    #[cfg_attr(not(feature = "gpu"), expect(dead_code, reason = "no device compiles kernels in this build"))]
    pub(crate) cache: Option<&'a Path>,
    /// Whether it may read weights in place.
    pub(crate) import: bool,
}

/// Whether there is a GPU among the backends, and which.
#[derive(Clone, Debug, PartialEq, Eq)]
enum Gpu {
    None,
    Best,
    Named(String),
}

impl Gpu {
    fn of(wish: GpuWish, device: Option<&str>) -> Gpu {
        match (wish, device) {
            (GpuWish::None, _) => Gpu::None,
            (GpuWish::IfThere, _) if !gpu::may_be_there() => Gpu::None,
            (_, Some(name)) => Gpu::Named(name.into()),
            (_, None) => Gpu::Best,
        }
    }

    /// Opens the device, or notes why it cannot be used.
    fn register(&self, registry: &mut Registry, request: GpuRequest<'_>) {
        match self {
            Gpu::None => {}
            Gpu::Best => gpu::register(registry, GpuRequest { device: None, ..request }),
            Gpu::Named(name) => gpu::register(registry, GpuRequest { device: Some(name), ..request }),
        }
    }
}

/// The backends that some contexts share.
pub(crate) struct Backends {
    settings: Settings,
    registry: Registry,
}

impl Backends {
    /// Every backend of this build that the machine can use.
    pub(crate) fn registry(&self) -> &Registry {
        &self.registry
    }

    /// Threads of the CPU backend.
    pub(crate) fn threads(&self) -> Threads {
        self.settings.threads
    }
}

/// The backends that contexts of one model have now.
#[derive(Default)]
pub(crate) struct SharedBackends(Mutex<Vec<Weak<Backends>>>);

impl SharedBackends {
    /// Those with these settings, made if no context has them.
    pub(crate) fn get(&self, cpu: CpuRequest<'_>, gpu: GpuRequest<'_>) -> Result<Arc<Backends>, CpuError> {
        let isa = cpu.isa.map_or_else(|| Ok(Isa::detect()), Isa::from_name)?.name();
        let decode = cpu.n_threads.unwrap_or_else(default_n_threads);
        let threads = Threads { decode, batch: cpu.n_threads_batch.unwrap_or(decode) };
        let device = Gpu::of(gpu.wish, gpu.device);
        let gpu_import = device != Gpu::None && gpu.import;
        let settings = Settings { threads, isa, gpu: device, gpu_import };
        let mut known = self.0.lock().unwrap_or_else(PoisonError::into_inner);
        known.retain(|backends| backends.strong_count() > 0);
        if let Some(found) = known.iter().filter_map(Weak::upgrade).find(|b| b.settings == settings) {
            return Ok(found);
        }
        let options = CpuOptions {
            n_threads: Some(threads.decode),
            n_threads_batch: Some(threads.batch),
            isa: Some(isa.into()),
            packed_cache: cpu.packed_cache.cloned(),
        };
        let mut registry = Registry::new();
        registry.register(Arc::new(CpuDriver::new(&options)?));
        settings.gpu.register(&mut registry, gpu);
        let backends = Arc::new(Backends { settings, registry });
        known.push(Arc::downgrade(&backends));
        Ok(backends)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const ONE_THREAD: CpuRequest<'static> =
        CpuRequest { n_threads: Some(1), n_threads_batch: None, isa: None, packed_cache: None };
    const CPU_ONLY: GpuRequest<'static> =
        GpuRequest { wish: GpuWish::None, device: None, cache: None, import: true };

    #[test]
    fn equal_settings_share_and_others_do_not() {
        let shared = SharedBackends::default();
        let get =
            |n_threads, isa| shared.get(CpuRequest { n_threads, isa, ..CpuRequest::default() }, CPU_ONLY);
        let one = get(Some(1), None).unwrap();
        assert!(Arc::ptr_eq(&one, &get(Some(1), Some(Isa::detect().name())).unwrap()));
        assert!(!Arc::ptr_eq(&one, &get(Some(2), None).unwrap()));
        let more_for_prompts = CpuRequest { n_threads_batch: Some(2), ..ONE_THREAD };
        assert!(!Arc::ptr_eq(&one, &shared.get(more_for_prompts, CPU_ONLY).unwrap()));
        if Isa::detect() != Isa::Scalar {
            assert!(!Arc::ptr_eq(&one, &get(Some(1), Some("scalar")).unwrap()));
        }
        assert!(get(Some(0), None).is_err() && get(None, Some("abacus")).is_err());
    }

    #[test]
    fn they_go_with_the_last_who_has_them() {
        let shared = SharedBackends::default();
        let first = shared.get(ONE_THREAD, CPU_ONLY).unwrap();
        let (second, weak) = (first.clone(), Arc::downgrade(&first));
        drop(first);
        assert!(weak.upgrade().is_some());
        drop(second);
        assert!(weak.upgrade().is_none());
        assert_eq!(shared.get(ONE_THREAD, CPU_ONLY).unwrap().threads(), Threads { decode: 1, batch: 1 });
    }
}
