//! Products that read the same activations share one quantization, whatever the types of their weights.

#![allow(clippy::unwrap_used, reason = "a test may panic")]

use std::sync::Arc;

use minfer_cpu::{CpuDriver, CpuOptions};
use minfer_gguf::TensorType::{self, F16, Q2_K, Q4_0, Q4_K, Q5_0, Q6_K, Q8_0};
use minfer_graph::testing::MapWeights;
use minfer_graph::{
    BackendSet, CParams, DType, GraphBuilder, GraphParams, GraphType, Head, InputData, KvType, Policy,
    Registry, Scheduler,
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
        fuse_qkv: true,
        fuse_ffn: true,
    };
    let (head, gtype) = (Head::Logits, GraphType::Prefill);
    GraphParams { n_tokens: N, n_out: N, head, gtype, cparams, weights_version: 1 }
}

/// The sum of the products of one value with matrices of these types, one node each.
fn sum_of_products(types: &[TensorType], driver: &Arc<CpuDriver>) -> Vec<f32> {
    let version = types.iter().fold(1, |version, &dtype| version * 64 + dtype as u64);
    let mut weights = MapWeights::new(version);
    let matrices = types.iter().map(|&dtype| {
        let bytes = vec![0x3f; dtype.row_bytes(K).unwrap() * ROWS];
        weights.add_raw(dtype.name(), dtype, [K, ROWS, 1, 1], bytes)
    });
    let matrices: Vec<_> = matrices.collect();
    let source = |_: &GraphParams, _: &Policy<'_>| {
        let mut b = GraphBuilder::new();
        let x = b.input("x", [K, N, 1, 1], DType::F32);
        let mut sum = b.matmul(&matrices[0].name, x, &matrices[0]);
        for w in &matrices[1..] {
            let product = b.matmul(&w.name, x, w);
            sum = b.add(&format!("sum with {}", w.name), sum, product);
        }
        b.output(sum);
        b.finish()
    };
    let mut registry = Registry::new();
    registry.register(driver.clone());
    let mut scheduler = Scheduler::new(registry, Arc::new(weights.clone()), vec![]);
    let x: Vec<f32> = (0..N * K).map(|i| (i * 37 % 101) as f32 / 40.0 - 1.0).collect();
    let mut out = vec![0.0; N * ROWS];
    scheduler.step(&source, &params(), &[("x", InputData::F32(&x))], &mut out, None).unwrap();
    out
}

#[test]
fn matrices_of_any_types_read_the_same_value() {
    let options = CpuOptions { n_threads: Some(2), ..CpuOptions::default() };
    let driver = Arc::new(CpuDriver::new(&options).unwrap());
    // Each of these corrects its sums in another way; the last list has more of them than are kept at a time.
    for types in [&[Q4_0, Q6_K][..], &[F16, Q8_0, Q4_K], &[Q4_0, Q8_0, Q5_0, Q2_K, Q6_K]] {
        let alone = types.iter().map(|&dtype| sum_of_products(&[dtype], &driver));
        let expected = alone.reduce(|a, b| a.iter().zip(b).map(|(a, b)| a + b).collect()).unwrap();
        assert_eq!(sum_of_products(types, &driver), expected, "{types:?}");
    }
}
