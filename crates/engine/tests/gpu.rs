//! Models on a GPU backend: the float reference's tokens, the same bits for any chunk, neighbour and fusion, and part of the
//! layers here, part there. Runs on the first adapter that the machine shows, software or not; where it shows none, the tests
//! say so and pass.

#![cfg(feature = "gpu")]
#![allow(clippy::unwrap_used, clippy::print_stderr, reason = "a test may panic and says what it skips")]

mod common;

use std::ops::ControlFlow;
use std::sync::{Arc, Mutex};

use common::*;
use minfer_engine::memory::Plan;
use minfer_engine::sampler::SamplerParams;
use minfer_engine::{
    Context, ContextParams, EngineError, Fault, GenerateParams, GpuLayers, Model, Row, Speculation, devices,
    generate,
};
use minfer_graph::{Backend, GraphType, KvType};

/// Weights are dequantized and activations stay f32, so only the order of additions differs from the reference: what the CPU
/// is allowed with float weights.
const TOLERANCE: f64 = 2e-3;

/// A cache in half precision: 2^-11 of each key and value.
const SAFE_GAP: f64 = 0.02;

const ALL: usize = usize::MAX;

fn device() -> Option<String> {
    let all = devices();
    let found = all.iter().find(|d| d.backend != Backend::CPU && d.name != "-");
    if found.is_none() {
        eprintln!("SKIPPED: this machine shows no adapter, so no model was run on one");
    }
    found.map(|d| d.name.clone())
}

fn on(device: &str, n_layers: usize) -> ContextParams {
    let gpu_layers = GpuLayers::Count(n_layers);
    ContextParams { gpu_layers, device: Some(device.into()), n_threads: Some(2), ..small() }
}

/// Logits after every prompt token and every greedy one.
fn run(context: &mut Context, prompt: &[u32], chunk: usize, n_decode: usize) -> (Vec<Vec<f32>>, Vec<u32>) {
    let seq = context.new_sequence().unwrap();
    let mut rows = all_logits(context, seq, prompt, chunk);
    let mut tokens = Vec::new();
    for _ in 0..n_decode {
        let token = argmax(rows.last().unwrap());
        tokens.push(token);
        rows.push(context.step(&[Row { seq, token, wants_logits: true }]).unwrap().to_vec());
    }
    context.free_sequence(seq);
    (rows, tokens)
}

fn bits(rows: &[Vec<f32>]) -> Vec<u32> {
    rows.iter().flatten().map(|x| x.to_bits()).collect()
}

#[test]
fn logits_and_greedy_tokens_match_the_float_reference() {
    let Some(device) = device() else { return };
    let mut n_compared = 0;
    for (path, expected) in tiny_models() {
        let name = path.file_stem().unwrap().to_string_lossy().into_owned();
        let model = load(&path);
        let prompt = ids(&expected["tokens"]);
        let params = ContextParams { kv_type: KvType::F32, ..on(&device, ALL) };
        let (rows, _) = run(&mut context(&model, &params), &prompt, 64, 0);
        let reference = expected["last_logits"].as_array().unwrap();
        let pairs = rows.last().unwrap().iter().zip(reference);
        let off = pairs.map(|(a, b)| (f64::from(*a) - b.as_f64().unwrap()).abs());
        let worst = off.fold(0.0, f64::max);
        assert!(worst < TOLERANCE, "{name}: worst difference {worst}");

        let gaps = expected["greedy_gaps"].as_array().unwrap();
        let safe = gaps.iter().take_while(|g| g.as_f64().unwrap() >= SAFE_GAP).count();
        let (_, greedy) = run(&mut context(&model, &on(&device, ALL)), &prompt, 64, safe);
        assert_eq!(greedy, ids(&expected["greedy"])[..safe], "{name}");
        eprintln!("{name}: worst {worst:.1e}, {safe} safe steps");
        n_compared += safe;
    }
    assert!(n_compared >= 12, "only {n_compared} steps were safe to compare");
}

