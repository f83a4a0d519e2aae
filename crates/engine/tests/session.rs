//! Sessions: what is restored goes on as if nothing had happened, and whatever is not a session of this model is refused.

#![allow(clippy::unwrap_used, clippy::print_stderr, reason = "a test may panic and says what it skips")]

mod common;

use std::ops::ControlFlow;
use std::path::Path;

use common::*;
use minfer_engine::sampler::SamplerParams;
use minfer_engine::{
    Context, ContextParams, EngineError, Fault, GenerateParams, Generated, LoadOptions, Model, SessionError,
    generate,
};
use minfer_graph::KvType;

fn seeded(n: usize) -> GenerateParams {
    let sampler = SamplerParams { seed: Some(7), repeat_penalty: 1.1, ..SamplerParams::default() };
    GenerateParams {
        n_predict: Some(n),
        sampler,
        ignore_eos: true,
        n_logprobs: Some(2),
        ..Default::default()
    }
}

fn go_on(
    context: &mut Context,
    seq: minfer_engine::SeqId,
    prompt: &[u32],
    params: &GenerateParams,
) -> Generated {
    generate(context, seq, prompt, params, &mut |_| ControlFlow::Continue(())).unwrap()
}

#[test]
fn an_answer_goes_on_in_another_process_as_if_nothing_had_happened() {
    let folder = tempfile::tempdir().unwrap();
    let path = folder.path().join("session");
    let prompt: Vec<u32> = (1..80).collect();
    for name in COMMITTED {
        let file = data().join(format!("{name}.gguf"));
        for kv_type in [KvType::F16, KvType::F32, KvType::Q8_0] {
            let params = ContextParams { kv_type, ..small() };
            let whole = {
                let mut context = context(&load(&file), &params);
                let seq = context.new_sequence().unwrap();
                go_on(&mut context, seq, &prompt, &seeded(30))
            };
            let first = {
                let mut context = context(&load(&file), &params);
                let seq = context.new_sequence().unwrap();
                let first = go_on(&mut context, seq, &prompt, &seeded(13));
                context.save_session(seq, Some(&first.sampler), &path).unwrap();
                first
            };
            let mut context = context(&load(&file), &params);
            let seq = context.new_sequence().unwrap();
            let session = context.load_session(seq, &path).unwrap();
            // The last token of an answer is not read.
            assert_eq!(session.n_tokens, prompt.len() + 12);
            let text = [&prompt[..], &first.tokens].concat();
            assert_eq!(context.tokens(seq), &text[..text.len() - 1]);
            let rest = GenerateParams { resume: session.sampler, ..seeded(17) };
            let second = go_on(&mut context, seq, &text, &rest);
            assert_eq!(second.timings.n_prompt, 1, "{name}: only the last token is read");
            assert_eq!([first.tokens, second.tokens].concat(), whole.tokens, "{name} {kv_type:?}");
            assert_eq!([first.logprobs, second.logprobs].concat(), whole.logprobs, "{name} {kv_type:?}");
        }
    }
}

#[test]
fn an_empty_sequence_can_be_saved_and_a_sampler_left_out() {
    let folder = tempfile::tempdir().unwrap();
    let path = folder.path().join("session");
    let model = load(&data().join(format!("{}.gguf", COMMITTED[0])));
    let mut context = context(&model, &small());
    let seq = context.new_sequence().unwrap();
    context.save_session(seq, None, &path).unwrap();
    let session = context.load_session(seq, &path).unwrap();
    assert_eq!((session.n_tokens, session.sampler), (0, None));
    // A context that has loaded nothing yet can be the first to load.
    let mut fresh = Context::without_weights(&model, &small()).unwrap();
    let seq = fresh.new_sequence().unwrap();
    assert_eq!(fresh.load_session(seq, &path).unwrap().n_tokens, 0);
}

fn saved(model: &std::sync::Arc<Model>, params: &ContextParams, path: &Path) -> Vec<u8> {
    let mut context = context(model, params);
    let seq = context.new_sequence().unwrap();
    let prompt: Vec<u32> = (1..50).collect();
    let answer = go_on(&mut context, seq, &prompt, &seeded(3));
    context.save_session(seq, Some(&answer.sampler), path).unwrap();
    std::fs::read(path).unwrap()
}

