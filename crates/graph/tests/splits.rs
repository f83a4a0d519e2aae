//! Splits, copies between backends, faults, observers.

#![allow(clippy::unwrap_used, reason = "a test may panic")]

mod common;

use std::sync::Arc;

use common::*;
use minfer_graph::testing::{MapWeights, NullDriver};
use minfer_graph::{
    AttnSpec, Backend, DType, GraphBuilder, GraphParams, GraphType, InputData, KvPart, KvType, Node,
    Observer, OpKind, Policy, QkvDims, Registry, RopeScaling, RopeSpec, RopeStyle, Scheduler, StepError,
    WeightRef, compile, export,
};

#[test]
fn split_on_backend_change() {
    let c = compiled(&null_registry(&[OpKind::Silu]), |b, x| {
        let y = b.scale("y", x, 2.0);
        let z = b.scale("z", y, 2.0);
        let s = b.silu("s", z);
        let t = b.silu("t", s);
        b.add("sum", t, y)
    });
    let map: Vec<_> = c.splits.iter().map(|s| (s.backend, s.nodes.len(), s.copies.clone())).collect();
    let id = |name: &str| c.graph.by_name(name).unwrap().id;
    assert_eq!(
        map,
        [
            (Backend::METAL, 2, vec![]),
            (Backend::CPU, 2, vec![id("0.z")]),
            (Backend::METAL, 1, vec![id("0.t")]),
        ]
    );
}

#[test]
fn a_value_is_copied_once_for_each_backend() {
    let c = compiled(&null_registry(&[OpKind::Silu]), |b, x| {
        let y = b.scale("y", x, 2.0);
        let s = b.silu("s", y);
        let a = b.add("a", s, y);
        let t = b.silu("t", y);
        b.add("sum", t, a)
    });
    let y = c.graph.by_name("0.y").unwrap().id;
    assert_eq!(c.splits.iter().filter(|s| s.copies.contains(&y)).count(), 1);
}

struct Seen(Vec<(String, usize)>);

impl Observer for Seen {
    fn wants(&self, node: &Node) -> bool {
        !node.name.ends_with("skip")
    }

    fn value(&mut self, node: &Node, bytes: &[u8]) {
        self.0.push((node.name.to_string(), bytes.len()));
    }
}

#[test]
fn an_observer_sees_the_values_it_wants_and_changes_nothing() {
    let source = build_with(|b, x| {
        let y = b.scale("skip", x, 2.0);
        b.silu("silu", y)
    });
    let mut s = Scheduler::new(reference_registry(&[]), no_weights(), vec![]);
    let x = vec![0.3; 2 * D];
    let (mut plain, mut observed) = (vec![0.0; 2 * D], vec![0.0; 2 * D]);
    let inputs = [("x", InputData::F32(&x))];
    s.step(&source, &params(2), &inputs, &mut plain, None).unwrap();
    let mut seen = Seen(vec![]);
    s.step(&source, &params(2), &inputs, &mut observed, Some(&mut seen)).unwrap();
    assert_eq!(plain, observed);
    assert_eq!(seen.0, [("0.silu".to_string(), 2 * D * 4)]);
    assert_eq!(s.counters().built, 1);
}

#[test]
fn a_profile_counts_every_node_run() {
    let mut s = Scheduler::new(reference_registry(&[]), no_weights(), vec![]);
    s.enable_profile();
    let x = vec![0.3; 2 * D];
    let mut out = vec![0.0; 2 * D];
    for _ in 0..3 {
        s.step(&build_with(silu_mul), &params(2), &[("x", InputData::F32(&x))], &mut out, None).unwrap();
    }
    let rows: Vec<_> = s.profile().unwrap().rows().map(|(op, _, _, t)| (op, t.count)).collect();
    assert_eq!(rows, [(OpKind::Add, 3), (OpKind::Scale, 3), (OpKind::SwiGlu, 3)]);
    assert!(s.profile().unwrap().table(None).contains("SwiGLU"));
}

fn attention_weights() -> (MapWeights, [WeightRef; 6]) {
    let mut w = MapWeights::new(1);
    let values = |n: usize, seed: usize| -> Vec<f32> {
        (0..n).map(|i| ((i * 7919 + seed * 104_729) % 199) as f32 / 99.0 - 1.0).collect()
    };
    let refs = [
        w.add("wq", [D, 8, 1, 1], &values(8 * D, 1)),
        w.add("wk", [D, 4, 1, 1], &values(4 * D, 2)),
        w.add("wv", [D, 4, 1, 1], &values(4 * D, 3)),
        w.add("bq", [8, 1, 1, 1], &values(8, 4)),
        w.add("bk", [4, 1, 1, 1], &values(4, 5)),
        w.add("bv", [4, 1, 1, 1], &values(4, 6)),
    ];
    (w, refs)
}