#[test]
fn neither_chunk_nor_fusion_nor_company_changes_the_bits() {
    let Some(device) = device() else { return };
    for name in COMMITTED {
        let path = data().join(format!("{name}.gguf"));
        let model = load(&path);
        let prompt: Vec<u32> = ids(&json(&path.with_extension("json"))["tokens"]);
        let prompt: Vec<u32> = prompt.iter().copied().cycle().take(90).collect();
        let base = on(&device, ALL);
        let (expected, tokens) = run(&mut context(&model, &base), &prompt, 90, 4);
        assert!(expected.iter().flatten().any(|x| x.abs() > 0.1), "{name}: logits are all but zero");
        for chunk in [1, 7, 64] {
            let (rows, _) = run(&mut context(&model, &base), &prompt, chunk, 4);
            assert!(bits(&rows) == bits(&expected), "{name}: chunks of {chunk} change bits");
        }
        for (fuse_qkv, fuse_ffn) in [(false, true), (true, false), (false, false)] {
            let params = ContextParams { fuse_qkv, fuse_ffn, ..base.clone() };
            let (rows, _) = run(&mut context(&model, &params), &prompt, 90, 4);
            assert!(bits(&rows) == bits(&expected), "{name}: fusion {fuse_qkv} {fuse_ffn} changes bits");
        }
        let rows = in_company(&model, &base, &prompt, &tokens);
        assert!(bits(&rows) == bits(&expected[prompt.len() - 1..]), "{name}: company changes bits");
    }
}

/// Logits of a sequence whose every step is shared with two others.
fn in_company(model: &Arc<Model>, base: &ContextParams, prompt: &[u32], tokens: &[u32]) -> Vec<Vec<f32>> {
    let mut context = context(model, &ContextParams { n_seq_max: 3, ..base.clone() });
    let [a, seq, b] = [(); 3].map(|()| context.new_sequence().unwrap());
    let row = |seq, token, wants_logits| Row { seq, token, wants_logits };
    let mut rows: Vec<_> = prompt[..40].iter().map(|t| row(a, *t, false)).collect();
    rows.extend(prompt.iter().enumerate().map(|(i, t)| row(seq, *t, i + 1 == prompt.len())));
    rows.extend(prompt[5..20].iter().map(|t| row(b, *t, false)));
    let mut out = vec![context.step(&rows).unwrap().to_vec()];
    for token in tokens {
        let rows = [row(a, prompt[3], false), row(seq, *token, true), row(b, prompt[7], false)];
        out.push(context.step(&rows).unwrap().to_vec());
    }
    out
}

#[test]
fn half_the_layers_on_the_device_give_the_same_tokens() {
    let Some(device) = device() else { return };
    for name in COMMITTED {
        let path = data().join(format!("{name}.gguf"));
        let model = load(&path);
        let expected = json(&path.with_extension("json"));
        let prompt = ids(&expected["tokens"]);
        let n_layers = model.description().hparams().n_layers;
        let half = n_layers.div_ceil(2);
        let gaps = expected["greedy_gaps"].as_array().unwrap();
        // The layers on the CPU quantize activations.
        let float = name.ends_with("f32") || name.ends_with("bf16");
        let gap = if float { SAFE_GAP } else { 0.5 };
        let safe = gaps.iter().take_while(|g| g.as_f64().unwrap() >= gap).count();
        let mut context = context(&model, &on(&device, half));
        let (_, greedy) = run(&mut context, &prompt, 64, safe.max(1));
        assert_eq!(greedy[..safe], ids(&expected["greedy"])[..safe], "{name}");

        let decode = context.params(1, 1, GraphType::Decode);
        let compiled = context.scheduler_mut().compiled(&decode).unwrap();
        let splits: Vec<_> = compiled.splits.iter().map(|s| s.backend != Backend::CPU).collect();
        // Embedding here, layers there, the rest here.
        assert_eq!(splits, [false, true, false], "{name}");
        assert!(!compiled.splits[1].copies.is_empty() && !compiled.splits[2].copies.is_empty());
    }
}

