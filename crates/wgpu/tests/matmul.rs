//! Products of every weight type in odd sizes, against sums in f64 over dequantized weights; and the promise that a result
//! does not depend on how many columns are multiplied together.

#![allow(clippy::unwrap_used, reason = "a test may panic")]

mod common;

use std::sync::Arc;

use common::{Random, params};
use minfer_gguf::{TensorType, can_quantize, dequantize, quantize, scale_offsets};
use minfer_graph::testing::MapWeights;
use minfer_graph::{
    BackendDriver, BuildError, ComputeGraph, DType, GraphBuilder, GraphParams, InputData, KvType, Op, Policy,
    Registry, Scheduler, WeightRef,
};

/// Each of the k products is rounded once when it is added (fused) or twice, and sums of up to 32 + k/128 numbers build up
/// one after the other: the error stays below this share of the sum of magnitudes.
const SUM_TOLERANCE: f64 = 4e-6;

/// Columns at once: one, part of a tile, a tile, more.
const COLUMNS: [usize; 5] = [1, 2, 5, 8, 9];

/// Blocks of random bits with scales that are finite and small.
fn random_blocks(dtype: TensorType, n_elems: usize, random: &mut Random) -> Vec<u8> {
    let mut bytes = vec![0; dtype.row_bytes(n_elems).unwrap()];
    if can_quantize(dtype) {
        quantize(dtype, &random.units(n_elems), &mut bytes).unwrap();
        return bytes;
    }
    bytes.iter_mut().for_each(|b| *b = random.bits() as u8);
    for block in bytes.chunks_exact_mut(dtype.block_bytes()) {
        for at in scale_offsets(dtype).unwrap_or(&[]) {
            // A half between 2^-7 and 2^-5.
            let half = 0x2000 + (random.bits() as u16 & 0x07ff);
            block[*at..at + 2].copy_from_slice(&half.to_le_bytes());
        }
        if dtype == TensorType::MXFP4 {
            block[0] = 120 + (random.bits() % 8) as u8;
        }
    }
    bytes
}

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
        1 => vec![(1, 1), (33, 70), (1100, 9)],
        32 => vec![(96, 70), (1120, 9)],
        _ => vec![(256, 1), (1280, 17)],
    }
}

#[test]
fn products_agree_with_the_reference_in_every_type_and_odd_sizes() {
    let Some(driver) = common::dyn_driver() else { return };
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
                if case.run(&driver, &x[..k * n]) != all[..rows * n] {
                    failures.push(format!("{dtype} {k} x {rows}: other bits with {n} columns"));
                }
            }
        }
    }
    assert!(failures.is_empty(), "{}", failures.join("\n"));
    assert_eq!(n_types, 16);
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
fn the_same_holds_at_other_subgroup_widths() {
    common::at_other_widths("products_agree_with_the_reference_in_every_type_and_odd_sizes");
}
