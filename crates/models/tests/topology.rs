//! The graphs of the three architectures: what is built, what is folded, what follows from the file.

#![allow(clippy::unwrap_used, clippy::print_stderr, reason = "a test may panic and says what it skips")]

use std::path::PathBuf;
use std::sync::Arc;

use minfer_gguf::Gguf;
use minfer_graph::testing::NullDriver;
use minfer_graph::{
    Backend, BackendSet, CParams, Compiled, GraphParams, GraphType, Head, KvType, OpKind, Registry, compile,
    export,
};
use minfer_models::{Model, ModelError, StepInput, describe};

fn data(name: &str) -> PathBuf {
    [env!("CARGO_MANIFEST_DIR"), "../../tests/data", name].iter().collect()
}

fn model(name: &str) -> Model {
    describe(&Gguf::open(&data(name)).unwrap()).unwrap()
}

fn params(gtype: GraphType, n_tokens: usize, n_out: usize) -> GraphParams {
    let cparams = CParams {
        n_ctx: 64,
        n_seq_max: 1,
        kv_block: 32,
        n_kv_blocks: 2,
        kv_type: KvType::F16,
        backends: BackendSet::CPU_ONLY,
        gpu: None,
        fuse_qkv: true,
        fuse_ffn: true,
    };
    GraphParams { n_tokens, n_out, head: Head::Logits, gtype, cparams, weights_version: 1 }
}

fn compiled(model: &Model, params: &GraphParams, refused: &[OpKind]) -> Compiled {
    let mut registry = Registry::new();
    registry.register(Arc::new(NullDriver::new(Backend::CPU).refusing(refused)));
    compile(model, params, &registry, &mut |_, _| {}).unwrap()
}

/// Ops that run in `layer`, in order.
fn ops(c: &Compiled, layer: usize) -> Vec<&'static str> {
    let nodes = c.splits.iter().flat_map(|s| &s.nodes).map(|id| c.graph.node(*id));
    nodes.filter(|n| n.layer == Some(layer)).map(|n| n.op.kind().name()).collect()
}

const PLAIN_TAIL: [&str; 10] = [
    "KvcacheLoad",
    "KvcacheLoad",
    "Attn",
    "MatMul",
    "Add",
    "RmsNorm",
    "MatMul",
    "MatMul",
    "SwiGLU",
    "MatMul",
];

#[test]
fn a_plain_layer_runs_every_stage() {
    let c = compiled(&model("qwen2-tied-q4_0.gguf"), &params(GraphType::Prefill, 5, 5), &[]);
    let mut expected = vec!["RmsNorm", "MatMul", "Add", "MatMul", "Add", "MatMul", "Add"];
    expected.extend(["RoPE", "RoPE", "KvcacheStore", "KvcacheStore"]);
    expected.extend(PLAIN_TAIL);
    expected.push("Add");
    assert_eq!(ops(&c, 0), expected);
    let c = compiled(&model("qwen3-yarn-bf16.gguf"), &params(GraphType::Prefill, 5, 5), &[]);
    let mut expected = vec!["RmsNorm", "MatMul", "MatMul", "MatMul", "QkNorm", "QkNorm"];
    expected.extend(["RoPE", "RoPE", "KvcacheStore", "KvcacheStore"]);
    expected.extend(PLAIN_TAIL);
    expected.push("Add");
    assert_eq!(ops(&c, 0), expected);
}

#[test]
fn a_decode_step_folds_the_qkv_chain_and_the_ffn() {
    for (file, chain) in [("qwen2-tied-q4_0.gguf", 10), ("llama-q4_1.gguf", 7), ("qwen3-yarn-bf16.gguf", 9)] {
        let m = model(file);
        let fused = compiled(&m, &params(GraphType::Decode, 1, 1), &[]);
        let mut off = params(GraphType::Decode, 1, 1);
        off.cparams.fuse_qkv = false;
        off.cparams.fuse_ffn = false;
        let plain = compiled(&m, &off, &[]);
        // The projection chain becomes 2 nodes, gate, up and SwiGLU become 1.
        assert_eq!(ops(&plain, 0).len() - ops(&fused, 0).len(), chain - 2 + 2, "{file}");
        let project = if file.starts_with("qwen3") { "FusedQkvNorm" } else { "FusedQKV" };
        assert_eq!(ops(&fused, 0)[1..3], [project, "QkvBiasRopeStore"]);
        assert!(ops(&fused, 0).contains(&"FusedFFN") && !ops(&plain, 0).contains(&"FusedFFN"));
    }
}