#[test]
fn greedy_answers_are_found_on_the_device_and_are_those_of_the_logits() {
    let Some(device) = device() else { return };
    let path = data().join(format!("{}.gguf", COMMITTED[0]));
    let model = load(&path);
    let prompt = ids(&json(&path.with_extension("json"))["tokens"]);
    let mut context = context(&model, &on(&device, ALL));
    let used: Arc<Mutex<Vec<String>>> = Arc::default();
    let noted = used.clone();
    context.scheduler_mut().on_prepared(Box::new(move |uses| {
        noted.lock().unwrap().extend(uses.iter().map(|u| u.kernel.clone()));
    }));
    let mut answer = |change: &dyn Fn(&mut GenerateParams)| {
        let sampler = SamplerParams { temperature: 0.0, ..SamplerParams::default() };
        let mut params = GenerateParams { n_predict: Some(12), sampler, ..GenerateParams::default() };
        params.ignore_eos = true;
        change(&mut params);
        used.lock().unwrap().clear();
        let seq = context.new_sequence().unwrap();
        let tokens =
            generate(&mut context, seq, &prompt, &params, &mut |_| ControlFlow::Continue(())).unwrap().tokens;
        context.free_sequence(seq);
        context.scheduler_mut().forget_graphs();
        (tokens, used.lock().unwrap().iter().any(|k| k == "f32-argmax"))
    };
    let (expected, found_there) = answer(&|params| params.n_logprobs = Some(0));
    assert!(!found_there && expected.len() == 12);
    assert_eq!(answer(&|_| {}), (expected.clone(), true));
    // Guesses are verified so, too.
    let guessing = |params: &mut GenerateParams| params.speculation = Speculation::PromptLookup { max: 4 };
    assert_eq!(answer(&guessing), (expected, true));
    // Whatever changes logits needs all of them.
    assert!(!answer(&|params| params.sampler.repeat_penalty = 1.1).1);
    assert!(!answer(&|params| params.sampler.logit_bias = vec![(3, 1.0)]).1);
    assert!(!answer(&|params| params.sampler.temperature = 0.5).1);
}

#[test]
fn a_cache_that_the_device_cannot_hold_is_refused_before_anything_is_loaded() {
    let Some(device) = device() else { return };
    let model = load(&data().join(format!("{}.gguf", COMMITTED[0])));
    let refused = |params: &ContextParams| match Context::without_weights(&model, params) {
        Err(e @ EngineError::DeviceCache { .. }) => (e.fault(), e.to_string()),
        Err(other) => panic!("{other}"),
        Ok(_) => panic!("{params:?} was not refused"),
    };
    for n_layers in [1, ALL] {
        let (fault, what) = refused(&ContextParams { kv_type: KvType::Q8_0, ..on(&device, n_layers) });
        assert_eq!(fault, Fault::Unsupported);
        assert!(what.contains("no kernel there works on one of q8_0, the KV cache is F16 or F32"), "{what}");
        assert!(what.contains(&device) && what.contains("--gpu-layers 0"), "{what}");
    }
    // More positions than any device gives a kernel at once.
    let long = ContextParams { n_ctx: 1 << 29, kv_type: KvType::F32, ..on(&device, ALL) };
    let (fault, what) = refused(&long);
    assert_eq!(fault, Fault::OutOfMemory);
    assert!(what.contains("keys of layer 0 take") && what.contains("positions fit"), "{what}");
    // The context that is said to fit is not refused for this reason.
    let fits: usize =
        what.split(" positions fit").next().unwrap().rsplit(' ').next().unwrap().parse().unwrap();
    for (n_ctx, is_refused) in [(fits, false), (fits + 1, true)] {
        let params = ContextParams { n_ctx, ..long.clone() };
        let found = Plan::new(&model, &params);
        assert_eq!(matches!(found, Err(EngineError::DeviceCache { .. })), is_refused, "{n_ctx}");
    }
    // Layers that stay on the CPU are no matter of the device.
    let elsewhere = ContextParams { kv_type: KvType::Q8_0, gpu_layers: GpuLayers::Count(0), ..small() };
    assert!(Context::without_weights(&model, &elsewhere).is_ok());
}

#[test]
fn a_real_model_gives_the_same_tokens_on_the_device() {
    let Some(device) = device() else { return };
    let Some(path) = real("smollm2-135m-instruct-q4_1.gguf") else { return };
    let Some(fixture) = shared("fixtures/logits/smollm2-135m.json") else { return };
    let model = load(&path);
    let case = &json(&fixture)["prompts"][0];
    let prompt = ids(&case["tokens"]);
    // A software adapter takes seconds for a token.
    let steps = case["steps"].as_array().unwrap().iter();
    let safe = steps.take_while(|s| s["gap"].as_f64().unwrap() >= SAFE_GAP).count().min(4);
    assert!(safe > 2);
    let (_, greedy) = run(&mut context(&model, &on(&device, ALL)), &prompt, 64, safe);
    assert_eq!(greedy, ids(&case["greedy"])[..safe]);
}
