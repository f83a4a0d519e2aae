//! What a bug report has to say about the machine and the program.

use std::fs;

use minfer_cpu::isa::Isa;
use minfer_cpu::{cpu_features, threads};
use serde::Serialize;

use crate::units;

/// Program, system and processor.
#[derive(Clone, Debug, Serialize)]
pub(crate) struct Machine {
    /// Of minfer.
    pub(crate) version: &'static str,
    /// What the program was built for.
    pub(crate) target: String,
    /// Whether it was built with debug assertions.
    pub(crate) debug_build: bool,
    /// Kernel or release of the operating system, where it can be read.
    pub(crate) system: String,
    /// What the processor calls itself.
    pub(crate) cpu: String,
    /// Its features that kernels could use.
    pub(crate) cpu_features: Vec<&'static str>,
    /// Instruction sets that minfer would use, best first.
    pub(crate) instruction_sets: Vec<&'static str>,
    /// Threads that minfer takes unless told otherwise.
    pub(crate) n_threads: usize,
    /// Bytes of memory.
    pub(crate) memory: Option<u64>,
}

impl Machine {
    pub(crate) fn look() -> Self {
        let isas = Isa::available().into_iter().rev();
        Self {
            version: env!("CARGO_PKG_VERSION"),
            target: format!("{}-{}", std::env::consts::ARCH, std::env::consts::OS),
            debug_build: cfg!(debug_assertions),
            system: system(),
            cpu: cpu_name(),
            cpu_features: cpu_features(),
            instruction_sets: isas.map(Isa::name).collect(),
            n_threads: threads::default_n_threads(),
            memory: memory(),
        }
    }

    /// One fact a line.
    pub(crate) fn lines(&self) -> Vec<String> {
        let build = if self.debug_build { ", debug build" } else { "" };
        let memory = self.memory.map_or("unknown".into(), |bytes| units::memory(bytes as usize));
        vec![
            format!("minfer {} for {}{build}", self.version, self.target),
            format!("system   {}", self.system),
            format!("cpu      {}", self.cpu),
            format!("features {}", self.cpu_features.join(" ")),
            format!("levels   {}", self.instruction_sets.join(" ")),
            format!("threads  {}, memory {memory}", self.n_threads),
        ]
    }
}

fn system() -> String {
    let release = fs::read_to_string("/proc/sys/kernel/osrelease").ok();
    let name = fs::read_to_string("/etc/os-release").ok().and_then(|text| {
        let line = text.lines().find_map(|line| line.strip_prefix("PRETTY_NAME="))?;
        Some(line.trim_matches('"').to_owned())
    });
    let parts = [name, release.map(|r| format!("{} {}", std::env::consts::OS, r.trim()))];
    let known: Vec<_> = parts.into_iter().flatten().collect();
    if known.is_empty() { std::env::consts::OS.to_owned() } else { known.join(", ") }
}

/// What the processor calls itself, where the system tells; else nothing.
pub(crate) fn cpu_name() -> String {
    let info = fs::read_to_string("/proc/cpuinfo").unwrap_or_default();
    let name = info.lines().find_map(|line| line.strip_prefix("model name")?.split_once(':'));
    name.map(|(_, name)| name.trim().to_owned()).unwrap_or_default()
}

fn memory() -> Option<u64> {
    let text = fs::read_to_string("/proc/meminfo").ok()?;
    let line = text.lines().find_map(|line| line.strip_prefix("MemTotal:"))?;
    line.split_whitespace().next()?.parse::<u64>().ok()?.checked_mul(1024)
}
