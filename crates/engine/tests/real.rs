//! The two real models of the cache against an independent float reference.

#![allow(clippy::unwrap_used, clippy::print_stderr, reason = "a test may panic and says what it skips")]

mod common;

use common::*;
use minfer_engine::{Context, ContextParams, Row, SeqId};
use minfer_graph::KvType;
use serde_json::Value;

/// File, fixture, and the largest root mean square difference of the 20 best logits: llama.cpp's own, which was measured
/// with an f32 cache.
const MODELS: [(&str, &str, f64); 2] = [
    ("qwen2.5-coder-0.5b-instruct-q4_k_m.gguf", "qwen2.5-coder-0.5b", 0.07),
    ("smollm2-135m-instruct-q4_1.gguf", "smollm2-135m", 0.17),
];

/// What rounding keys and values to half precision may add to that.
const F16_CACHE_RMS: f64 = 0.01;

/// Below this margin of the reference, quantized activations may choose differently.
const MARGIN: f64 = 0.5;

/// Largest relative difference of the perplexity.
const PERPLEXITY_TOLERANCE: f64 = 0.005;

fn for_each(kv_type: KvType, mut f: impl FnMut(&str, &mut Context, SeqId, &Value, f64)) {
    for (file, name, rms) in MODELS {
        let (Some(path), Some(folder)) = (real(file), shared("fixtures/logits")) else { continue };
        let model = load(&path);
        let mut context = context(&model, &ContextParams { n_ctx: 1024, kv_type, ..small() });
        let seq = context.new_sequence().unwrap();
        f(name, &mut context, seq, &json(&folder.join(format!("{name}.json"))), rms);
    }
}

#[test]
fn logits_and_greedy_tokens_match_the_reference() {
    compare(KvType::F32, 0.0);
    compare(KvType::F16, F16_CACHE_RMS);
}

fn compare(kv_type: KvType, more_rms: f64) {
    for_each(kv_type, |name, context, seq, expected, largest_rms| {
        let mut pairs = Vec::new();
        let (mut n_steps, mut n_top) = (0, 0);
        for prompt in expected["prompts"].as_array().unwrap() {
            context.truncate(seq, 0);
            let tokens = ids(&prompt["tokens"]);
            let mut logits = context
                .prefill(seq, &tokens, &mut |_| std::ops::ControlFlow::Continue(()))
                .unwrap()
                .unwrap()
                .to_vec();
            let top: Vec<(usize, f64)> = prompt["top"]
                .as_array()
                .unwrap()
                .iter()
                .map(|p| (p[0].as_u64().unwrap() as usize, p[1].as_f64().unwrap()))
                .collect();
            pairs.extend(top.iter().map(|(id, value)| (f64::from(logits[*id]), *value)));
            if top[0].1 - top[1].1 > MARGIN {
                assert_eq!(argmax(&logits) as usize, top[0].0, "{name} {}", prompt["name"]);
                n_top += 1;
            }
            for step in prompt["steps"].as_array().unwrap() {
                if step["gap"].as_f64().unwrap() < MARGIN {
                    break;
                }
                let token = step["token"].as_u64().unwrap() as u32;
                assert_eq!(argmax(&logits), token, "{name} {} step {n_steps}", prompt["name"]);
                logits = context.step(&[Row { seq, token, wants_logits: true }]).unwrap().to_vec();
                n_steps += 1;
            }
        }
        let rms = rms(pairs);
        eprintln!(
            "{name} {kv_type:?} cache: rms of top-20 logits {rms:.4}, {n_top} top-1 choices, {n_steps} greedy steps"
        );
        assert!(rms <= largest_rms + more_rms, "{name}: {rms}");
        assert!(n_top > 5 && n_steps > 20);
    });
}

#[test]
fn perplexity_matches_the_reference() {
    perplexity(KvType::F16, |_| PERPLEXITY_TOLERANCE);
}

#[test]
fn a_cache_in_int8_costs_this_much() {
    // The keys of qwen2.5 have a few elements that are far larger than those they share a scale with.
    perplexity(KvType::Q8_0, |name| if name.starts_with("qwen2.5") { 0.02 } else { 0.01 });
}

fn perplexity(kv_type: KvType, tolerance: impl Fn(&str) -> f64) {
    for_each(kv_type, |name, context, seq, _, _| {
        let folder = shared("fixtures/logits").unwrap();
        let expected = json(&folder.join(format!("perplexity-{name}.json")));
        let tokens = ids(&expected["tokens"]);
        let logits = all_logits(context, seq, &tokens, 128);
        let nll = |(row, next): (&Vec<f32>, &u32)| {
            let max = f64::from(row.iter().copied().fold(f32::NEG_INFINITY, f32::max));
            let sum: f64 = row.iter().map(|l| (f64::from(*l) - max).exp()).sum();
            max + sum.ln() - f64::from(row[*next as usize])
        };
        let mean = logits.iter().zip(&tokens[1..]).map(nll).sum::<f64>() / (tokens.len() - 1) as f64;
        let expected = expected["perplexity"].as_f64().unwrap();
        let off = (mean.exp() / expected - 1.0).abs();
        eprintln!(
            "{name} {kv_type:?} cache: perplexity {:.4}, reference {expected:.4}, off by {:.3} %",
            mean.exp(),
            100.0 * off
        );
        assert!(off < tolerance(name));
    });
}
