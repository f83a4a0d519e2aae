//! What a decode step multiplies side by side goes through one kernel where the types allow it, and the bits are those of the
//! ops alone.

#![allow(clippy::unwrap_used, reason = "a test may panic")]

mod common;

use std::sync::Arc;

use common::{Random, params, random_blocks};
use minfer_gguf::TensorType;
use minfer_graph::testing::MapWeights;
use minfer_graph::{
    BackendDriver, BuildError, ComputeGraph, DType, GraphBuilder, GraphParams, InputData, KvType, NodeId, Op,
    Policy, QkvDims, Registry, Scheduler, WeightRef,
};
use minfer_wgpu::Faults;

const K: usize = 768;
const DIMS: QkvDims = QkvDims { q: 96, kv: 32 };
const HIDDEN: usize = 83;
const HEAD: usize = 32;
const EPS: f32 = 1e-5;

/// Columns for one kernel, and more.
const COLUMNS: [usize; 4] = [1, 3, 8, 11];

struct Model {
    weights: Arc<MapWeights>,
    /// Query, key, value, gate, up, norm of queries, norm of keys.
    refs: Vec<WeightRef>,
}

impl Model {
    fn new(types: [TensorType; 5]) -> Model {
        let mut random = Random::new(types[0] as u64 + 1);
        let mut weights = MapWeights::new(1);
        let names = ["q", "k", "v", "gate", "up"];
        let rows = [DIMS.q, DIMS.kv, DIMS.kv, HIDDEN, HIDDEN];
        let mut refs = Vec::new();
        for ((name, rows), dtype) in names.into_iter().zip(rows).zip(types) {
            let bytes = random_blocks(dtype, K * rows, &mut random);
            refs.push(weights.add_raw(name, dtype, [K, rows, 1, 1], bytes));
        }
        for name in ["q_norm", "k_norm"] {
            refs.push(weights.add(name, [HEAD, 1, 1, 1], &random.units(HEAD)));
        }
        Model { weights: Arc::new(weights), refs }
    }

