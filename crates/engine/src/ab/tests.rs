//! Equal where nothing changed, and the right node where something did.

#![allow(clippy::print_stderr, reason = "a skipped test says so")]

use std::ops::ControlFlow;
use std::path::PathBuf;
use std::sync::Arc;

use minfer_gguf::{Gguf, GgufWriter, TensorType, dequantize, quantize};
use minfer_graph::testing::TamperedDriver;
use minfer_graph::{Backend, KvPart, KvType};

use super::{AbReport, Part, compare};
use crate::context::Context;
use crate::model::{LoadOptions, Model};
use crate::params::ContextParams;

const MODELS: [&str; 3] = ["qwen2-tied-q4_0.gguf", "llama-q4_1.gguf", "qwen3-yarn-bf16.gguf"];
const PROMPT: [u32; 11] = [5, 17, 99, 4, 250, 31, 7, 7, 120, 64, 2];
const N_GENERATE: usize = 4;

fn data(name: &str) -> PathBuf {
    [env!("CARGO_MANIFEST_DIR"), "../../tests/data", name].iter().collect()
}

fn model(name: &str) -> Arc<Model> {
    Model::load(&data(name), &LoadOptions::default()).unwrap()
}

fn params() -> ContextParams {
    ContextParams { n_ctx: 64, n_threads: Some(1), ..Default::default() }
}

fn context(model: &Arc<Model>, params: &ContextParams) -> Context {
    Context::new(model, params, &mut |_, _| {}).unwrap()
}

fn ab(a: &mut Context, b: &mut Context) -> AbReport {
    let mut last = (0, 0);
    let report = compare(a, b, &PROMPT, N_GENERATE, &mut |done, total| {
        last = (done, total);
        ControlFlow::Continue(())
    })
    .unwrap();
    assert_eq!(last.0, last.1, "progress ends with everything done");
    report
}

#[test]
fn settings_that_change_no_bit_are_found_equal() {
    let others = [
        ("threads", ContextParams { n_threads: Some(3), ..params() }),
        ("isa", ContextParams { isa: Some("scalar".into()), ..params() }),
        ("chunk", ContextParams { n_ubatch: 4, ..params() }),
        ("chunk of one", ContextParams { n_ubatch: 1, ..params() }),
        ("fusion", ContextParams { fuse_qkv: false, fuse_ffn: false, ..params() }),
        ("context", ContextParams { n_ctx: 512, ..params() }),
    ];
    for name in MODELS {
        let model = model(name);
        for (what, other) in &others {
            let report = ab(&mut context(&model, &params()), &mut context(&model, other));
            assert!(report.is_identical(), "{name} {what}: {:?}", report.first);
            assert_eq!(
                (report.tokens.len(), report.choices.len()),
                (PROMPT.len() + N_GENERATE, N_GENERATE + 1)
            );
            assert!(report.choices.iter().all(|c| c.a == c.b));
            // Every token has at least its dozen of values in each of the two layers.
            assert!(report.n_values > 18 * report.tokens.len(), "{name} {what}: {}", report.n_values);
        }
    }
}

#[test]
fn fused_nodes_are_matched_with_what_they_stand_for() {
    for name in MODELS {
        let model = model(name);
        let unfused = ContextParams { fuse_qkv: false, fuse_ffn: false, n_ubatch: 1, ..params() };
        let fused = ContextParams { n_ubatch: 1, ..params() };
        let report = ab(&mut context(&model, &unfused), &mut context(&model, &fused));
        assert!(report.is_identical());
        // What is left alone is inside a fused kernel: gate and up, biases, the rotated key.
        let inside = ["ffn_gate", "ffn_up", "k_rope", "q", "k", "v"];
        for node in &report.only_a {
            assert!(inside.iter().any(|i| node.name.ends_with(&format!(".{i}"))), "{name}: {}", node.name);
        }
        assert_eq!(report.only_b, [], "{name}");
    }
}

