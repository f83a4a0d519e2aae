//! Products of every weight type in odd sizes, against sums in f64 over dequantized weights; and the promise that a result
//! does not depend on how many columns are multiplied together.

#![allow(clippy::unwrap_used, reason = "a test may panic")]

mod common;

use std::sync::Arc;

use common::{Random, params, random_blocks};
use minfer_gguf::{TensorType, dequantize};
use minfer_graph::testing::MapWeights;
use minfer_graph::{
    BackendDriver, BuildError, ComputeGraph, DType, GraphBuilder, GraphParams, InputData, KvType, Op, Policy,
    PreparedHook, Registry, Scheduler, WeightRef,
};
use minfer_wgpu::Faults;

/// Each of the k products is rounded once when it is added (fused) or twice, and sums of 8, then 4, then 4, then k/128
/// numbers build up: the error stays below this share of the sum of magnitudes.
const SUM_TOLERANCE: f64 = 4e-6;

/// Columns at once: one, the most that the kernel for few columns takes and fewer, the fewest that the tile takes and more.
const COLUMNS: [usize; 7] = [1, 2, 7, 8, 9, 33, 64];

struct Case {
    w: WeightRef,
    weights: MapWeights,
    values: Vec<f32>,
}

impl Case {
    fn new(dtype: TensorType, k: usize, rows: usize, version: u64) -> Case {
        let mut random = Random::new(version);
        let bytes = random_blocks(dtype, k * rows, &mut random);
        let mut values = vec![0.0; k * rows];
        dequantize(dtype, &bytes, &mut values).unwrap();
        assert!(values.iter().all(|v| v.is_finite()));
        let mut weights = MapWeights::new(version);
        let w = weights.add_raw("w", dtype, [k, rows, 1, 1], bytes);
        Case { w, weights, values }
    }

    fn run(&self, driver: &Arc<dyn BackendDriver>, x: &[f32]) -> Vec<f32> {
        self.step(driver, x, None)
    }

    fn step(&self, driver: &Arc<dyn BackendDriver>, x: &[f32], hook: Option<PreparedHook>) -> Vec<f32> {
        let [k, rows, ..] = self.w.shape;
        let n = x.len() / k;
        let w = self.w.clone();
        let source = move |_: &GraphParams, _: &Policy<'_>| -> Result<ComputeGraph, BuildError> {
            let mut b = GraphBuilder::new();
            let x = b.input("x", [k, n, 1, 1], DType::F32);
            let out = b.matmul("product", x, &w);
            b.output(out);
            b.finish()
        };
        let mut registry = Registry::new();
        registry.register(driver.clone());
        let mut scheduler = Scheduler::new(registry, Arc::new(self.weights.clone()), Vec::new());
        if let Some(hook) = hook {
            scheduler.on_prepared(hook);
        }
        let mut out = vec![0.0; rows * n];
        let params = params(n, KvType::F32, 1);
        scheduler.step(&source, &params, &[("x", InputData::F32(x))], &mut out, None).unwrap();
        out
    }

    /// The product and the sum of magnitudes of one element.
    fn exact(&self, x: &[f32], row: usize) -> (f64, f64) {
        let k = self.w.shape[0];
        let terms = self.values[row * k..][..k].iter().zip(x).map(|(w, x)| f64::from(*w) * f64::from(*x));
        terms.fold((0.0, 0.0), |(sum, size), t| (sum + t, size + t.abs()))
    }
}

fn sizes(dtype: TensorType) -> Vec<(usize, usize)> {
    match dtype.block_elems() {
        1 => vec![(1, 1), (33, 70), (1100, 9), (4225, 3)],
        32 => vec![(96, 70), (1120, 9), (4256, 3)],
        _ => vec![(256, 1), (1280, 65), (4352, 3)],
    }
}

#[test]
fn products_agree_with_the_reference_in_every_type_and_odd_sizes() {
    let Some(driver) = common::dyn_driver() else { return };
    let without_subgroups = common::dyn_driver_with(Faults { no_subgroups: true, ..Faults::default() });
    let mut failures = Vec::new();
    let mut n_types = 0;
    for dtype in TensorType::all().filter(|t| driver.supports_op(&Op::MatMul, *t).is_yes()) {
        n_types += 1;
        for (i, (k, rows)) in sizes(dtype).into_iter().enumerate() {
            let case = Case::new(dtype, k, rows, ((dtype as u64) << 8) | i as u64);
            let x = Random::new(7).units(k * COLUMNS[COLUMNS.len() - 1]);
            let all = case.run(&driver, &x);
            check(&case, &x, &all, &mut failures);
            for n in COLUMNS {
                if bits(&case.run(&driver, &x[..k * n])) != bits(&all[..rows * n]) {
                    failures.push(format!("{dtype} {k} x {rows}: other bits with {n} columns"));
                }
            }
            for n in [1, 5] {
                let Some(driver) = &without_subgroups else { continue };
                if bits(&case.run(driver, &x[..k * n])) != bits(&all[..rows * n]) {
                    failures.push(format!("{dtype} {k} x {rows}: other bits without subgroups, {n} columns"));
                }
            }
        }
    }
    assert!(failures.is_empty(), "{}", failures.join("\n"));
    assert_eq!(n_types, 16);
}

fn bits(values: &[f32]) -> Vec<u32> {
    values.iter().map(|v| v.to_bits()).collect()
}

fn check(case: &Case, x: &[f32], out: &[f32], failures: &mut Vec<String>) {
    let [k, rows, ..] = case.w.shape;
    assert!(out.iter().any(|v| v.abs() > 1e-3), "the results are all near zero");
    for (i, got) in out.iter().enumerate() {
        let (sum, size) = case.exact(&x[i / rows * k..][..k], i % rows);
        let off = (f64::from(*got) - sum).abs();
        if off.is_nan() || off > SUM_TOLERANCE * size {
            let dtype = case.w.dtype;
            failures.push(format!("{dtype} {k} x {rows} at {i}: {got}, expected {sum} (magnitudes {size})"));
            return;
        }
    }
}

#[test]
fn the_number_of_columns_decides_which_kernel_runs() {
    let Some(driver) = common::dyn_driver() else { return };
    let case = Case::new(TensorType::Q4_K, 512, 70, 5);
    for (n, expected) in [
        (1, "q4_k-matmul-l4-c1"),
        (2, "q4_k-matmul-l4-c2"),
        (8, "q4_k-matmul-l4-c4"),
        (9, "q4_k-matmul-tile"),
    ] {
        let (used, hook) = common::kernels();
        case.step(&driver, &Random::new(7).units(512 * n), Some(hook));
        assert_eq!(used.lock().unwrap()[..], [expected.to_owned()], "{n} columns");
    }
}

#[test]
fn the_same_holds_at_other_subgroup_widths() {
    common::at_other_widths("products_agree_with_the_reference_in_every_type_and_odd_sizes");
}
