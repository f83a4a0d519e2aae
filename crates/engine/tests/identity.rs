//! One arithmetic: the same bits for any thread count, chunk, instruction set, fusion switch, neighbour, and for a graph
//! reused or rebuilt.

#![allow(clippy::unwrap_used, clippy::print_stderr, reason = "a test may panic and says what it skips")]

mod common;

use std::path::Path;
use std::sync::Arc;

use common::*;
use minfer_cpu::isa::Isa;
use minfer_engine::{Context, ContextParams, Model, Row};
use minfer_graph::KvType;

/// Logits after every prompt token and every decoded one.
type Trace = Vec<Vec<u32>>;

fn bits(rows: Vec<Vec<f32>>) -> Trace {
    rows.into_iter().map(|row| row.into_iter().map(f32::to_bits).collect()).collect()
}

/// The prompt in chunks, then greedy tokens, one a step.
fn run(model: &Arc<Model>, params: &ContextParams, prompt: &[u32], chunk: usize, n_decode: usize) -> Trace {
    let mut context = context(model, params);
    run_in(&mut context, prompt, chunk, n_decode)
}

fn run_in(context: &mut Context, prompt: &[u32], chunk: usize, n_decode: usize) -> Trace {
    let seq = context.new_sequence().unwrap();
    let mut rows = all_logits(context, seq, prompt, chunk);
    for _ in 0..n_decode {
        let token = argmax(rows.last().unwrap());
        rows.push(context.step(&[Row { seq, token, wants_logits: true }]).unwrap().to_vec());
    }
    context.free_sequence(seq);
    bits(rows)
}

/// Every setting that must not matter, each against the first run.
fn check(path: &Path, prompt: &[u32], n_decode: usize, threads: &[usize], chunks: &[usize]) {
    check_with(KvType::F16, path, prompt, n_decode, threads, chunks);
}

fn check_with(
    kv_type: KvType,
    path: &Path,
    prompt: &[u32],
    n_decode: usize,
    threads: &[usize],
    chunks: &[usize],
) {
    let name = path.file_stem().unwrap().to_string_lossy().into_owned();
    let model = load(path);
    let n_ctx = (prompt.len() + n_decode).max(256);
    let base = ContextParams { n_threads: Some(1), n_ctx, kv_type, ..small() };
    let whole = prompt.len();
    let expected = run(&model, &base, prompt, whole, n_decode);
    assert!(
        expected.iter().flatten().any(|b| f32::from_bits(*b).abs() > 0.1),
        "{name}: logits are all but zero"
    );
    let same = |what: String, params: &ContextParams, chunk: usize| {
        assert!(run(&model, params, prompt, chunk, n_decode) == expected, "{name}: {what} changes bits");
    };
    for &n in threads {
        same(format!("{n} threads"), &ContextParams { n_threads: Some(n), ..base.clone() }, whole);
    }
    for (n, n_batch) in [(1, 3), (3, 1)] {
        let (n_threads, n_threads_batch) = (Some(n), Some(n_batch));
        let params = ContextParams { n_threads, n_threads_batch, ..base.clone() };
        same(format!("{n} threads, {n_batch} for prompts"), &params, whole);
    }
    for &chunk in chunks {
        same(format!("chunks of {chunk}"), &base, chunk);
    }
    for isa in Isa::available() {
        let isa = isa.name().to_string();
        same(format!("instruction set {isa}"), &ContextParams { isa: Some(isa), ..base.clone() }, whole);
    }
    for (fuse_qkv, fuse_ffn) in [(false, true), (true, false), (false, false)] {
        let params = ContextParams { fuse_qkv, fuse_ffn, n_threads: Some(2), ..base.clone() };
        same(format!("fuse_qkv {fuse_qkv} fuse_ffn {fuse_ffn}"), &params, 7.min(whole));
    }
}

#[test]
fn nothing_about_the_computation_changes_the_bits_of_tiny_models() {
    for (path, expected) in tiny_models() {
        check(&path, &ids(&expected["tokens"]), 8, &[2, 3], &[1, 7, 64]);
    }
}

/// Attention merges spans of 256 positions, and spreads those of a lone token over threads.
#[test]
fn nothing_changes_the_bits_of_tiny_models_that_look_back_over_several_spans() {
    for name in COMMITTED {
        let path = data().join(format!("{name}.gguf"));
        let tokens = ids(&json(&path.with_extension("json"))["tokens"]);
        let prompt: Vec<u32> = tokens.iter().copied().cycle().take(600).collect();
        check(&path, &prompt, 4, &[2, 3], &[1, 64]);
    }
}

