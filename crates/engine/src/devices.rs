//! Every engine and device of this machine, for people.

use minfer_cpu::isa::Isa;
use minfer_cpu::threads::default_n_threads;
use minfer_graph::Backend;

use crate::memory::Available;

/// A device that an engine runs on, or why it cannot.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct DeviceInfo {
    /// The engine.
    pub backend: Backend,
    /// The device.
    pub name: String,
    /// Bytes of memory that it works in, where the system says.
    pub memory: Option<u64>,
    /// Why it is not used unless that changes.
    pub unusable: Option<String>,
    /// What it is and allows.
    pub facts: Vec<(&'static str, String)>,
    /// What the engine leaves to others on this device, and why.
    pub refusals: Vec<(String, &'static str)>,
}

/// Every engine that the project knows, with its devices. Opens graphics libraries, which takes time.
pub fn devices() -> Vec<DeviceInfo> {
    let mut all = vec![cpu()];
    for backend in Backend::known().filter(|b| *b != Backend::CPU) {
        let found = if backend == crate::gpu::GPU { gpus() } else { Vec::new() };
        match found.is_empty() {
            true => all.push(absent(backend)),
            false => all.extend(found),
        }
    }
    all
}

fn cpu() -> DeviceInfo {
    let isas: Vec<_> = Isa::available().iter().rev().map(|isa| isa.name()).collect();
    DeviceInfo {
        backend: Backend::CPU,
        name: std::env::consts::ARCH.into(),
        memory: Available::now(None).map(|a| a.bytes as u64),
        unusable: None,
        facts: vec![("instruction sets", isas.join(", ")), ("threads", default_n_threads().to_string())],
        refusals: Vec::new(),
    }
}

fn absent(backend: Backend) -> DeviceInfo {
    let in_build = cfg!(feature = "gpu") && backend == crate::gpu::GPU;
    let reason = match in_build {
        true => "no adapter was found: it needs a driver".into(),
        false => format!("not in this build: {}", backend.how_to_get()),
    };
    DeviceInfo {
        backend,
        name: "-".into(),
        memory: None,
        unusable: Some(reason),
        facts: Vec::new(),
        refusals: Vec::new(),
    }
}

#[cfg(not(feature = "gpu"))]
fn gpus() -> Vec<DeviceInfo> {
    Vec::new()
}

#[cfg(feature = "gpu")]
fn gpus() -> Vec<DeviceInfo> {
    use crate::memory::size;
    use minfer_wgpu::DeviceKind;
    let describe = |a: minfer_wgpu::Adapter| {
        let software = a.kind == DeviceKind::Software;
        let by_name = software.then(|| "software: used if --device names it".to_owned());
        let (small, large) = a.subgroup_sizes;
        DeviceInfo {
            backend: crate::gpu::GPU,
            memory: a.memory,
            unusable: a.unfit.or(by_name),
            facts: vec![
                ("kind", a.kind.name().into()),
                ("driver", a.driver),
                ("threads in step", format!("{small} to {large}")),
                (
                    "weights of a mapped file",
                    match a.in_place {
                        Ok(bytes) => format!("read in place, in multiples of {} KiB", bytes >> 10),
                        Err(reason) => format!("copied, {reason}"),
                    },
                ),
                ("most memory of one operand", size(a.max_binding_bytes as usize)),
                ("most memory of one buffer", size(a.max_buffer_bytes as usize)),
            ],
            refusals: minfer_wgpu::refusals(),
            name: a.name,
        }
    };
    minfer_wgpu::adapters().into_iter().map(describe).collect()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn every_engine_is_listed_and_says_why_it_is_not_there() {
        let all = devices();
        for backend in Backend::known() {
            assert!(all.iter().any(|d| d.backend == backend), "{backend}");
        }
        assert_eq!((all[0].backend, &all[0].unusable), (Backend::CPU, &None));
        let cuda = all.iter().find(|d| d.backend == Backend::CUDA).unwrap();
        assert!(cuda.unusable.as_deref().unwrap().contains("not in this build"));
    }
}