fn refused(context: &mut Context, path: &Path) -> SessionError {
    let seq = context.new_sequence().unwrap();
    let blocks = context.kv_blocks();
    let error = context.load_session(seq, path).unwrap_err();
    assert!(context.tokens(seq).is_empty());
    assert_eq!(context.kv_blocks().in_use, blocks.in_use, "blocks of a refused session stay free");
    context.free_sequence(seq);
    match error {
        EngineError::Session(error) => *error,
        error => panic!("{error}"),
    }
}

#[test]
fn whatever_is_torn_or_changed_is_refused() {
    let folder = tempfile::tempdir().unwrap();
    let path = folder.path().join("session");
    let model = load(&data().join(format!("{}.gguf", COMMITTED[0])));
    let good = saved(&model, &small(), &path);
    let mut context = context(&model, &small());
    for len in (0..200).chain((200..good.len()).step_by(997)).chain([good.len() - 1]) {
        std::fs::write(&path, &good[..len]).unwrap();
        let error = refused(&mut context, &path);
        assert!(
            matches!(error, SessionError::Torn { .. } | SessionError::NotASession { .. }),
            "{len} bytes: {error}"
        );
    }
    std::fs::write(&path, [&good[..], b"x"].concat()).unwrap();
    assert!(matches!(refused(&mut context, &path), SessionError::Torn { .. }));
    for at in (0..250).chain((250..good.len()).step_by(613)).chain([good.len() - 1]) {
        let mut bad = good.clone();
        bad[at] ^= 0x41;
        std::fs::write(&path, &bad).unwrap();
        refused(&mut context, &path);
    }
    // Lengths that no file has.
    for at in [92, 100] {
        for value in [u64::MAX, 1 << 62, 1 << 32, 257] {
            let mut bad = good.clone();
            bad[at..at + 8].copy_from_slice(&value.to_le_bytes());
            std::fs::write(&path, &bad).unwrap();
            let error = refused(&mut context, &path);
            let known = matches!(error, SessionError::Torn { .. } | SessionError::TooLong { .. });
            assert!(known, "{value} at {at}: {error}");
        }
    }
    std::fs::write(&path, &good).unwrap();
    let seq = context.new_sequence().unwrap();
    assert_eq!(context.load_session(seq, &path).unwrap().n_tokens, 51);
}

#[test]
fn a_session_belongs_to_its_model_and_its_cache() {
    let folder = tempfile::tempdir().unwrap();
    let path = folder.path().join("session");
    let file = data().join(format!("{}.gguf", COMMITTED[0]));
    saved(&load(&file), &small(), &path);
    let other = load(&data().join(format!("{}.gguf", COMMITTED[1])));
    let error = refused(&mut context(&other, &small()), &path);
    assert!(matches!(error, SessionError::Model { .. }), "{error}");
    let key = ("qwen2.rope.freq_base".to_string(), minfer_gguf::Value::F32(5.0));
    let options = LoadOptions { overrides: vec![key], ..LoadOptions::default() };
    let turned = Model::load(&file, &options).unwrap();
    assert!(matches!(refused(&mut context(&turned, &small()), &path), SessionError::Model { .. }));
    let params = ContextParams { kv_type: KvType::F32, ..small() };
    let error = refused(&mut context(&load(&file), &params), &path);
    assert!(error.to_string().contains("a cache of type f16, this one has f32"), "{error}");
    let tiny = ContextParams { n_ctx: 32, ..small() };
    let error = refused(&mut context(&load(&file), &tiny), &path);
    assert_eq!(EngineError::from(error).fault(), Fault::BadRequest);
    std::fs::remove_file(&path).unwrap();
    let error = refused(&mut context(&load(&file), &small()), &path);
    assert!(matches!(error, SessionError::Io { doing: "read", .. }), "{error}");
}

#[test]
fn a_session_that_cannot_be_written_leaves_the_old_one() {
    let folder = tempfile::tempdir().unwrap();
    let model = load(&data().join(format!("{}.gguf", COMMITTED[0])));
    let context = context(&model, &small());
    let seq = {
        let mut other = self::context(&model, &small());
        other.new_sequence().unwrap()
    };
    let error = context.save_session(seq, None, &folder.path().join("missing/session")).unwrap_err();
    assert_eq!(error.fault(), Fault::Device, "{error}");
}
