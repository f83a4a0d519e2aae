//! Every kernel this machine would use, against its scalar definition.
//!
//! Each op runs alone, in the forms and sizes in which kernels differ, on the backend under test and on the scalar CPU
//! backend. The CPU has to give the same bits; devices have to stay within [`DEVICE_TOLERANCE`] of what float weights give,
//! as a share of the largest value.

mod cases;
mod data;
mod first_use;
#[cfg(test)]
mod tests;
mod wanted;

use std::sync::Arc;

use minfer_cpu::isa::Isa;
use minfer_cpu::threads::default_n_threads;
use minfer_cpu::{CpuDriver, CpuOptions};
use minfer_gguf::TensorType;
use minfer_graph::{
    Backend, BackendDriver, CParams, CompileError, GpuOffload, GraphParams, InputData, KernelFault,
    NamedInput, OpKind, Policy, Registry, Scheduler, StepError, Support, kernel_dtypes,
};

use crate::backends::GpuRequest;
use crate::error::EngineError;
use crate::gpu;
use cases::{Case, Given};
pub(crate) use first_use::first_use;
use wanted::Wanted;

/// How far a device may be from the scalar definition, relative to the largest value: it may keep activations and sums in
/// other precisions.
pub const DEVICE_TOLERANCE: f32 = 0.02;

/// How a kernel did.
#[derive(Clone, Debug, PartialEq)]
pub enum Outcome {
    /// Every case is as it has to be.
    Passed,
    /// Some cases are not: how many, and what the first one is and shows.
    Failed {
        /// Cases that failed.
        n_cases: usize,
        /// The first of them.
        first: String,
    },
    /// The backend leaves it to another one, for this reason.
    NotClaimed(&'static str),
}

/// One op and type on one backend.
#[derive(Clone, Debug, PartialEq)]
pub struct KernelResult {
    /// The backend and its level: `cpu avx512`.
    pub device: String,
    /// Name of the op.
    pub op: &'static str,
    /// The type of the weight, or of the cache.
    pub dtype: TensorType,
    /// Cases run.
    pub n_cases: usize,
    /// Numbers compared.
    pub n_numbers: usize,
    /// How it did.
    pub outcome: Outcome,
}

/// A driver under test.
struct Device {
    name: String,
    driver: Arc<dyn BackendDriver>,
}

impl Device {
    fn registry(&self) -> Registry {
        let mut registry = Registry::new();
        registry.register(self.driver.clone());
        registry
    }

