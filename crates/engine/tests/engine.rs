//! What an engine promises besides the bits: queue, deadlines, cancellation, priorities, full contexts, constraints,
//! explanations, guesses.

#![allow(clippy::unwrap_used, clippy::print_stderr, reason = "a test may panic and says what it skips")]

mod common;

use std::pin::pin;
use std::sync::Arc;
use std::task::{Context as TaskContext, Poll, Wake, Waker};
use std::thread::Thread;
use std::time::Duration;

use common::*;
use minfer_engine::sampler::{SamplerParams, TokenMask};
use minfer_engine::{
    ConstraintError, ContextParams, Dropped, Engine, EngineError, EngineParams, Event, Fault, FinishReason,
    GenerateParams, Generated, LoadOptions, Model, OnFull, Request, Speculation, TokenConstraint, generate,
};
use minfer_gguf::{Array, Value};

fn model() -> Arc<Model> {
    load(&data().join("qwen2-tied-q4_0.gguf"))
}

fn params(n_seq_max: usize) -> EngineParams {
    let context = ContextParams { n_seq_max, n_outputs_max: Some(32), ..small() };
    EngineParams { context, ..EngineParams::default() }
}

fn greedy(n_predict: usize) -> GenerateParams {
    let sampler = SamplerParams { temperature: 0.0, ..SamplerParams::default() };
    GenerateParams { n_predict: Some(n_predict), ignore_eos: true, sampler, ..GenerateParams::default() }
}

/// An answer that only ends when it is cancelled.
fn endless() -> GenerateParams {
    GenerateParams { on_full: OnFull::DropOldest { keep: 8 }, ..greedy(usize::MAX) }
}

fn text(seed: u32, len: usize) -> Vec<u32> {
    (0..len as u32).map(|i| 3 + (i * 37 + i * i * seed) % 90).collect()
}

fn alone(prompt: &[u32], params: &GenerateParams) -> Generated {
    let mut context = context(&model(), &small());
    let seq = context.new_sequence().unwrap();
    generate(&mut context, seq, prompt, params, &mut |_| std::ops::ControlFlow::Continue(())).unwrap()
}

/// The simplest executor there is.
fn block_on<F: Future>(future: F) -> F::Output {
    struct Unpark(Thread);
    impl Wake for Unpark {
        fn wake(self: Arc<Self>) {
            self.0.unpark();
        }
    }
    let waker = Waker::from(Arc::new(Unpark(std::thread::current())));
    let mut future = pin!(future);
    loop {
        match future.as_mut().poll(&mut TaskContext::from_waker(&waker)) {
            Poll::Ready(output) => return output,
            Poll::Pending => std::thread::park(),
        }
    }
}

#[test]
fn blocking_and_async_code_see_the_same_events() {
    let engine = Engine::new(&model(), &params(2)).unwrap();
    let request = || Request::new(text(1, 70), GenerateParams { skip_cache: true, ..greedy(5) });
    let mut stream = engine.submit(request()).unwrap();
    let blocking: Vec<Event> = stream.blocking().map(Result::unwrap).collect();
    assert!(stream.next_blocking().is_none());
    let awaited = block_on(async {
        let mut stream = engine.submit(request()).unwrap();
        let mut events = Vec::new();
        while let Some(event) = stream.next_event().await {
            events.push(event.unwrap());
        }
        events
    });
    let polled = block_on(async {
        let mut stream = pin!(engine.submit(request()).unwrap());
        let mut events = Vec::new();
        while let Some(event) =
            std::future::poll_fn(|cx| futures_core::Stream::poll_next(stream.as_mut(), cx)).await
        {
            events.push(event.unwrap());
        }
        events
    });
    for events in [&awaited, &polled] {
        let kinds = |events: &[Event]| events.iter().map(std::mem::discriminant).collect::<Vec<_>>();
        assert_eq!(kinds(events), kinds(&blocking));
    }
    let Some(Event::Done(answer)) = blocking.last() else { unreachable!("{blocking:?}") };
    let tokens = blocking.iter().filter(|e| matches!(e, Event::Token { .. })).count();
    let shown: String =
        blocking.iter().filter_map(|e| if let Event::Text(t) = e { Some(&t[..]) } else { None }).collect();
    assert_eq!((tokens, &shown), (5, &answer.text));
    assert_eq!((answer.timings.n_prompt, answer.timings.n_cached, answer.timings.n_generated), (70, 0, 5));
    assert_eq!(block_on(engine.submit(request()).unwrap().answer()).unwrap().tokens, answer.tokens);
}

