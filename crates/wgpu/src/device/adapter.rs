//! The adapters of this machine, and the choice among them.

use wgpu::{Backends, DeviceType, Features, InstanceDescriptor, InstanceFlags, Limits};

use super::{import, memory};
use crate::error::DeviceError;
use crate::kernels::MAX_X;

/// What an adapter is.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum DeviceKind {
    /// A GPU with memory of its own.
    Discrete,
    /// A GPU that shares the processor's memory.
    Integrated,
    /// A GPU of a virtual machine.
    Virtual,
    /// The processor, pretending.
    Software,
    /// The system does not say.
    Other,
}

impl DeviceKind {
    fn of(kind: DeviceType) -> DeviceKind {
        match kind {
            DeviceType::DiscreteGpu => DeviceKind::Discrete,
            DeviceType::IntegratedGpu => DeviceKind::Integrated,
            DeviceType::VirtualGpu => DeviceKind::Virtual,
            DeviceType::Cpu => DeviceKind::Software,
            DeviceType::Other => DeviceKind::Other,
        }
    }

    /// In words.
    pub fn name(self) -> &'static str {
        match self {
            DeviceKind::Discrete => "discrete GPU",
            DeviceKind::Integrated => "integrated GPU",
            DeviceKind::Virtual => "virtual GPU",
            DeviceKind::Software => "software",
            DeviceKind::Other => "unknown kind",
        }
    }
}

/// An adapter, as the system describes it.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Adapter {
    /// Its name.
    pub name: String,
    /// What it is.
    pub kind: DeviceKind,
    /// Its driver.
    pub driver: String,
    /// Smallest and largest number of threads that run in step.
    pub subgroup_sizes: (u32, u32),
    /// Most bytes that a kernel sees as one operand.
    pub max_binding_bytes: u64,
    /// Most bytes of one buffer.
    pub max_buffer_bytes: u64,
    /// Bytes of memory that it works in, where the system says.
    pub memory: Option<u64>,
    /// The pieces of a mapped file that it reads in place are multiples of so many bytes; or why it reads none.
    pub in_place: Result<u64, String>,
    /// Why the kernels cannot run on it, if they cannot.
    pub unfit: Option<String>,
}

/// How to choose a device.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct WgpuOptions {
    /// Part of an adapter's name; case does not matter. `None` for the best that is no software.
    pub device: Option<String>,
    /// Folder in which compiled kernels are kept from one process to the next; `None` to keep none.
    pub cache: Option<std::path::PathBuf>,
    /// Whether weights are read where their file is mapped, if the device can; else they are copied.
    pub import: bool,
    /// What is to go wrong, for tests.
    pub faults: Faults,
}

impl Default for WgpuOptions {
    fn default() -> Self {
        WgpuOptions { device: None, cache: None, import: true, faults: Faults::default() }
    }
}

/// A device that has less than it says, or computes something else: what tests inject.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Faults {
    /// Bytes after which there is no more memory.
    pub memory: Option<usize>,
    /// Most bytes of one operand.
    pub binding: Option<usize>,
    /// Submissions after which it does not answer any more.
    pub silent_after: Option<u64>,
    /// Imports of mapped files after which it refuses more.
    pub refuse_import_after: Option<u64>,
    /// What ends of imports have to be multiples of.
    pub import_alignment: Option<usize>,
    /// Most bytes of one import.
    pub import_bytes: Option<usize>,
    /// Whether it has no subgroup operations.
    pub no_subgroups: bool,
    /// Kernels whose name has this in it give garbage: the first text in their source is replaced by the second.
    pub tamper: Option<(&'static str, &'static str, &'static str)>,
}

/// What a kernel binds at most; a device that cannot bind so much is unfit.
const STORAGE_BUFFERS: u32 = 9;

/// Bytes of parameters that kernels get with a dispatch.
pub(crate) const IMMEDIATE_BYTES: u32 = 64;

/// Threads of a workgroup.
const WORKGROUP_THREADS: u32 = 64;

/// Workgroup memory that kernels declare.
const WORKGROUP_BYTES: u32 = 10 << 10;

impl Adapter {
    fn of(adapter: &wgpu::Adapter) -> Adapter {
        let (info, limits) = (adapter.get_info(), adapter.limits());
        let kind = DeviceKind::of(info.device_type);
        Adapter {
            name: info.name,
            kind,
            driver: format!("{} {}", info.driver, info.driver_info).trim().into(),
            subgroup_sizes: (info.subgroup_min_size, info.subgroup_max_size),
            max_binding_bytes: limits.max_storage_buffer_binding_size,
            max_buffer_bytes: limits.max_buffer_size,
            memory: memory::bytes(adapter),
            in_place: import::alignment(adapter, kind),
            unfit: unfit(adapter.features(), &limits),
        }
    }
}