    /// The settings of a case, with everything on this device.
    fn cparams(&self, case: &Case) -> CParams {
        let backend = self.driver.backend();
        let all = GpuOffload { backend, n_layers: usize::MAX, outside_layers: true };
        CParams { gpu: (backend != Backend::CPU).then_some(all), ..case.params.cparams }
    }
}

/// Tests every backend and level of this machine; `progress` sees cases done and all. A GPU is tested if the machine shows
/// one, or the device whose name has `device` in it.
pub fn selftest(
    device: Option<&str>,
    progress: &mut dyn FnMut(usize, usize),
) -> Result<Vec<KernelResult>, EngineError> {
    let mut devices = Vec::new();
    // The best level first: it is what runs.
    for isa in Isa::available().into_iter().rev() {
        devices.push(Device {
            name: format!("cpu {}", isa.name()),
            driver: Arc::new(cpu(isa, default_n_threads())?),
        });
    }
    devices.extend(gpu_under_test(device)?);
    test(&devices, &Wanted { kernel: &|_, _| true, quick: false }, progress)
}

fn gpu_under_test(device: Option<&str>) -> Result<Option<Device>, EngineError> {
    let backend = gpu::GPU;
    if device.is_none() && !gpu::may_be_there() {
        return Ok(None);
    }
    let mut registry = Registry::new();
    let wish = gpu::GpuWish::Needed;
    gpu::register(&mut registry, GpuRequest { wish, device, cache: None, import: true });
    if device.is_some() {
        registry.request(backend.name())?;
    }
    let driver = registry.driver(backend).cloned();
    Ok(driver.map(|driver| Device { name: format!("{} {}", backend.name(), driver.describe()), driver }))
}

fn cpu(isa: Isa, n_threads: usize) -> Result<CpuDriver, EngineError> {
    Ok(CpuDriver::new(&CpuOptions {
        n_threads: Some(n_threads),
        isa: Some(isa.name().into()),
        ..CpuOptions::default()
    })?)
}

fn test(
    devices: &[Device],
    wanted: &Wanted<'_>,
    progress: &mut dyn FnMut(usize, usize),
) -> Result<Vec<KernelResult>, EngineError> {
    let scalar = Device { name: "cpu scalar".into(), driver: Arc::new(cpu(Isa::Scalar, 1)?) };
    let cases = wanted::of(wanted).map_err(|e| EngineError::from(StepError::from(CompileError::from(e))))?;
    let total = cases.len();
    let mut results: Vec<KernelResult> = Vec::new();
    for (done, case) in cases.into_iter().enumerate() {
        let case = Arc::new(case);
        // Of the CPU to the bit, of devices over float weights.
        let (mut same, mut plain) = (None, None);
        for device in devices {
            let row = row_of(&mut results, device, &case);
            if let Some(reason) = refusal(device, &case) {
                row.outcome = Outcome::NotClaimed(reason);
                continue;
            }
            // Of the best of equal numbers there is nothing to round.
            let exact = device.driver.backend() == Backend::CPU || case.kind == OpKind::Argmax;
            let expected = if exact { &mut same } else { &mut plain };
            let wanted: &Vec<f32> = match expected {
                Some(wanted) => wanted,
                None if exact => expected.insert(run(&case, &scalar)?),
                None => expected.insert(run(&plain_of(&case)?, &scalar)?),
            };
            row.n_cases += 1;
            row.n_numbers += wanted.len();
            let fault = match run(&case, device) {
                Ok(found) => complaint(&found, wanted, exact),
                Err(error) => Some(error.to_string()),
            };
            if let Some(fault) = fault {
                row.fail(format!("{}: {fault}", case.form));
            }
        }
        progress(done + 1, total);
    }
    results.sort_by_key(|r| devices.iter().position(|d| d.name == r.device));
    Ok(results)
}

fn plain_of(case: &Case) -> Result<Arc<Case>, EngineError> {
    let plain = case.plain().map_err(|e| StepError::from(KernelFault::Bug(e.to_string())))?;
    Ok(Arc::new(plain))
}

impl KernelResult {
    fn fail(&mut self, what: String) {
        self.outcome = match std::mem::replace(&mut self.outcome, Outcome::Passed) {
            Outcome::Failed { n_cases, first } => Outcome::Failed { n_cases: n_cases + 1, first },
            _ => Outcome::Failed { n_cases: 1, first: what },
        };
    }
}

fn row_of<'a>(results: &'a mut Vec<KernelResult>, device: &Device, case: &Case) -> &'a mut KernelResult {
    let is_it =
        |r: &KernelResult| r.device == device.name && r.op == case.kind.name() && r.dtype == case.dtype;
    let at = results.iter().position(is_it).unwrap_or(results.len());
    if at == results.len() {
        results.push(KernelResult {
            device: device.name.clone(),
            op: case.kind.name(),
            dtype: case.dtype,
            n_cases: 0,
            n_numbers: 0,
            outcome: Outcome::Passed,
        });
    }
    &mut results[at]
}

/// Why the driver does not run the case, if it does not: asked as assignment and fusion ask.
fn refusal(device: &Device, case: &Case) -> Option<&'static str> {
    if case.kind.is_fused()
        && let Support::No(reason) = device.driver.supports_fused(case.kind)
    {
        return Some(reason);
    }
    let (registry, cparams) = (device.registry(), device.cparams(case));
    let policy = Policy::new(&registry, &cparams);
    case.graph.nodes.iter().find_map(|node| {
        let dtypes = kernel_dtypes(node, cparams.kv_type);
        let (owner, refusals) = policy.choose(&node.op, &dtypes, node.layer);
        match owner {
            Some(_) => None,
            None => Some(refusals.first().map_or("nobody was asked", |(_, reason)| *reason)),
        }
    })
}

fn run(case: &Arc<Case>, device: &Device) -> Result<Vec<f32>, EngineError> {
    let mut scheduler = Scheduler::new(device.registry(), case.clone(), case.kv.clone());
    let params = GraphParams { cparams: device.cparams(case), ..case.params };
    let source = |_: &GraphParams, _: &Policy<'_>| Ok(case.graph.clone());
    let inputs: Vec<NamedInput<'_>> = case
        .inputs
        .iter()
        .map(|(name, given)| match given {
            Given::I32(values) => (*name, InputData::I32(values)),
            Given::F32(values) => (*name, InputData::F32(values)),
        })
        .collect();
    let n = case.graph.outputs.first().map_or(0, |id| case.graph.node(*id).n_elems());
    let mut out = vec![0.0; n];
    scheduler.step(&source, &params, &inputs, &mut out, None)?;
    Ok(out)
}

/// What is wrong with a result, if anything is.
fn complaint(found: &[f32], wanted: &[f32], exact: bool) -> Option<String> {
    let largest = wanted.iter().fold(0.0f32, |m, x| m.max(x.abs()));
    let is_right = |a: f32, b: f32| match exact {
        true => a.to_bits() == b.to_bits(),
        false => (a - b).abs() <= DEVICE_TOLERANCE * largest,
    };
    let mut wrong = found.iter().zip(wanted).enumerate().filter(|(_, (a, b))| !is_right(**a, **b));
    let (at, (a, b)) = wrong.next()?;
    let n = 1 + wrong.count();
    Some(format!("{n} of {} numbers differ, the first at {at}: {a:e} for {b:e}", wanted.len()))
}
