//! Products may read the same activations whatever the types of their weights, in one step or in several.

#![allow(clippy::unwrap_used, reason = "a test may panic")]

use std::sync::Arc;

use minfer_cpu::{CpuDriver, CpuOptions};
use minfer_gguf::TensorType::{self, F16, Q2_K, Q4_0, Q4_K, Q5_0, Q6_K, Q8_0};
use minfer_graph::testing::MapWeights;
use minfer_graph::{
    BackendSet, CParams, DType, GraphBuilder, GraphParams, GraphType, Head, InputData, KvType, NodeId,
    Policy, QkvDims, Registry, Scheduler, WeightRef,
};

const K: usize = 256;
const ROWS: usize = 40;
const N: usize = 3;

fn params() -> GraphParams {
    let cparams = CParams {
        n_ctx: 64,
        n_seq_max: 3,
        kv_block: 32,
        n_kv_blocks: 2,
        kv_type: KvType::F32,
        backends: BackendSet::all(),
        gpu: None,
        fuse_qkv: false,
        fuse_ffn: false,
    };
    let (head, gtype) = (Head::Logits, GraphType::Prefill);
    GraphParams { n_tokens: N, n_out: N, head, gtype, cparams, weights_version: 1 }
}

/// Runs a graph of one value and a matrix of each of these types.
fn run(types: &[TensorType], nodes: impl Fn(&mut GraphBuilder, NodeId, &[WeightRef]) -> NodeId) -> Vec<f32> {
    let mut weights = MapWeights::new(1);
    let matrices = types.iter().enumerate().map(|(i, &dtype)| {
        // Such bytes are finite in every type, and differ from row to row and from matrix to matrix.
        let n_bytes = dtype.row_bytes(K).unwrap() * ROWS;
        let bytes = (0..n_bytes).map(|at| 0x38 + ((at + at / 61 + i) % 7) as u8).collect();
        weights.add_raw(&format!("{i} {}", dtype.name()), dtype, [K, ROWS, 1, 1], bytes)
    });
    let matrices: Vec<_> = matrices.collect();
    let source = |_: &GraphParams, _: &Policy<'_>| {
        let mut b = GraphBuilder::new();
        let x = b.input("x", [K, N, 1, 1], DType::F32);
        let out = nodes(&mut b, x, &matrices);
        b.output(out);
        b.finish()
    };
    let mut registry = Registry::new();
    let options = CpuOptions { n_threads: Some(2), ..CpuOptions::default() };
    registry.register(Arc::new(CpuDriver::new(&options).unwrap()));
    let mut scheduler = Scheduler::new(registry, Arc::new(weights.clone()), vec![]);
    let x: Vec<f32> = (0..N * K).map(|i| (i * 37 % 101) as f32 / 40.0 - 1.0).collect();
    let graph = source(&params(), &Policy::new(&Registry::new(), &params().cparams)).unwrap();
    let mut out = vec![0.0; graph.node(graph.outputs[0]).n_elems()];
    scheduler.step(&source, &params(), &[("x", InputData::F32(&x))], &mut out, None).unwrap();
    assert!(out.iter().all(|v| v.is_finite()) && out.iter().any(|v| *v != 0.0));
    out
}

/// The product with one of the matrices of [`run`], and nothing else.
fn product(types: &[TensorType], i: usize) -> Vec<f32> {
    run(types, |b, x, w| b.matmul("product", x, &w[i]))
}

#[test]
fn matrices_of_any_types_read_the_same_value_one_after_the_other() {
    // Integer sums are corrected in three ways and not at all; the last list has more forms than are kept at a time.
    for types in [&[Q4_0, Q6_K][..], &[F16, Q8_0, Q4_K], &[Q4_0, Q8_0, Q5_0, Q2_K, Q6_K, Q4_0]] {
        let sum = run(types, |b, x, w| {
            let first = b.matmul(&w[0].name, x, &w[0]);
            w[1..].iter().fold(first, |sum, w| {
                let product = b.matmul(&w.name, x, w);
                b.add(&format!("sum with {}", w.name), sum, product)
            })
        });
        let alone = (0..types.len()).map(|i| product(types, i));
        let expected = alone.reduce(|a, b| a.iter().zip(b).map(|(a, b)| a + b).collect()).unwrap();
        assert_eq!(sum, expected, "{types:?}");
    }
}

#[test]
fn one_step_multiplies_matrices_of_different_types() {
    for types in [[Q5_0, Q8_0, Q6_K], [Q4_K, F16, Q2_K], [Q8_0, Q8_0, Q4_0]] {
        let dims = QkvDims { q: ROWS, kv: ROWS };
        let fused = run(&types, |b, x, w| b.fused_qkv("qkv", x, [&w[0], &w[1], &w[2]], dims));
        let alone: Vec<_> = (0..3).map(|i| product(&types, i)).collect();
        let tokens = (0..N).flat_map(|t| alone.iter().flat_map(move |p| p[t * ROWS..][..ROWS].to_vec()));
        assert_eq!(fused, tokens.collect::<Vec<_>>(), "{types:?}");

        let fused = run(&types, |b, x, w| b.fused_ffn("ffn", x, &w[1], &w[2]));
        let apart = run(&types, |b, x, w| {
            let (gate, up) = (b.matmul("gate", x, &w[1]), b.matmul("up", x, &w[2]));
            let silu = b.silu("silu", gate);
            b.mul("product", silu, up)
        });
        assert_eq!(fused, apart, "{types:?}");
    }
}