#[test]
fn what_makes_no_sense_is_refused_when_it_is_submitted() {
    let engine = Engine::new(&model(), &params(1)).unwrap();
    let refused = |request| engine.submit(request).err().unwrap();
    assert!(matches!(refused(Request::default()), EngineError::EmptyPrompt));
    assert!(matches!(refused(Request::new(vec![9999], greedy(1))), EngineError::Token { id: 9999, .. }));
    assert!(matches!(refused(Request::new(vec![1; 257], greedy(1))), EngineError::ContextFull { .. }));
    let on_full = |on_full| Request::new(vec![1; 200], GenerateParams { on_full, ..greedy(58) });
    assert!(matches!(refused(on_full(OnFull::Refuse)), EngineError::ContextFull { n_tokens: 257, .. }));
    let error = refused(on_full(OnFull::DropOldest { keep: 256 }));
    assert_eq!(error.to_string(), "the part to keep is 256: it must be less than the context holds");
    let stop = GenerateParams { stop: vec![String::new()], ..greedy(1) };
    assert_eq!(refused(Request::new(vec![1], stop)).fault(), Fault::BadRequest);
}

#[test]
fn the_queue_is_bounded_and_a_closed_engine_ends_everything() {
    let engine = Engine::new(&model(), &EngineParams { max_queue: 3, ..params(1) }).unwrap();
    let mut streams = Vec::new();
    let error = loop {
        match engine.submit(Request::new(text(1, 20), endless())) {
            Ok(stream) => streams.push(stream),
            Err(error) => break error,
        }
    };
    assert!(matches!(error, EngineError::QueueFull { n_waiting: 3 }) && error.fault() == Fault::Busy);
    assert!(streams.len() >= 3);
    let context = engine.close().unwrap();
    assert_eq!(context.kv_blocks().in_use, 0);
    let reasons: Vec<_> = streams.into_iter().map(|s| s.wait().unwrap().reason).collect();
    assert!(reasons.iter().all(|reason| *reason == FinishReason::Interrupted), "{reasons:?}");
    // A closed engine has no queue that could be full.
    for _ in 0..5 {
        assert!(matches!(engine.submit(Request::new(vec![1], greedy(1))), Err(EngineError::EngineStopped)));
    }
    assert!(matches!(engine.close(), Err(EngineError::EngineStopped)));
}

#[test]
fn a_request_that_waits_too_long_is_refused_and_one_out_of_time_ends() {
    let engine = Engine::new(&model(), &params(1)).unwrap();
    let long = engine.submit(Request::new(text(1, 20), greedy(200))).unwrap();
    let request = || Request::new(text(2, 20), greedy(3));
    let waits = Request { max_wait: Some(Duration::ZERO), ..request() };
    let error = engine.submit(waits).unwrap().wait().unwrap_err();
    assert!(matches!(error, EngineError::WaitedTooLong { .. }) && error.fault() == Fault::Busy, "{error}");
    let late = Request { deadline: Some(Duration::ZERO), ..request() };
    let answer = engine.submit(late).unwrap().wait().unwrap();
    assert_eq!((answer.reason, answer.tokens.len()), (FinishReason::Deadline, 0));
    assert_eq!(long.wait().unwrap().tokens.len(), 200);
}

#[test]
fn a_dropped_stream_frees_its_blocks_and_a_cancelled_one_gives_what_there_is() {
    let engine = Engine::new(&model(), &params(2)).unwrap();
    let mut dropped = engine.submit(Request::new(text(1, 100), greedy(150))).unwrap();
    let mut cancelled = engine.submit(Request::new(text(2, 100), greedy(150))).unwrap();
    let is_token = |event: &Result<Event, EngineError>| matches!(event, Ok(Event::Token { .. }));
    assert!(dropped.blocking().any(|event| is_token(&event)));
    drop(dropped);
    assert!(cancelled.blocking().any(|event| is_token(&event)));
    cancelled.cancel();
    let answer = cancelled.wait().unwrap();
    if answer.tokens.len() < 150 {
        assert_eq!(answer.reason, FinishReason::Interrupted);
    }
    assert_eq!(answer.tokens, alone(&text(2, 100), &greedy(150)).tokens[..answer.tokens.len()]);
    let context = engine.close().unwrap();
    let blocks = context.kv_blocks();
    assert_eq!(blocks.in_use, 0);
    assert!(blocks.cached >= 6, "{blocks:?}");
}