    /// The first output of a graph, and the kernels that made it.
    fn run(
        &self,
        driver: &Arc<dyn BackendDriver>,
        n: usize,
        rows: usize,
        describe: impl Fn(&mut GraphBuilder, NodeId, &[WeightRef]) -> NodeId,
    ) -> (Vec<u32>, Vec<String>) {
        let source = |_: &GraphParams, _: &Policy<'_>| -> Result<ComputeGraph, BuildError> {
            let mut b = GraphBuilder::new();
            let x = b.input("x", [K, n, 1, 1], DType::F32);
            let out = describe(&mut b, x, &self.refs);
            b.output(out);
            b.finish()
        };
        let mut registry = Registry::new();
        registry.register(driver.clone());
        let mut scheduler = Scheduler::new(registry, self.weights.clone(), Vec::new());
        let (used, hook) = common::kernels();
        scheduler.on_prepared(hook);
        let mut out = vec![0.0; rows * n];
        let x = Random::new(7).units(K * n);
        let inputs = [("x", InputData::F32(&x))];
        scheduler.step(&source, &params(n, KvType::F32, 1), &inputs, &mut out, None).unwrap();
        assert!(out.iter().any(|v| v.abs() > 1e-3), "the results are all near zero");
        let used = used.lock().unwrap().clone();
        (out.iter().map(|v| v.to_bits()).collect(), used)
    }

    /// Query, key and value, each alone, the first two normed if that is wanted.
    fn projections_alone(&self, driver: &Arc<dyn BackendDriver>, n: usize, norm: bool) -> Vec<u32> {
        let rows = [DIMS.q, DIMS.kv, DIMS.kv];
        let parts: Vec<_> = (0..3)
            .map(|i| {
                let describe = |b: &mut GraphBuilder, x: NodeId, w: &[WeightRef]| {
                    let out = b.matmul("out", x, &w[i]);
                    if norm && i < 2 { b.qk_norm("norm", out, &w[5 + i], EPS, HEAD) } else { out }
                };
                self.run(driver, n, rows[i], describe).0
            })
            .collect();
        let column = |c: usize| parts.iter().zip(rows).flat_map(move |(p, r)| p[c * r..(c + 1) * r].to_vec());
        (0..n).flat_map(column).collect()
    }

    fn check(&self, driver: &Arc<dyn BackendDriver>, n: usize) -> [Vec<String>; 3] {
        let what = format!("{} and {}, {n} columns", self.refs[0].dtype, self.refs[2].dtype);
        let fused = |b: &mut GraphBuilder, x: NodeId, w: &[WeightRef]| {
            b.fused_qkv("out", x, [&w[0], &w[1], &w[2]], DIMS)
        };
        let (qkv, qkv_kernels) = self.run(driver, n, DIMS.total(), fused);
        assert!(qkv == self.projections_alone(driver, n, false), "{what}: FusedQKV has other bits");
        let fused = |b: &mut GraphBuilder, x: NodeId, w: &[WeightRef]| {
            b.fused_qkv_norm("out", x, [&w[0], &w[1], &w[2], &w[5], &w[6]], DIMS, EPS, HEAD)
        };
        let (normed, normed_kernels) = self.run(driver, n, DIMS.total(), fused);
        assert!(normed == self.projections_alone(driver, n, true), "{what}: FusedQkvNorm has other bits");
        let fused = |b: &mut GraphBuilder, x: NodeId, w: &[WeightRef]| b.fused_ffn("out", x, &w[3], &w[4]);
        let (ffn, ffn_kernels) = self.run(driver, n, HIDDEN, fused);
        let alone = |b: &mut GraphBuilder, x: NodeId, w: &[WeightRef]| {
            let (gate, up) = (b.matmul("gate", x, &w[3]), b.matmul("up", x, &w[4]));
            let gate = b.silu("silu", gate);
            b.mul("out", gate, up)
        };
        assert!(ffn == self.run(driver, n, HIDDEN, alone).0, "{what}: FusedFFN has other bits");
        [qkv_kernels, normed_kernels, ffn_kernels]
    }
}

#[test]
fn fused_ops_have_the_bits_of_their_parts_in_every_type() {
    let Some(driver) = common::dyn_driver() else { return };
    let mut n_types = 0;
    for dtype in TensorType::all().filter(|t| driver.supports_op(&Op::FusedFfn, *t).is_yes()) {
        n_types += 1;
        let model = Model::new([dtype; 5]);
        for n in COLUMNS {
            let counts = model.check(&driver, n).map(|kernels| kernels.len());
            // One kernel; with the norms of all heads, two. Many columns go through tiles: one for each matrix.
            assert_eq!(counts, if n <= 8 { [1, 2, 1] } else { [3, 4, 3] }, "{dtype}, {n} columns");
        }
    }
    assert_eq!(n_types, 16);
}

#[test]
fn matrices_of_two_types_share_kernels_as_far_as_they_can() {
    use TensorType::{Q4_K, Q6_K};
    let Some(driver) = common::dyn_driver() else { return };
    let model = Model::new([Q4_K, Q4_K, Q6_K, Q4_K, Q6_K]);
    for n in COLUMNS {
        let counts = model.check(&driver, n).map(|kernels| kernels.len());
        assert_eq!(counts, if n <= 8 { [2, 3, 3] } else { [3, 4, 3] }, "{n} columns");
    }
}

#[test]
fn matrices_in_parts_have_the_same_bits() {
    let Some(driver) = common::dyn_driver_with(Faults { binding: Some(40 << 10), ..Faults::default() })
    else {
        return;
    };
    let model = Model::new([TensorType::Q8_0; 5]);
    for n in [1, 8] {
        let kernels = model.check(&driver, n);
        assert!(kernels[2].iter().any(|k| k.contains("matmul")), "{kernels:?}");
    }
}

#[test]
fn the_same_holds_at_other_subgroup_widths() {
    common::at_other_widths("fused_ops_have_the_bits_of_their_parts_in_every_type");
}