/// Why the kernels cannot run on an adapter with these abilities, if they cannot.
fn unfit(features: Features, limits: &Limits) -> Option<String> {
    let needs = [
        ("storage buffers for a kernel", limits.max_storage_buffers_per_shader_stage, STORAGE_BUFFERS),
        ("bytes of parameters", limits.max_immediate_size, IMMEDIATE_BYTES),
        ("threads in a workgroup", limits.max_compute_invocations_per_workgroup, WORKGROUP_THREADS),
        ("workgroups in a row", limits.max_compute_workgroups_per_dimension, MAX_X),
        ("bytes of workgroup memory", limits.max_compute_workgroup_storage_size, WORKGROUP_BYTES),
    ];
    if !features.contains(Features::IMMEDIATES) {
        return Some("it has no immediate data (push constants)".into());
    }
    let short = needs.iter().find(|(_, has, needed)| has < needed);
    short.map(|(what, has, needed)| format!("it allows {has} {what}, {needed} are needed"))
}

/// The system's adapters of this backend. Loads the system's graphics library, which takes time.
fn all() -> Vec<wgpu::Adapter> {
    let backends = if cfg!(target_os = "macos") { Backends::METAL } else { Backends::VULKAN };
    let mut descriptor = InstanceDescriptor::new_without_display_handle();
    descriptor.backends = backends;
    descriptor.flags = InstanceFlags::empty();
    let instance = wgpu::Instance::new(descriptor);
    pollster::block_on(instance.enumerate_adapters(backends))
}

/// Every adapter of this machine, usable or not. Loads the system's graphics library, which takes time.
pub fn adapters() -> Vec<Adapter> {
    all().iter().map(Adapter::of).collect()
}

/// The adapter that `options` ask for.
pub(crate) fn choose(options: &WgpuOptions) -> Result<(wgpu::Adapter, Adapter), DeviceError> {
    let found: Vec<_> = all().into_iter().map(|a| (Adapter::of(&a), a)).collect();
    let seen: Vec<_> = found.iter().map(|(a, _)| a.clone()).collect();
    let at = pick(&seen, options.device.as_deref())?;
    let (adapter, raw) = found.into_iter().nth(at).ok_or(DeviceError::NoAdapter)?;
    match &adapter.unfit {
        Some(reason) => Err(DeviceError::Unfit { name: adapter.name, reason: reason.clone() }),
        None => Ok((raw, adapter)),
    }
}

/// The index of the adapter to use: the first whose name has `asked` in it, or the best.
fn pick(adapters: &[Adapter], asked: Option<&str>) -> Result<usize, DeviceError> {
    let names = || adapters.iter().map(|a| a.name.as_str()).collect::<Vec<_>>().join(", ");
    if adapters.is_empty() {
        return Err(DeviceError::NoAdapter);
    }
    if let Some(asked) = asked {
        let wanted = asked.trim().to_lowercase();
        let found = adapters.iter().position(|a| a.name.to_lowercase().contains(&wanted));
        return found.ok_or_else(|| DeviceError::Unknown { asked: asked.into(), names: names() });
    }
    let rank = |a: &Adapter| match a.kind {
        DeviceKind::Discrete => Some(0),
        DeviceKind::Integrated => Some(1),
        DeviceKind::Virtual => Some(2),
        DeviceKind::Other => Some(3),
        DeviceKind::Software => None,
    };
    let usable = adapters.iter().enumerate().filter_map(|(i, a)| Some((a.unfit.is_some(), rank(a)?, i)));
    usable.min().map(|best| best.2).ok_or_else(|| DeviceError::OnlySoftware { names: names() })
}

#[cfg(test)]
mod tests {
    use super::*;

    fn adapter(name: &str, kind: DeviceKind) -> Adapter {
        Adapter {
            name: name.into(),
            kind,
            driver: String::new(),
            subgroup_sizes: (8, 8),
            max_binding_bytes: 1 << 27,
            max_buffer_bytes: 1 << 31,
            memory: None,
            in_place: Ok(4096),
            unfit: None,
        }
    }

    #[test]
    fn a_software_adapter_is_used_only_by_name() {
        let software = adapter("llvmpipe (LLVM 15)", DeviceKind::Software);
        let integrated = adapter("Radeon 780M", DeviceKind::Integrated);
        let discrete = adapter("Radeon RX 7900", DeviceKind::Discrete);
        let only_software = pick(std::slice::from_ref(&software), None);
        assert!(matches!(only_software, Err(DeviceError::OnlySoftware { .. })));
        let all = [software, integrated, discrete];
        assert_eq!(pick(&all, None), Ok(2));
        assert_eq!(pick(&all[..2], None), Ok(1));
        assert_eq!(pick(&all, Some("LLVMpipe")), Ok(0));
        assert_eq!(pick(&all, Some("780m")), Ok(1));
        assert!(matches!(pick(&all, Some("arc")), Err(DeviceError::Unknown { .. })));
        assert_eq!(pick(&[], Some("arc")), Err(DeviceError::NoAdapter));
    }

    #[test]
    fn an_unfit_adapter_says_what_it_lacks() {
        let limits = Limits { max_immediate_size: 128, ..Limits::default() };
        assert_eq!(unfit(Features::empty(), &limits).unwrap(), "it has no immediate data (push constants)");
        let few = Limits { max_storage_buffers_per_shader_stage: 4, ..limits };
        let reason = unfit(Features::IMMEDIATES, &few).unwrap();
        assert_eq!(reason, "it allows 4 storage buffers for a kernel, 9 are needed");
    }
}