#[test]
fn higher_priority_goes_first() {
    let engine = Engine::new(&model(), &params(1)).unwrap();
    let mut busy = engine.submit(Request::new(text(1, 20), endless())).unwrap();
    // It has the only place, before one of higher priority could take it.
    assert!(busy.blocking().any(|event| matches!(event, Ok(Event::Token { .. }))));
    let request = |priority, seed| Request { priority, ..Request::new(text(seed, 20), greedy(2)) };
    let low = engine.submit(request(-1, 2)).unwrap();
    let high = engine.submit(request(1, 3)).unwrap();
    // Both are in the queue before there is room.
    while engine.stats().n_waiting < 2 {
        std::thread::yield_now();
    }
    drop(busy);
    let (low, high) = (low.wait().unwrap().timings.queued, high.wait().unwrap().timings.queued);
    assert!(high < low, "{high:?} {low:?}");
}

#[test]
fn an_answer_tells_what_was_cached_and_where_the_prompt_departs() {
    let model = model();
    let engine = Engine::new(&model, &params(2)).unwrap();
    let first = text(1, 100);
    engine.submit(Request::new(first.clone(), greedy(2))).unwrap().wait().unwrap();
    let mut other = first.clone();
    other[70] = 7;
    let answer = engine.submit(Request::new(other, greedy(2))).unwrap().wait().unwrap();
    assert_eq!((answer.timings.n_cached, answer.timings.n_prompt), (70, 30));
    let departure = answer.departure.unwrap();
    let piece = |id| String::from_utf8_lossy(model.tokenizer().token_bytes(id).unwrap()).into_owned();
    assert_eq!((departure.position, departure.token, departure.cached_token), (70, 7, first[70]));
    assert_eq!((departure.text, departure.cached_text), (piece(7), piece(first[70])));
    // A prompt that goes on where the cached text ends departs from nothing.
    let longer = [&first[..], &text(5, 10)].concat();
    let answer = engine.submit(Request::new(longer, greedy(2))).unwrap().wait().unwrap();
    assert_eq!(answer.timings.n_cached, 100);
    let hit = engine.submit(Request::new(first, greedy(2))).unwrap().wait().unwrap();
    assert_eq!((hit.timings.n_cached, hit.departure), (99, None));
}

/// What is generated after a drop is what a run over the kept text gives.
#[test]
fn a_full_context_drops_the_oldest_and_goes_on_as_a_run_over_the_kept_text() {
    let prompt = text(1, 240);
    let on_full = OnFull::DropOldest { keep: 40 };
    let sampler = SamplerParams {
        temperature: 0.0,
        repeat_penalty: 1.3,
        repeat_last_n: -1,
        ..SamplerParams::default()
    };
    let params_of =
        |n| GenerateParams { on_full, sampler: sampler.clone(), n_logprobs: Some(2), ..greedy(n) };
    let engine = Engine::new(&model(), &params(2)).unwrap();
    let stream = engine.submit(Request::new(prompt.clone(), params_of(300))).unwrap();
    let company = engine.submit(Request::new(text(4, 30), greedy(100))).unwrap();
    let answer = stream.wait().unwrap();
    company.wait().unwrap();
    assert_eq!((answer.tokens.len(), answer.reason), (300, FinishReason::Length));
    // 257 tokens are one too many: of 40 and 217, 40 and 108 stay.
    assert_eq!(answer.dropped[0], Dropped { position: 40, n_tokens: 257 - 148 });
    assert_eq!(answer.dropped.len(), 3);
    let mut kept = [&prompt[..], &answer.tokens[..17]].concat();
    for (i, dropped) in answer.dropped.iter().enumerate() {
        kept.drain(40..40 + dropped.n_tokens);
        assert_eq!(kept.len(), 148);
        let at = 17 + 109 * i;
        let n = 109.min(300 - at);
        let fresh = alone(&kept, &params_of(n));
        assert_eq!(fresh.tokens, answer.tokens[at..at + n]);
        assert_eq!(fresh.logprobs, answer.logprobs[at..at + n]);
        kept.extend(&answer.tokens[at..at + n]);
    }
    // A prompt that is too long is cut before it is read.
    let answer = alone(&text(1, 1000), &params_of(3));
    assert_eq!(answer.dropped, [Dropped { position: 40, n_tokens: 1000 - 148 }]);
    assert_eq!(answer.timings.n_prompt, 148);
}