/// One attention block, described fused or unfused.
fn attention(
    w: [WeightRef; 6],
    fused: bool,
) -> impl Fn(&GraphParams, &Policy<'_>) -> Result<minfer_graph::ComputeGraph, minfer_graph::BuildError> {
    move |p: &GraphParams, _: &Policy<'_>| {
        let n = p.n_tokens;
        let mut b = GraphBuilder::new();
        let x = b.input("x", [D, n, 1, 1], DType::F32);
        let positions = b.input("positions", [n, 1, 1, 1], DType::I32);
        let slots = b.input("slots", [n, 1, 1, 1], DType::I32);
        let table = b.input("table", [4, 4, 1, 1], DType::I32);
        let rows = b.input("rows", [n, 1, 1, 1], DType::I32);
        let lens = b.input("lens", [n, 1, 1, 1], DType::I32);
        b.set_layer(Some(0));
        let rope = RopeSpec {
            style: RopeStyle::Neox,
            head_dim: 4,
            n_rot: 4,
            freq_base: 10000.0,
            scaling: RopeScaling::None,
            freq_factors: false,
        };
        let [wq, wk, wv, bq, bk, bv] = &w;
        let dims = QkvDims { q: 8, kv: 4 };
        let (q, sk, sv) = if fused {
            let qkv = b.fused_qkv("qkv", x, [wq, wk, wv], dims);
            let q = b.qkv_bias_rope_store(
                "q_rope",
                [qkv, positions, slots],
                0,
                dims,
                Some([bq, bk, bv]),
                (rope, None),
            );
            (q, q, q)
        } else {
            let mut project = |name: &str, w: &WeightRef, bias: &WeightRef| {
                let y = b.matmul(name, x, w);
                b.add_bias(&format!("{name}_bias"), y, bias)
            };
            let (q, k, v) = (project("q", wq, bq), project("k", wk, bk), project("v", wv, bv));
            let q = b.rope("q_rope", q, positions, rope, None);
            let k = b.rope("k_rope", k, positions, rope, None);
            let sk = b.kv_store("store_k", k, slots, 0, KvPart::K, KvType::F32);
            let sv = b.kv_store("store_v", v, slots, 0, KvPart::V, KvType::F32);
            (q, sk, sv)
        };
        let k = b.kv_load("load_k", sk, 0, KvPart::K, [4, 256], KvType::F32);
        let v = b.kv_load("load_v", sv, 0, KvPart::V, [4, 256], KvType::F32);
        let spec = AttnSpec { layer: 0, n_heads: 2, n_kv_heads: 1, head_dim: 4, scale: 0.5 };
        let out = b.attn("attn", q, [k, v], [table, rows, lens], spec);
        b.output(out);
        b.finish()
    }
}

/// Five decode steps of one sequence whose blocks are out of order.
fn decode(registry: Registry, fused: bool) -> Result<Vec<f32>, StepError> {
    let (w, refs) = attention_weights();
    let mut s = Scheduler::new(registry, Arc::new(w), vec![kv_spec()]);
    let source = attention(refs, fused);
    let mut p = params(1);
    p.gtype = GraphType::Decode;
    let mut table = [0; 16];
    table[..2].copy_from_slice(&[5, 2]);
    let mut outs = Vec::new();
    for step in 0..20i32 {
        let x: Vec<f32> = (0..D).map(|i| ((i as i32 + step * 3) % 11) as f32 / 5.0 - 1.0).collect();
        let slot = table[step as usize / 16] * 16 + step % 16;
        let inputs = [
            ("x", InputData::F32(&x)),
            ("positions", InputData::I32(&[step])),
            ("slots", InputData::I32(&[slot])),
            ("table", InputData::I32(&table)),
            ("rows", InputData::I32(&[0])),
            ("lens", InputData::I32(&[step + 1])),
        ];
        let mut out = vec![0.0; 8];
        s.step(&source, &p, &inputs, &mut out, None)?;
        outs.extend(out);
    }
    Ok(outs)
}

#[test]
fn fused_qkv_matches_unfused_decode() {
    let fused = decode(reference_registry(&[]), true).unwrap();
    let unfused = decode(reference_registry(&[]), false).unwrap();
    assert_eq!(fused, unfused);
    assert!(fused.iter().any(|v| v.abs() > 0.1));
}