/// Every node of a layer that has a value on both sides is found when its kernel is changed.
#[test]
fn a_changed_kernel_is_named() {
    for (name, node, op) in [
        ("llama-q4_1.gguf", "embed", "GetRows"),
        ("llama-q4_1.gguf", "0.attn_norm", "RmsNorm"),
        ("llama-q4_1.gguf", "1.attn_heads", "Attn"),
        ("qwen2-tied-q4_0.gguf", "1.ffn_out", "MatMul"),
        ("qwen2-tied-q4_0.gguf", "0.out", "Add"),
        ("qwen3-yarn-bf16.gguf", "1.ffn_inner", "SwiGLU"),
        ("qwen3-yarn-bf16.gguf", "logits", "MatMul"),
    ] {
        let model = model(name);
        let (mut a, mut b) = (context(&model, &params()), context(&model, &params()));
        tamper(&mut b, node, 3, 0);
        let report = ab(&mut a, &mut b);
        let first = report.first.expect("a difference");
        assert_eq!((first.node.a.name.as_str(), first.node.b.op), (node, op), "{name}");
        assert_eq!(first.node.b.backend, Backend::CPU);
        let ulps = first.difference.ulps;
        assert_eq!((ulps.size, ulps.index), (1.0, 3), "{name} {node}");
        // A difference of one bit may be rounded away on the way; a larger one is seen to the end.
        tamper(&mut b, node, 3, 21);
        let report = ab(&mut a, &mut b);
        let last = report.growth.last().or(report.first.as_ref()).expect("a difference");
        assert_eq!(last.node.a.name, "logits", "{name} {node}");
        assert!(report.growth.iter().all(|n| n.difference.n_differing > 0 && n.n_tokens_differing > 0));
    }
}

#[test]
fn a_changed_kernel_is_named_across_fusion() {
    let model = model("llama-q4_1.gguf");
    let fused = ContextParams { n_ubatch: 1, ..params() };
    let unfused = ContextParams { fuse_qkv: false, fuse_ffn: false, n_ubatch: 1, ..params() };
    // Row 96 + 2 of the fused projection is row 2 of the key.
    let (mut a, mut b) = (context(&model, &unfused), context(&model, &fused));
    tamper(&mut b, "1.qkv", 98, 3);
    let first = ab(&mut a, &mut b).first.expect("a difference");
    assert_eq!((first.node.a.name.as_str(), first.node.b.name.as_str()), ("1.k", "1.qkv"));
    assert_eq!(first.node.part, Some(Part::Weight("blk.1.attn_k.weight".into())));
    assert_eq!(first.difference.absolute.index, 2);
}

#[test]
fn another_type_of_the_cache_differs_where_it_is_stored() {
    for name in MODELS {
        let model = model(name);
        for kv_type in [KvType::F32, KvType::Q8_0] {
            let other = ContextParams { kv_type, ..params() };
            let report = ab(&mut context(&model, &params()), &mut context(&model, &other));
            let first = report.first.as_ref().expect("a difference");
            assert_eq!(
                (first.node.a.name.as_str(), first.node.a.op),
                ("0.k_store", "KvcacheStore"),
                "{name}"
            );
            assert_eq!(first.node.part, Some(Part::Cached(KvPart::K)));
            assert_eq!(first.n_tokens, report.tokens.len(), "every token is in the cache");
            assert!(first.difference.absolute.size < 0.1, "{first:?}");
            assert_eq!(report.growth.last().expect("growth").node.a.name, "logits");
            assert!(!report.is_identical());
        }
    }
}

/// By prompts, whose stores are nodes of their own, and by decode steps, which store in a fused node.
#[test]
fn what_the_cache_holds_is_compared_for_every_token() {
    let model = model("llama-q4_1.gguf");
    let report = ab(&mut context(&model, &params()), &mut context(&model, &params()));
    for name in ["0.k_store", "0.v_store", "1.k_store", "1.v_store"] {
        let verdict = report.nodes.iter().find(|n| n.a == name && n.b == name).expect(name);
        assert_eq!(verdict.n_values, PROMPT.len() + N_GENERATE, "{name}");
    }
}

