//! The thread's work without the thread: all requests are there before the first step, so what happens is always the same.

use std::ops::ControlFlow;
use std::path::PathBuf;
use std::sync::Arc;
use std::sync::mpsc::channel;
use std::time::{Duration, Instant};

use super::pace::Pace;
use super::queue::Job;
use super::stream::{EventStream, channel as events};
use super::worker::{Command, Shared, Worker};
use crate::answer::{FinishReason, Generated};
use crate::context::Context;
use crate::generate::generate;
use crate::model::{LoadOptions, Model};
use crate::params::ContextParams;
use crate::request::{GenerateParams, OnFull, Request};
use crate::sampler::SamplerParams;
use crate::task::Task;

fn model() -> Arc<Model> {
    let path: PathBuf =
        [env!("CARGO_MANIFEST_DIR"), "../../tests/data/qwen2-tied-q4_0.gguf"].iter().collect();
    Model::load(&path, &LoadOptions::default()).unwrap()
}

fn context(model: &Arc<Model>, n_seq_max: usize, n_kv: Option<usize>) -> Context {
    let params = ContextParams { n_ctx: 256, n_seq_max, n_kv, ..ContextParams::default() };
    Context::new(model, &params, &mut |_, _| {}).unwrap()
}

/// The command that submits a request, and its events.
fn submit(model: &Model, request: Request) -> (Command, EventStream) {
    let (priority, (events, stream)) = (request.priority, events());
    let task = Task::new(model, 256, request).unwrap();
    let job = Job { task, events, priority, submitted: Instant::now(), deadline: None, begin_by: None };
    (Command::Submit(Box::new(job)), stream)
}

/// Runs requests that were all submitted at once; gives the answers and how often one had to give its memory back.
fn run(context: Context, requests: Vec<Request>) -> (Vec<Generated>, u64) {
    let model = context.model().clone();
    let (commands, receiver) = channel();
    let shared = Arc::new(Shared::default());
    let streams: Vec<EventStream> = requests
        .into_iter()
        .map(|request| {
            let (command, stream) = submit(&model, request);
            assert!(commands.send(command).is_ok());
            stream
        })
        .collect();
    drop(commands);
    shared.n_waiting.store(streams.len(), std::sync::atomic::Ordering::Relaxed);
    // With no time for chunks, they are as short as they get, whatever the machine does.
    let pace = Pace::new(Duration::ZERO, context.n_ubatch());
    let context = Worker::new(context, receiver, shared.clone(), pace).run();
    assert_eq!(context.kv_blocks().in_use, 0);
    let stats = shared.stats.lock().unwrap().clone();
    assert_eq!((stats.n_finished as usize, stats.n_running, stats.n_waiting), (streams.len(), 0, 0));
    assert_eq!(shared.n_waiting.load(std::sync::atomic::Ordering::Relaxed), 0);
    (streams.into_iter().map(|stream| stream.wait().unwrap()).collect(), stats.n_suspended)
}

fn text(seed: u32, len: usize) -> Vec<u32> {
    (0..len as u32).map(|i| 3 + (i * 37 + i * i * seed) % 90).collect()
}

fn request(prompt: Vec<u32>, n_predict: usize, on_full: OnFull) -> Request {
    let sampler = SamplerParams { temperature: 0.0, ..SamplerParams::default() };
    let n_predict = Some(n_predict);
    Request::new(
        prompt,
        GenerateParams { n_predict, ignore_eos: true, sampler, on_full, ..GenerateParams::default() },
    )
}

fn alone(request: &Request) -> Vec<u32> {
    let mut context = context(&model(), 1, None);
    let seq = context.new_sequence().unwrap();
    let sink = &mut |_| ControlFlow::Continue(());
    generate(&mut context, seq, &request.prompt, &request.params, sink).unwrap().tokens
}

/// Two requests share seven blocks, so there is room for a third; then their contexts are full, and what they read anew is
/// not shared.
#[test]
fn a_request_that_has_to_give_its_memory_back_ends_as_it_would_have() {
    let on_full = OnFull::DropOldest { keep: 40 };
    let requests = || {
        vec![
            request(text(1, 240), 60, on_full),
            request([text(1, 230), text(2, 10)].concat(), 60, on_full),
            request(text(3, 240), 60, on_full),
        ]
    };
    let expected: Vec<_> = requests().iter().map(alone).collect();
    let (answers, n_suspended) = run(context(&model(), 3, Some(17 * 32)), requests());
    assert!(n_suspended > 0);
    for (answer, expected) in answers.iter().zip(&expected) {
        assert_eq!(&answer.tokens, expected);
        assert_eq!(answer.dropped.len(), 1);
    }
}

#[test]
fn requests_that_do_not_fit_together_take_turns() {
    let requests = || (1..6).map(|i| request(text(i, 200), 50, OnFull::Stop)).collect::<Vec<_>>();
    let expected: Vec<_> = requests().iter().map(alone).collect();
    let (answers, n_suspended) = run(context(&model(), 4, Some(256)), requests());
    assert_eq!(n_suspended, 0);
    let tokens: Vec<_> = answers.into_iter().map(|answer| answer.tokens).collect();
    assert_eq!(tokens, expected);
}

#[test]
fn what_comes_while_an_engine_is_closed_is_ended_too() {
    let context = context(&model(), 2, None);
    let (commands, receiver) = channel();
    let shared = Arc::new(Shared::default());
    let submit = || submit(context.model(), request(text(1, 20), 30, OnFull::Stop));
    let ((before, first), (behind, second)) = (submit(), submit());
    for command in [before, Command::Close, behind] {
        assert!(commands.send(command).is_ok());
    }
    shared.n_waiting.store(2, std::sync::atomic::Ordering::Relaxed);
    let pace = Pace::new(Duration::ZERO, context.n_ubatch());
    Worker::new(context, receiver, shared.clone(), pace).run();
    for stream in [first, second] {
        let answer = stream.wait().unwrap();
        assert_eq!((answer.reason, answer.tokens.len()), (FinishReason::Interrupted, 0));
    }
    assert_eq!(shared.n_waiting.load(std::sync::atomic::Ordering::Relaxed), 0);
}

#[test]
fn an_engine_without_handles_finishes_what_it_has() {
    let model = model();
    let engine = super::Engine::new(&model, &super::EngineParams::default()).unwrap();
    let stream = engine.submit(request(text(1, 20), 30, OnFull::Stop)).unwrap();
    drop(engine);
    assert_eq!(stream.wait().unwrap().tokens.len(), 30);
}