#[test]
fn a_full_context_ends_an_answer_unless_told_otherwise() {
    let answer = alone(&text(1, 250), &GenerateParams { n_predict: None, ..greedy(0) });
    assert_eq!((answer.reason, answer.tokens.len()), (FinishReason::ContextFull, 7));
}

#[test]
fn log_probabilities_of_a_prompt_are_those_of_its_tokens_as_answers() {
    let prompt = text(1, 90);
    let params_of = GenerateParams { n_prompt_logprobs: Some(3), n_logprobs: Some(3), ..greedy(4) };
    let engine = Engine::new(&model(), &params(2)).unwrap();
    let company = engine.submit(Request::new(text(4, 30), greedy(100))).unwrap();
    // Warm or not, all of it is read.
    let answers = [(); 2]
        .map(|()| engine.submit(Request::new(prompt.clone(), params_of.clone())).unwrap().wait().unwrap());
    company.wait().unwrap();
    for answer in answers {
        assert_eq!((answer.timings.n_cached, answer.prompt_logprobs.len()), (0, 89));
        // Forced to say the prompt, the model finds its tokens as probable.
        for at in [1, 31, 32, 64, 89] {
            let bias = vec![(prompt[at], 1e6)];
            let sampler = SamplerParams { logit_bias: bias, temperature: 0.0, ..SamplerParams::default() };
            let forced = alone(&prompt[..at], &GenerateParams { sampler, n_logprobs: Some(3), ..greedy(1) });
            assert_eq!(forced.tokens, [prompt[at]]);
            assert_eq!(forced.logprobs[0], answer.prompt_logprobs[at - 1], "{at}");
        }
        assert_eq!(answer.tokens, alone(&prompt, &greedy(4)).tokens);
    }
}

/// However few rows of logits there are, each request gets one.
#[test]
fn a_prompt_with_log_probabilities_is_read_beside_streams_that_take_all_rows() {
    let context = ContextParams { n_outputs_max: Some(0), ..params(2).context };
    let engine = Engine::new(&model(), &EngineParams { context, ..params(2) }).unwrap();
    let mut busy = engine.submit(Request::new(text(1, 20), endless())).unwrap();
    assert!(busy.blocking().any(|event| matches!(event, Ok(Event::Token { .. }))));
    let read = GenerateParams { n_prompt_logprobs: Some(1), ..greedy(2) };
    let answer = engine.submit(Request::new(text(2, 40), read)).unwrap().wait().unwrap();
    assert_eq!((answer.prompt_logprobs.len(), answer.tokens.len()), (39, 2));
}

/// Allows one token after the other, then says that it is complete.
struct Spell {
    tokens: Vec<u32>,
    words: Vec<u32>,
    accepted: Vec<u32>,
}

impl Spell {
    fn new(tokens: &[u32], n_vocab: usize) -> Box<Spell> {
        Box::new(Spell {
            tokens: tokens.to_vec(),
            words: vec![0; n_vocab.div_ceil(32)],
            accepted: Vec::new(),
        })
    }
}

impl TokenConstraint for Spell {
    fn mask(&mut self, _: usize) -> Result<Option<TokenMask<'_>>, ConstraintError> {
        let Some(next) = self.tokens.get(self.accepted.len()) else {
            return Err(ConstraintError { reason: "nothing is left".into() });
        };
        self.words.fill(0);
        self.words[*next as usize / 32] |= 1 << (next % 32);
        Ok(Some(TokenMask::new(&self.words)))
    }

    fn accept(&mut self, token: u32) -> Result<bool, ConstraintError> {
        self.accepted.push(token);
        Ok(true)
    }

    fn is_complete(&self) -> bool {
        self.accepted == self.tokens && self.tokens.last() == Some(&9)
    }
}