#[test]
fn a_fusion_that_the_owner_lacks_is_not_emitted() {
    let m = model("qwen2-tied-q4_0.gguf");
    let p = params(GraphType::Decode, 1, 1);
    for refused in [OpKind::FusedQkv, OpKind::QkvBiasRopeStore] {
        let c = compiled(&m, &p, &[refused]);
        assert!(ops(&c, 0).contains(&"KvcacheStore") && ops(&c, 0).contains(&"FusedFFN"), "{refused:?}");
    }
    assert!(!ops(&compiled(&m, &p, &[OpKind::FusedFfn]), 0).contains(&"FusedFFN"));
    assert!(!ops(&compiled(&m, &params(GraphType::Prefill, 1, 1), &[]), 0).contains(&"FusedFFN"));
}

#[test]
fn only_wanted_rows_go_through_the_tail() {
    let m = model("llama-q4_1.gguf");
    let c = compiled(&m, &params(GraphType::Prefill, 7, 2), &[]);
    assert_eq!(c.graph.by_name("logits").unwrap().out_shape[1], 2);
    assert_eq!(c.graph.by_name("1.ffn_inner").unwrap().out_shape[1], 2);
    assert_eq!(c.graph.by_name("1.attn_heads").unwrap().out_shape[1], 7);
    assert_eq!(c.graph.by_name("0.ffn_inner").unwrap().out_shape[1], 7);
    let inputs: Vec<_> = c.graph.inputs.iter().map(|i| c.graph.node(*i).name.to_string()).collect();
    assert_eq!(inputs, StepInput::ALL.map(|i| i.name().to_string()));
}

#[test]
fn a_step_without_outputs_only_fills_the_cache() {
    let c = compiled(&model("llama-q4_1.gguf"), &params(GraphType::Prefill, 7, 0), &[]);
    assert_eq!(ops(&c, 1).last(), Some(&"KvcacheStore"));
    assert!(c.graph.outputs.is_empty());
    assert!(ops(&c, 0).contains(&"Attn"));
}

#[test]
fn the_same_params_give_the_same_graph() {
    let m = model("qwen3-yarn-bf16.gguf");
    let p = params(GraphType::Decode, 1, 1);
    let (a, b) = (compiled(&m, &p, &[]), compiled(&m, &p, &[]));
    assert_eq!(a.graph.nodes, b.graph.nodes);
    assert_ne!(a.graph.uid, b.graph.uid);
    assert!(export::census(&a).contains("op FusedFFN backend CPU x2"));
}

#[test]
fn architectures_of_others_are_refused_by_name() {
    let Some(tiny) = shared("fixtures/tiny") else { return };
    for name in ["qwen3moe", "gemma3"] {
        let error = describe(&Gguf::open(&tiny.join(format!("{name}-f32.gguf"))).unwrap()).unwrap_err();
        assert_eq!(
            error.to_string(),
            format!("unsupported architecture '{name}'; supported: qwen2, qwen3, llama")
        );
    }
}

#[test]
fn every_tiny_model_of_the_three_architectures_is_described() {
    let Some(tiny) = shared("fixtures/tiny") else { return };
    let mut n = 0;
    for entry in std::fs::read_dir(tiny).unwrap() {
        let path = entry.unwrap().path();
        if path.extension().is_none_or(|e| e != "gguf") {
            continue;
        }
        match describe(&Gguf::open(&path).unwrap()) {
            Ok(model) => {
                assert!(model.hparams().n_layers > 0);
                n += 1;
            }
            Err(ModelError::UnsupportedArchitecture { .. }) => {}
            Err(e) => panic!("{}: {e}", path.display()),
        }
    }
    assert_eq!(n, 14);
}

fn shared(part: &str) -> Option<PathBuf> {
    let root = std::env::var_os("MINFER_SHARED").map_or_else(|| data("../../../shared"), PathBuf::from);
    let path = root.join(part);
    if path.exists() {
        return Some(path);
    }
    eprintln!("skipped: {} is not there", path.display());
    None
}