#[test]
fn a_step_split_over_two_backends_gives_the_same_numbers() {
    let one = decode(reference_registry(&[]), false).unwrap();
    for refused in
        [&[OpKind::Rope][..], &[OpKind::MatMul], &[OpKind::Attn, OpKind::KvcacheLoad, OpKind::KvcacheStore]]
    {
        assert_eq!(decode(reference_registry(refused), false).unwrap(), one, "{refused:?}");
    }
}

#[test]
fn a_cache_torn_between_backends_is_refused() {
    let error = decode(reference_registry(&[OpKind::Attn]), false).unwrap_err();
    assert!(error.to_string().contains("it touches a KV region of another backend"), "{error}");
}

#[test]
fn a_store_outside_the_region_fails_the_step_and_names_the_node() {
    let (w, refs) = attention_weights();
    let mut s = Scheduler::new(reference_registry(&[]), Arc::new(w), vec![kv_spec()]);
    let x = [0.1; D];
    let table = [0; 16];
    let inputs = |slot: &'static [i32; 1]| {
        [
            ("x", InputData::F32(&x)),
            ("positions", InputData::I32(&[0])),
            ("slots", InputData::I32(slot)),
            ("table", InputData::I32(&table)),
            ("rows", InputData::I32(&[0])),
            ("lens", InputData::I32(&[1])),
        ]
    };
    let mut out = vec![0.0; 8];
    for slot in [&[256], &[-1]] {
        let error =
            s.step(&attention(refs.clone(), false), &params(1), &inputs(slot), &mut out, None).unwrap_err();
        let StepError::Run(e) = &error else { panic!("{error}") };
        assert_eq!((&*e.node, e.op, e.backend), ("0.store_k", "KvcacheStore", Backend::METAL));
        assert_eq!(e.inputs.len(), 2);
    }
}

#[test]
fn a_missing_weight_names_node_and_weight() {
    let (_, refs) = attention_weights();
    let mut s = Scheduler::new(reference_registry(&[]), no_weights(), vec![kv_spec()]);
    let error = s.warm(&attention(refs, false), &params(1), &mut |_, _| {}).unwrap_err().to_string();
    assert!(error.contains("0.q") && error.contains("weight 'wq': is missing"), "{error}");
}

#[test]
fn a_load_that_was_begun_is_ended_whether_it_succeeds_or_not() {
    let (_, refs) = attention_weights();
    for refuses in [false, true] {
        let null = NullDriver::new(Backend::CPU);
        let null = if refuses { null.refusing_weights() } else { null };
        let n_open = null.n_open_loads();
        let mut registry = Registry::new();
        registry.register(Arc::new(null));
        let mut s = Scheduler::new(registry, no_weights(), vec![kv_spec()]);
        let loaded = s.warm(&attention(refs.clone(), false), &params(1), &mut |_, _| {});
        assert_eq!(loaded.is_err(), refuses);
        assert_eq!(n_open.load(std::sync::atomic::Ordering::Relaxed), 0);
    }
}

#[test]
fn a_null_backend_runs_every_live_node() {
    let null = NullDriver::new(Backend::CPU);
    let n_run = null.n_run();
    let mut registry = Registry::new();
    registry.register(Arc::new(null));
    let mut s = Scheduler::new(registry, no_weights(), vec![]);
    let x = vec![0.0; 2 * D];
    let mut out = vec![1.0; 2 * D];
    s.step(&build_with(silu_mul), &params(2), &[("x", InputData::F32(&x))], &mut out, None).unwrap();
    assert_eq!(n_run.load(std::sync::atomic::Ordering::Relaxed), 3, "the orphaned Silu is skipped");
    assert_eq!(out, vec![0.0; 2 * D], "memory starts as zeros and nothing was written");
}

#[test]
fn exports_show_every_decision() {
    let c = compile(&build_with(silu_mul), &params(2), &null_registry(&[]), &mut |_, _| {}).unwrap();
    let json = export::json(&export::View::planned(&c));
    let mul = &json["nodes"][4];
    assert_eq!((mul["op"].as_str(), mul["backend"].as_str()), (Some("SwiGLU"), Some("metal")));
    assert_eq!(json["nodes"][3]["live"], false);
    assert_eq!(json["fusions"][0]["refused"], serde_json::Value::Null);
    let dot = export::dot(&export::View::planned(&c));
    assert!(
        dot.starts_with("digraph") && dot.contains("n4 [label=\"4 0.mul\\nSwiGLU [8, 2, 1, 1]\""),
        "{dot}"
    );
    assert!(export::census(&c).contains("op SwiGLU backend METAL x1\n"));
    assert!(export::split_map(&c).contains("split 0 backend METAL nodes 1..=4 (3 run) copies in 0"));
}