#[test]
fn a_requantized_tensor_is_named() {
    let name = "llama-q4_1.gguf";
    let folder = tempfile::tempdir().unwrap();
    for (tensor, node) in [("blk.1.attn_k.weight", "1.k"), ("blk.0.ffn_down.weight", "0.ffn_out")] {
        let path = folder.path().join("other.gguf");
        requantized(&data(name), tensor, &path);
        let other = Model::load(&path, &LoadOptions::default()).unwrap();
        let report = ab(&mut context(&model(name), &params()), &mut context(&other, &params()));
        let first = report.first.as_ref().expect("a difference");
        assert_eq!(first.node.a.name, node);
        assert_eq!(first.n_tokens, report.tokens.len());
        assert!(first.difference.absolute.size > 1e-4, "{first:?}");
    }
}

/// A real model, if it is in the folder of models.
fn real(file: &str) -> Option<PathBuf> {
    let home = || PathBuf::from(std::env::var_os("HOME").unwrap_or_default()).join(".cache/minfer/models");
    let path = std::env::var_os("MINFER_MODELS").map_or_else(home, PathBuf::from).join(file);
    if !path.is_file() {
        eprintln!("skipped: no file {}", path.display());
        return None;
    }
    Some(path)
}

#[test]
fn changes_in_real_models_are_named() {
    for (file, node, tensor, changed) in [
        ("smollm2-135m-instruct-q4_1.gguf", "17.attn_heads", "blk.11.ffn_up.weight", "11.ffn_up"),
        ("qwen2.5-coder-0.5b-instruct-q4_k_m.gguf", "3.ffn_out", "", ""),
    ] {
        let Some(path) = real(file) else { continue };
        let model = Model::load(&path, &LoadOptions::default()).unwrap();
        let (mut a, mut b) = (context(&model, &params()), context(&model, &params()));
        tamper(&mut b, node, 3, 0);
        let first = ab(&mut a, &mut b).first.expect("a difference");
        assert_eq!((first.node.a.name.as_str(), first.difference.ulps.size), (node, 1.0), "{file}");
        // A copy of the larger file would take half a gigabyte.
        if tensor.is_empty() {
            continue;
        }
        let folder = tempfile::tempdir().unwrap();
        let other = folder.path().join("other.gguf");
        requantized(&path, tensor, &other);
        let other = Model::load(&other, &LoadOptions::default()).unwrap();
        let report = ab(&mut context(&model, &params()), &mut context(&other, &params()));
        assert_eq!(report.first.expect("a difference").node.a.name, changed, "{file}");
    }
}

/// From now on bit `bit` of element `index` of the node's value is wrong.
fn tamper(context: &mut Context, node: &str, index: usize, bit: usize) {
    let scheduler = context.scheduler_mut();
    let inner = scheduler.registry().driver(Backend::CPU).unwrap().clone();
    scheduler.replace_driver(Arc::new(TamperedDriver::new(inner, node, index, bit)));
}

/// A copy of a model with one tensor as Q8_0.
fn requantized(from: &std::path::Path, name: &str, to: &std::path::Path) {
    let file = Gguf::open(from).unwrap();
    let mut writer = GgufWriter::new(file.metadata().clone()).unwrap();
    let dtype = |t: &minfer_gguf::TensorInfo| if t.name == name { TensorType::Q8_0 } else { t.dtype };
    for t in file.tensors() {
        writer.add_tensor(&t.name, &t.shape, dtype(t)).unwrap();
    }
    let mut out = writer.start(Vec::new()).unwrap();
    for t in file.tensors() {
        let data = file.data(t);
        if dtype(t) == t.dtype {
            out.write(data).unwrap();
            continue;
        }
        let mut values = vec![0.0; t.n_elems()];
        dequantize(t.dtype, data, &mut values).unwrap();
        let mut bytes = vec![0; values.len() / 32 * 34];
        quantize(TensorType::Q8_0, &values, &mut bytes).unwrap();
        out.write(&bytes).unwrap();
    }
    std::fs::write(to, out.finish().unwrap()).unwrap();
}