#[test]
fn a_constraint_decides_what_may_come() {
    let model = model();
    let engine = Engine::new(&model, &params(2)).unwrap();
    let spell = |tokens: &[u32], speculation| {
        let params = GenerateParams { speculation, ..greedy(100) };
        let constraint: Option<Box<dyn TokenConstraint>> = Some(Spell::new(tokens, model.n_vocab()));
        engine
            .submit(Request { constraint, ..Request::new(vec![5, 6, 7, 8, 5, 6, 7], params) })
            .unwrap()
            .wait()
    };
    let tokens = [8, 5, 6, 7, 8, 5, 6, 11, 9];
    for speculation in [Speculation::Off, Speculation::PromptLookup { max: 4 }] {
        let answer = spell(&tokens, speculation).unwrap();
        assert_eq!((&answer.tokens[..], answer.reason), (&tokens[..], FinishReason::Complete));
        assert_eq!(answer.timings.speculation.n_accepted > 0, speculation != Speculation::Off);
    }
    // One that fails ends its request, and no other.
    let error = spell(&[8, 5], Speculation::Off).unwrap_err();
    assert_eq!(error.to_string(), "the constraint cannot go on: nothing is left");
    assert!(spell(&tokens, Speculation::Off).is_ok());
}

#[test]
fn guesses_are_counted_and_change_nothing() {
    let model = model();
    let prompt: Vec<u32> = text(1, 12).repeat(6);
    for temperature in [0.0, 0.7] {
        let sampler = SamplerParams { temperature, seed: Some(3), ..SamplerParams::default() };
        let params_of = |speculation| GenerateParams { speculation, sampler: sampler.clone(), ..greedy(60) };
        let plain = alone(&prompt, &params_of(Speculation::Off));
        assert_eq!(plain.timings.speculation.n_guessed, 0);
        let engine = Engine::with_draft(&model, &model, &params(2)).unwrap();
        for speculation in [Speculation::PromptLookup { max: 8 }, Speculation::DraftModel { max: 8 }] {
            let answer =
                engine.submit(Request::new(prompt.clone(), params_of(speculation))).unwrap().wait().unwrap();
            assert_eq!(answer.tokens, plain.tokens, "{speculation:?}");
            let report = answer.timings.speculation;
            assert!(report.n_accepted <= report.n_guessed, "{report:?}");
            // What is drawn at random need not be what was guessed.
            assert!(report.n_accepted > 0 || temperature > 0.0, "{report:?}");
            let guesses_itself = temperature == 0.0 && speculation == Speculation::DraftModel { max: 8 };
            assert!(!guesses_itself || report.n_accepted == report.n_guessed, "{report:?}");
        }
    }
}

#[test]
fn a_draft_model_of_another_vocabulary_is_refused() {
    let key = "tokenizer.ggml.tokens";
    let Some(Value::Array(Array::String(tokens))) = model().file().metadata().get(key).cloned() else {
        unreachable!("a model without tokens")
    };
    let last = tokens.len() as u32 - 1;
    let others = tokens.iter().take(last as usize).chain(["another"]).collect();
    let overrides = vec![(key.to_owned(), Value::Array(Array::String(others)))];
    let options = LoadOptions { overrides, ..LoadOptions::default() };
    let other = Model::load(&data().join("qwen2-tied-q4_0.gguf"), &options).unwrap();
    let error = Engine::with_draft(&model(), &other, &params(1)).err().unwrap();
    assert_eq!(
        (error.fault(), error.to_string()),
        (
            Fault::BadRequest,
            format!(
                "the draft model has {0} tokens, the model {0}, and token {last} is another; they must be the same",
                last + 1
            )
        )
    );
}

#[test]
fn requests_that_begin_alike_read_the_beginning_once() {
    let engine = Engine::new(&model(), &params(8)).unwrap();
    let common = text(1, 160);
    let prompt = |i: u32| [&common[..], &text(i + 2, 20)].concat();
    let streams: Vec<_> =
        (0..8).map(|i| engine.submit(Request::new(prompt(i), greedy(4))).unwrap()).collect();
    let n_read: usize = streams.into_iter().map(|s| s.wait().unwrap().timings.n_prompt).sum();
    // The first token of the ends is the same, too, and is known where another has ended by then.
    assert!((180 + 7 * 19..=180 + 7 * 20).contains(&n_read), "{n_read}");
    assert_eq!(engine.stats().n_cached, 8 * 180 - n_read as u64);
}
