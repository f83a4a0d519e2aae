//! An engine tells of its own run: profile, timeline, trace, each switched on and off while it is there.

#![allow(clippy::unwrap_used, reason = "tests")]

use std::path::Path;

use minfer_engine::{
    ContextParams, Engine, EngineParams, GenerateParams, LoadOptions, Model, Request, TraceSettings,
};

fn engine() -> Engine {
    let path = Path::new(env!("CARGO_MANIFEST_DIR")).join("../../tests/data/llama-q4_1.gguf");
    let model = Model::load(&path, &LoadOptions::default()).unwrap();
    let context = ContextParams { n_ctx: 128, n_threads: Some(1), n_seq_max: 2, ..ContextParams::default() };
    Engine::new(&model, &EngineParams { context, ..EngineParams::default() }).unwrap()
}

fn answer(engine: &Engine) -> Vec<u32> {
    let params = GenerateParams { n_predict: Some(6), ignore_eos: true, ..GenerateParams::default() };
    let request = Request::new(vec![5, 17, 99, 4], GenerateParams { sampler: greedy(), ..params });
    engine.submit(request).unwrap().wait().unwrap().tokens
}

fn greedy() -> minfer_engine::sampler::SamplerParams {
    minfer_engine::sampler::SamplerParams { temperature: 0.0, ..Default::default() }
}

#[test]
fn a_profile_and_a_timeline_begin_and_end_when_asked() {
    let engine = engine();
    let plain = answer(&engine);
    assert!(engine.set_profile(true).unwrap().is_none(), "nothing was added up before");
    assert!(engine.set_timeline(true).unwrap().is_none());
    assert_eq!(answer(&engine), plain, "being watched changes no answer");
    let profile = engine.set_profile(false).unwrap().expect("a profile");
    assert!(profile.rows().count() > 4 && profile.total() <= profile.wall());
    let timeline = engine.set_timeline(false).unwrap().expect("a timeline");
    assert!(timeline.events().len() > 4);
    answer(&engine);
    assert!(engine.set_profile(false).unwrap().is_none(), "it was off");
}

#[test]
fn a_trace_is_written_of_what_runs_between_its_ends() {
    let folder = tempfile::tempdir().unwrap();
    let path = folder.path().join("t.npz");
    let engine = engine();
    let plain = answer(&engine);
    engine.start_trace(TraceSettings { path: path.clone(), nodes: vec!["logits".into()] }).unwrap();
    assert_eq!(answer(&engine), plain);
    engine.finish_trace().unwrap();
    let size = std::fs::metadata(&path).unwrap().len();
    assert!(size > 6 * 423 * 4, "{size}");
    answer(&engine);
    engine.finish_trace().unwrap();
    assert_eq!(std::fs::metadata(&path).unwrap().len(), size);
    let nowhere = TraceSettings { path: folder.path().join("no/t.npz"), nodes: Vec::new() };
    assert!(engine.start_trace(nowhere).is_err());
    assert_eq!(answer(&engine), plain, "a trace that cannot be written stops nothing");
}

#[test]
fn an_engine_that_has_stopped_says_so() {
    let engine = engine();
    engine.close().unwrap();
    assert!(engine.set_profile(true).is_err());
}
