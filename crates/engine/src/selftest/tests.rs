//! The test tests: it passes good kernels and finds a bad one.

use std::sync::Arc;

use minfer_cpu::isa::Isa;
use minfer_gguf::TensorType;
use minfer_graph::testing::{ReferenceDriver, TamperedDriver};
use minfer_graph::{Backend, OpKind};

use super::{Device, KernelResult, Outcome, Wanted, cpu, selftest, test};

const ALL: Wanted<'static> = Wanted { kernel: &|_, _| true, quick: false };

#[test]
fn every_kernel_of_this_machine_passes() {
    let mut last = (0, 0);
    let results = selftest(None, &mut |done, total| last = (done, total)).unwrap();
    assert_eq!(last.0, last.1);
    let failed: Vec<_> = results.iter().filter(|r| matches!(r.outcome, Outcome::Failed { .. })).collect();
    assert!(failed.is_empty(), "{failed:#?}");
    let levels = Isa::available().len();
    let of = |op: &str, dtype| -> Vec<&KernelResult> {
        results.iter().filter(|r| r.op == op && r.dtype == dtype).collect()
    };
    for dtype in [TensorType::Q4_K, TensorType::Q8_0, TensorType::MXFP4, TensorType::F16] {
        let rows = of("MatMul", dtype);
        assert_eq!(rows.len(), levels, "{dtype}");
        assert!(rows.iter().all(|r| r.outcome == Outcome::Passed && r.n_cases == 8 && r.n_numbers > 5000));
    }
    assert!(matches!(of("MatMul", TensorType::IQ1_S)[0].outcome, Outcome::NotClaimed(_)));
    // Views and handles compute nothing; the store of keys and values is seen through attention.
    let quiet = [OpKind::Input, OpKind::View, OpKind::Reshape, OpKind::KvcacheLoad, OpKind::KvcacheStore];
    for kind in OpKind::all().filter(|kind| !quiet.contains(kind)) {
        let ran = |r: &&KernelResult| r.op == kind.name() && r.outcome == Outcome::Passed && r.n_numbers > 0;
        assert!(results.iter().any(|r| ran(&r)), "{} was not tested", kind.name());
    }
}

#[test]
fn a_changed_kernel_fails_every_op_that_has_it() {
    let inner = Arc::new(cpu(Isa::detect(), 1).unwrap());
    let driver = Arc::new(TamperedDriver::new(inner, "op", 0, 0));
    let results = test(&[Device { name: "changed".into(), driver }], &ALL, &mut |_, _| {}).unwrap();
    for row in results.iter().filter(|r| !matches!(r.outcome, Outcome::NotClaimed(_))) {
        let Outcome::Failed { n_cases, first } = &row.outcome else { panic!("{row:?}") };
        assert_eq!(*n_cases, row.n_cases, "{row:?}");
        assert!(first.contains(": 1 of ") && first.contains(" differ, the first at 0: "), "{first}");
    }
}

#[test]
fn a_device_is_held_to_a_tolerance() {
    let device = |driver| [Device { name: "device".into(), driver }];
    let reference = || Arc::new(ReferenceDriver::new(Backend::METAL));
    let failed = |results: &[KernelResult]| -> Vec<&'static str> {
        results.iter().filter(|r| matches!(r.outcome, Outcome::Failed { .. })).map(|r| r.op).collect()
    };
    let results = test(&device(reference()), &ALL, &mut |_, _| {}).unwrap();
    // The plain loops of this driver know no stretched frequencies, and are found out.
    assert_eq!(failed(&results), ["RoPE"]);
    // The sign of the first number.
    let changed = Arc::new(TamperedDriver::new(reference(), "op", 0, 31));
    assert!(failed(&test(&device(changed), &ALL, &mut |_, _| {}).unwrap()).contains(&"RmsNorm"));
}

#[cfg(feature = "gpu")]
#[test]
fn a_device_with_a_bad_kernel_is_not_used() {
    use minfer_graph::{BackendDriver, GpuOffload, GraphParams, GraphType, Head, Registry, compile};
    use minfer_wgpu::{Faults, WgpuDriver, WgpuOptions, adapters};

    let Some(device) = adapters().first().map(|a| a.name.clone()) else { return };
    let model = crate::Model::load("../../tests/data/llama-q4_1.gguf".as_ref(), &Default::default()).unwrap();
    let first_use = |tamper| {
        let faults = Faults { tamper, ..Faults::default() };
        let options = WgpuOptions { device: Some(device.clone()), faults, ..Default::default() };
        let driver: Arc<dyn BackendDriver> = Arc::new(WgpuDriver::open(&options).unwrap());
        let mut registry = Registry::new();
        registry.register(driver.clone());
        let mut cparams = crate::params::ContextParams::default().cparams(64, registry.available());
        let backend = driver.backend();
        cparams.gpu = Some(GpuOffload { backend, n_layers: usize::MAX, outside_layers: true });
        let gtype = GraphType::Decode;
        let params =
            GraphParams { n_tokens: 1, n_out: 1, head: Head::Logits, gtype, cparams, weights_version: 1 };
        let graph = compile(model.description(), &params, &registry, &mut |_, _| {}).unwrap();
        super::first_use(&driver, &[graph])
    };
    // The kernel of decode steps, and that of prompts.
    for (kernel, from, to) in [
        ("-matmul-l", "total += parts", "total -= parts"),
        ("-matmul-tile", "totals[e] += left[e]", "totals[e] -= left[e]"),
    ] {
        let error = first_use(Some((kernel, from, to))).unwrap_err().to_string();
        assert!(
            error.contains("fails its self-test: MatMul of ") && error.contains(" numbers differ"),
            "{kernel}: {error}"
        );
    }
    let error = first_use(Some(("rms_norm", "+ p.eps", "+ 9.0"))).unwrap_err().to_string();
    assert!(error.contains("fails its self-test: RmsNorm of F32"), "{error}");
    first_use(None).unwrap();
}