#[test]
fn nothing_changes_the_bits_with_a_cache_of_int8() {
    for name in COMMITTED {
        let path = data().join(format!("{name}.gguf"));
        let tokens = ids(&json(&path.with_extension("json"))["tokens"]);
        let prompt: Vec<u32> = tokens.iter().copied().cycle().take(300).collect();
        check_with(KvType::Q8_0, &path, &prompt, 4, &[2, 3], &[1, 7, 64]);
    }
}

#[test]
fn nothing_about_the_computation_changes_the_bits_of_real_models() {
    for file in ["smollm2-135m-instruct-q4_1.gguf", "qwen2.5-coder-0.5b-instruct-q4_k_m.gguf"] {
        let Some(path) = real(file) else { continue };
        let text = "fn main() {\n    let words = [\"once\", \"upon\", \"a\", \"time\"];\n".repeat(4);
        let prompt = load(&path).encode(&text).unwrap();
        assert!(prompt.len() > 64, "a chunk of 64 would be the whole prompt of {}", prompt.len());
        check(&path, &prompt, 2, &[2, 3], &[1, 7, 64]);
    }
}

#[test]
fn a_rebuilt_graph_gives_the_same_bits() {
    for (path, expected) in tiny_models() {
        let model = load(&path);
        let tokens = ids(&expected["tokens"]);
        let mut context = context(&model, &small());
        let first = run_in(&mut context, &tokens, 7, 4);
        let built = context.counters().built;
        let reused = run_in(&mut context, &tokens, 7, 4);
        assert_eq!(context.counters().built, built);
        context.scheduler_mut().forget_graphs();
        let rebuilt = run_in(&mut context, &tokens, 7, 4);
        assert!(context.counters().built > built);
        assert!(first == reused && first == rebuilt, "{}", path.display());
    }
}

#[test]
fn a_switch_turned_at_run_time_rebuilds_without_changing_bits() {
    let model = load(&data().join("qwen2-tied-q4_0.gguf"));
    let mut context = context(&model, &small());
    let fused = run_in(&mut context, &[5, 6, 7], 3, 6);
    context.set_fusion(false, false);
    let built = context.counters().built;
    let plain = run_in(&mut context, &[5, 6, 7], 3, 6);
    assert!(context.counters().built > built);
    assert!(fused == plain);
}

#[test]
fn a_sequence_does_not_notice_its_neighbours() {
    for (path, expected) in tiny_models() {
        let model = load(&path);
        let tokens = ids(&expected["tokens"]);
        let params = ContextParams { n_seq_max: 3, ..small() };
        let alone = run(&model, &params, &tokens, tokens.len(), 0);

        // Three sequences of different length share every step; one of them has come and gone in between.
        let mut context = context(&model, &params);
        let gone = context.new_sequence().unwrap();
        all_logits(&mut context, gone, &tokens[..33], 33);
        let a = context.new_sequence().unwrap();
        all_logits(&mut context, a, &tokens[..5], 5);
        context.free_sequence(gone);
        let b = context.new_sequence().unwrap();
        let c = context.new_sequence().unwrap();
        let n_vocab = model.n_vocab();
        let mut found: Vec<Vec<Vec<f32>>> = vec![Vec::new(); 2];
        for (i, &token) in tokens.iter().enumerate() {
            let mut rows =
                vec![Row { seq: b, token, wants_logits: true }, Row { seq: c, token, wants_logits: true }];
            if let Some(&token) = tokens.get(i + 5) {
                rows.insert(1, Row { seq: a, token, wants_logits: i % 3 == 0 });
            }
            let middle = rows.len() == 3 && rows[1].wants_logits;
            let logits: Vec<Vec<f32>> =
                context.step(&rows).unwrap().chunks(n_vocab).map(<[f32]>::to_vec).collect();
            found[0].push(logits[0].clone());
            found[1].push(logits[1 + usize::from(middle)].clone());
        }
        for rows in found {
            assert!(bits(rows) == alone, "{}", path.display());
        }
    }
}

#[test]
fn the_more_bits_a_cache_has_the_closer_it_is_to_the_reference() {
    let path = data().join("qwen3-yarn-bf16.gguf");
    let expected = json(&path.with_extension("json"));
    let reference: Vec<f64> =
        expected["last_logits"].as_array().unwrap().iter().map(|v| v.as_f64().unwrap()).collect();
    let model = load(&path);
    let off = |kv_type| {
        let rows = run(&model, &ContextParams { kv_type, ..small() }, &ids(&expected["tokens"]), 64, 0);
        let last = rows.last().unwrap().iter().map(|b| f64::from(f32::from_bits(*b)));
        rms(last.zip(reference.iter().copied()))
    };
    assert!(off(KvType::F32) < off(KvType::F16) && off(KvType::F16) < off(KvType::Q8_0));
}
