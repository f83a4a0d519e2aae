//! What a run tells is what a plain run computes, and looking back shows what was.

use std::path::PathBuf;
use std::sync::Arc;

use super::*;
use crate::model::LoadOptions;

const PROMPT: [u32; 9] = [5, 17, 99, 4, 250, 31, 7, 7, 120];

fn model() -> Arc<Model> {
    let path: PathBuf = [env!("CARGO_MANIFEST_DIR"), "../../tests/data/llama-q4_1.gguf"].iter().collect();
    Model::load(&path, &LoadOptions::default()).unwrap()
}

fn params() -> ContextParams {
    ContextParams { n_threads: Some(1), ..ContextParams::default() }
}

fn run(params: &ContextParams, settings: &LiveSettings) -> (LiveRun, Vec<LiveEvent>) {
    let mut run = LiveRun::new(&model(), params, PROMPT.to_vec(), settings, &mut |_, _| {}).unwrap();
    let mut events = Vec::new();
    while run.step(&mut |event| events.push(event)).unwrap() {}
    (run, events)
}

fn reports(events: &[LiveEvent]) -> Vec<&StepReport> {
    let mut reports = Vec::new();
    for event in events {
        if let LiveEvent::Done(report) = event {
            reports.push(report);
        }
    }
    reports
}

/// What nodes reported, by step.
fn nodes(events: &[LiveEvent]) -> Vec<Vec<&NodeReport>> {
    let mut steps: Vec<Vec<&NodeReport>> = Vec::new();
    for event in events {
        match event {
            LiveEvent::Step(_) => steps.push(Vec::new()),
            LiveEvent::Nodes(nodes) => steps.last_mut().unwrap().extend(nodes),
            LiveEvent::Done(_) => {}
        }
    }
    steps
}

#[test]
fn a_run_chooses_what_a_plain_context_chooses() {
    let settings = LiveSettings { max_tokens: 6, ..LiveSettings::default() };
    let (run, events) = run(&params(), &settings);
    let mut context = Context::new(&run.context.model().clone(), &params(), &mut |_, _| {}).unwrap();
    let seq = context.new_sequence().unwrap();
    let mut tokens = PROMPT.to_vec();
    for report in reports(&events) {
        let logits = context.prefill(seq, &tokens, &mut |_| std::ops::ControlFlow::Continue(())).unwrap();
        let logits = logits.unwrap().to_vec();
        let choice = report.choice.as_ref().unwrap();
        assert_eq!(report.top[0].id, choice.id);
        assert_eq!(report.top[0].logit, logits[choice.id as usize]);
        assert!(logits.iter().all(|x| *x <= report.top[0].logit));
        assert!(report.top.windows(2).all(|pair| pair[0].p >= pair[1].p) && report.top.len() == 10);
        tokens = vec![choice.id];
    }
    let last = reports(&events).last().unwrap().stopped;
    assert_eq!((run.n_steps(), last), (6, Some(Stopped::Length)));
}

#[test]
fn every_node_that_runs_is_told_with_its_figures() {
    let (run, events) = run(&params(), &LiveSettings { max_tokens: 3, ..LiveSettings::default() });
    let steps = nodes(&events);
    assert_eq!(steps.len(), run.n_steps());
    for (step, n_tokens) in steps.iter().zip([PROMPT.len(), 1, 1]) {
        let logits = step.iter().find(|n| &*n.name == "logits").unwrap();
        let stats = logits.stats.unwrap();
        assert_eq!((stats.n, stats.n_nan, stats.n_inf), (run.context.model().n_vocab(), 0, 0));
        assert!(stats.min < stats.mean as f32 && (stats.mean as f32) < stats.max && stats.rms > 0.0);
        let norm = step.iter().find(|n| &*n.name == "0.attn_norm").unwrap().stats.unwrap();
        assert_eq!(norm.n, 96 * n_tokens);
    }
    let names: Vec<_> = steps[1].iter().map(|n| &*n.name).collect();
    assert!(names.contains(&"0.qkv"), "a decode step is fused: {names:?}");
}

#[test]
fn looking_back_shows_what_was_and_the_run_goes_on() {
    let settings = LiveSettings { max_tokens: 5, ..LiveSettings::default() };
    let params = ContextParams { n_ubatch: 4, ..params() };
    let (_, plain) = run(&params, &settings);
    let mut run = LiveRun::new(&model(), &params, PROMPT.to_vec(), &settings, &mut |_, _| {}).unwrap();
    let mut events = Vec::new();
    let mut looked = 0;
    while run.step(&mut |event| events.push(event)).unwrap() {
        for (step, reported) in nodes(&events).iter().enumerate() {
            for name in ["0.attn_heads", "1.out"] {
                // A piece of the prompt without logits ends before the last layer's own output.
                let Some(told) = reported.iter().find(|n| &*n.name == name) else { continue };
                let told = told.stats.unwrap();
                let values = run.values(step, name).unwrap().unwrap();
                assert_eq!(values.stats, told, "step {step} {name}");
                assert_eq!(values.histogram.counts.iter().sum::<u64>() as usize, told.n);
                assert_eq!(values.heat.cells.len(), told.n, "a small value is shown whole");
                looked += 1;
            }
        }
    }
    assert!(looked > 20);
    let choices =
        |events: &[LiveEvent]| -> Vec<_> { reports(events).iter().map(|r| r.choice.clone()).collect() };
    assert_eq!(choices(&events), choices(&plain));
    assert_eq!(run.n_steps(), 3 + 4, "three pieces of the prompt, four tokens");
    assert_eq!(run.values(0, "no such node").unwrap(), None);
    assert_eq!(run.values(99, "logits").unwrap(), None);
}

#[test]
fn nothing_to_run_is_refused() {
    let refused = LiveRun::new(&model(), &params(), Vec::new(), &LiveSettings::default(), &mut |_, _| {});
    assert!(matches!(refused, Err(EngineError::EmptyPrompt)));
}

#[test]
fn events_as_json_have_no_number_that_json_lacks() {
    let (mut run, events) = run(&params(), &LiveSettings { max_tokens: 2, ..LiveSettings::default() });
    assert_eq!(events[0].to_json()["kind"], "prefill");
    let names: Vec<_> = events.iter().map(LiveEvent::name).collect();
    assert_eq!((names[0], *names.last().unwrap()), ("step", "done"));
    let done = events.last().unwrap().to_json();
    assert_eq!(done["stopped"], "length");
    assert_eq!(done["kv"]["n_tokens"], PROMPT.len() + 1);
    let values = run.values(0, "logits").unwrap().unwrap().to_json();
    assert!(values["heat"]["cells"].as_array().unwrap().iter().all(|x| x.is_number()));
}
