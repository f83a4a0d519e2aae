//! Company does not matter: what a request gets is bit for bit what it gets alone, whatever else the engine does.

#![allow(clippy::unwrap_used, clippy::print_stderr, reason = "a test may panic and says what it skips")]

mod common;

use std::sync::Arc;
use std::time::{Duration, Instant};

use common::*;
use minfer_engine::sampler::SamplerParams;
use minfer_engine::{
    Context, ContextParams, Engine, EngineParams, Event, EventStream, FinishReason, GenerateParams,
    Generated, Model, Request, Speculation, generate,
};
use minfer_graph::KvType;

/// A generator for the tests' own choices.
struct Random(u64);

impl Random {
    fn below(&mut self, n: usize) -> usize {
        self.0 = self.0.wrapping_mul(6_364_136_223_846_793_005).wrapping_add(1_442_695_040_888_963_407);
        (self.0 >> 33) as usize % n
    }

    fn shuffle<T>(&mut self, items: &mut [T]) {
        for i in (1..items.len()).rev() {
            items.swap(i, self.below(i + 1));
        }
    }
}

/// Prompts and settings of every kind: greedy and seeded, short and long, alike and not, with log-probabilities and
/// penalties.
struct Mix {
    prompts: Vec<Vec<u32>>,
    params: Vec<GenerateParams>,
}

impl Mix {
    /// `n` requests over `tokens`, which repeat themselves here and there, so that guesses find something.
    fn new(tokens: &[u32], n: usize, longest: usize, n_predict: usize) -> Mix {
        let mut random = Random(7);
        let text: Vec<u32> = tokens.iter().copied().cycle().take(longest + tokens.len()).collect();
        let mut mix = Mix { prompts: Vec::new(), params: Vec::new() };
        for i in 0..n {
            let len = match i % 8 {
                0 => longest,
                1 | 2 => longest / 6 + random.below(longest / 6 + 1),
                _ => 1 + random.below(longest / 8 + 1),
            };
            // Every other one begins as others do.
            let first = if i % 2 == 0 { 0 } else { random.below(tokens.len()) };
            mix.prompts.push(text[first..first + len].to_vec());
            mix.params.push(Self::params(i, n_predict));
        }
        mix
    }

    fn params(i: usize, n_predict: usize) -> GenerateParams {
        let temperature = if i.is_multiple_of(2) { 0.0 } else { 0.9 };
        let repeat_penalty = if i % 3 == 2 { 1.2 } else { 1.0 };
        let sampler =
            SamplerParams { seed: Some(i as u64), temperature, repeat_penalty, ..SamplerParams::default() };
        GenerateParams {
            n_predict: Some(n_predict - i % 3),
            sampler,
            ignore_eos: true,
            n_logprobs: Some(i % 4),
            ..GenerateParams::default()
        }
    }

    fn request(&self, i: usize, setting: &Setting) -> Request {
        let params = GenerateParams {
            speculation: setting.speculation,
            skip_cache: setting.skip_cache,
            ..self.params[i].clone()
        };
        Request { priority: (i % 3) as i32 - 1, ..Request::new(self.prompts[i].clone(), params) }
    }
}

/// What must not depend on company.
#[derive(Debug, PartialEq)]
struct Answer {
    tokens: Vec<u32>,
    text: String,
    reason: FinishReason,
    /// Bits of every log-probability.
    logprobs: Vec<(u64, Vec<(u32, u64)>)>,
}

impl Answer {
    fn of(generated: Generated) -> Answer {
        let bits = |s: &minfer_engine::StepLogprobs| {
            (s.logprob.to_bits(), s.top.iter().map(|t| (t.id, t.logprob.to_bits())).collect())
        };
        Answer {
            logprobs: generated.logprobs.iter().map(bits).collect(),
            tokens: generated.tokens,
            text: generated.text,
            reason: generated.reason,
        }
    }
}

/// One way to run the mix.
#[derive(Clone, Debug)]
struct Setting {
    n_threads: usize,
    n_seq_max: usize,
    n_ubatch: usize,
    /// Positions of the KV cache.
    n_kv: Option<usize>,
    kv_type: KvType,
    speculation: Speculation,
    skip_cache: bool,
    max_stall: Duration,
    /// Requests that come and are cancelled, for one of the mix.
    n_cancelled: usize,
    seed: u64,
}

impl Setting {
    fn plain() -> Setting {
        Setting {
            n_threads: 2,
            n_seq_max: 8,
            n_ubatch: 64,
            n_kv: None,
            kv_type: KvType::F16,
            speculation: Speculation::Off,
            skip_cache: false,
            max_stall: Duration::from_millis(250),
            n_cancelled: 0,
            seed: 1,
        }
    }

    fn context(&self, n_ctx: usize) -> ContextParams {
        ContextParams {
            n_ctx,
            n_seq_max: self.n_seq_max,
            n_kv: self.n_kv,
            kv_type: self.kv_type,
            n_outputs_max: Some(48),
            n_ubatch: self.n_ubatch,
            n_threads: Some(self.n_threads),
            ..ContextParams::default()
        }
    }
}

/// Each request in a fresh context: nothing shared, nothing cached, one step after the other.
fn alone(model: &Arc<Model>, mix: &Mix, n_ctx: usize, kv_type: KvType) -> Vec<Answer> {
    let params =
        ContextParams { n_seq_max: 1, n_threads: Some(2), n_ctx, kv_type, ..ContextParams::default() };
    let one = |i: usize| {
        let mut context: Context = context(model, &params);
        let seq = context.new_sequence().unwrap();
        let sink = &mut |_: Event| std::ops::ControlFlow::Continue(());
        Answer::of(generate(&mut context, seq, &mix.prompts[i], &mix.params[i], sink).unwrap())
    };
    (0..mix.prompts.len()).map(one).collect()
}

/// All of them in one engine, in random order, those that are cancelled in between; twice, so that the second time the
/// cache is warm.
fn together(model: &Arc<Model>, mix: &Mix, n_ctx: usize, setting: &Setting) -> [Vec<Answer>; 2] {
    let params = EngineParams {
        context: setting.context(n_ctx),
        max_stall: setting.max_stall,
        max_queue: 10_000,
        ..EngineParams::default()
    };
    let engine = match setting.speculation {
        // The model drafts for itself: every greedy guess is right, many of the others are.
        Speculation::DraftModel { .. } => Engine::with_draft(model, model, &params).unwrap(),
        _ => Engine::new(model, &params).unwrap(),
    };
    let rounds = [setting.seed, setting.seed + 1].map(|seed| round(&engine, mix, setting, seed));
    let stats = engine.stats();
    assert_eq!(stats.n_cached == 0, setting.skip_cache, "{setting:?}");
    let n_accepted: usize = rounds.iter().flatten().map(|g| g.timings.speculation.n_accepted).sum();
    assert_eq!(n_accepted > 0, setting.speculation != Speculation::Off, "{setting:?}");
    let rounds = rounds.map(|round| round.into_iter().map(Answer::of).collect());
    // What was cancelled last may still be there before.
    let context = engine.close().unwrap();
    let stats = engine.stats();
    assert_eq!((stats.blocks.in_use, stats.n_running, stats.n_waiting), (0, 0, 0), "{setting:?}");
    assert_eq!(context.kv_blocks().in_use, 0, "{setting:?}");
    rounds
}

fn round(engine: &Engine, mix: &Mix, setting: &Setting, seed: u64) -> Vec<Generated> {
    let mut random = Random(seed);
    let n = mix.prompts.len();
    let mut order: Vec<usize> = (0..n).collect();
    random.shuffle(&mut order);
    let mut streams: Vec<Option<EventStream>> = (0..n).map(|_| None).collect();
    let mut doomed = Vec::new();
    for i in order {
        for _ in 0..setting.n_cancelled {
            let request = mix.request(random.below(n), setting);
            doomed.push((random.below(8), engine.submit(request).unwrap()));
        }
        streams[i] = Some(engine.submit(mix.request(i, setting)).unwrap());
    }
    // Each of these is dropped after some events: in the queue, while its prompt is read, in the middle of its answer.
    std::thread::scope(|scope| {
        scope.spawn(move || {
            for (n_events, mut stream) in doomed {
                stream.blocking().take(n_events).for_each(|event| drop(event.unwrap()));
            }
        });
        streams.into_iter().map(|stream| stream.unwrap().wait().unwrap()).collect()
    })
}

fn check(name: &str, mix: &Mix, model: &Arc<Model>, n_ctx: usize, settings: &[Setting]) {
    let expected = alone(model, mix, n_ctx, settings[0].kv_type);
    assert!(expected.iter().any(|a| a.tokens.len() > 2), "{name}: answers are not all but empty");
    for setting in settings {
        let start = Instant::now();
        for (round, found) in ["cold", "warm"].iter().zip(together(model, mix, n_ctx, setting)) {
            for (i, (found, expected)) in found.iter().zip(&expected).enumerate() {
                assert!(
                    found == expected,
                    "{name}, {round}, request {i}, {setting:?}:\n{found:?}\n{expected:?}"
                );
            }
        }
        eprintln!(
            "{name}: {} requests are the same, cold and warm, in {:.0?}: {setting:?}",
            expected.len(),
            start.elapsed()
        );
    }
}

fn lookup() -> Speculation {
    Speculation::PromptLookup { max: 6 }
}

#[test]
fn company_does_not_matter_to_tiny_models() {
    for name in COMMITTED {
        let path = data().join(format!("{name}.gguf"));
        let (model, tokens) = (load(&path), ids(&json(&path.with_extension("json"))["tokens"]));
        let mix = Mix::new(&tokens, 32, 200, 12);
        let plain = Setting::plain;
        let settings = [
            Setting { n_threads: 1, n_seq_max: 32, ..plain() },
            Setting { n_seq_max: 3, n_ubatch: 7, n_cancelled: 2, ..plain() },
            Setting { n_ubatch: 1, seed: 5, ..plain() },
            Setting { speculation: lookup(), n_cancelled: 1, ..plain() },
            Setting {
                n_threads: 1,
                speculation: lookup(),
                n_ubatch: 33,
                max_stall: Duration::ZERO,
                ..plain()
            },
            Setting {
                speculation: Speculation::DraftModel { max: 5 },
                n_cancelled: 1,
                n_ubatch: 19,
                ..plain()
            },
            Setting { skip_cache: true, n_seq_max: 32, ..plain() },
            // Memory for one long request and little more.
            Setting { n_kv: Some(256), n_cancelled: 1, speculation: lookup(), ..plain() },
        ];
        check(name, &mix, &model, 256, &settings);
        let int8 = Setting { kv_type: KvType::Q8_0, speculation: lookup(), n_cancelled: 1, ..plain() };
        check(name, &mix, &model, 256, &[int8]);
    }
}

const SMOLLM2: &str = "smollm2-135m-instruct-q4_1.gguf";
const QWEN: &str = "qwen2.5-coder-0.5b-instruct-q4_k_m.gguf";

/// Guesses, cancellations, long chunks; and a single thread with chunks of another length.
fn two_ways() -> [Setting; 2] {
    let both = Setting { n_ubatch: 256, n_cancelled: 1, speculation: lookup(), ..Setting::plain() };
    [both, Setting { n_threads: 1, n_ubatch: 192, ..Setting::plain() }]
}

#[test]
fn company_does_not_matter_to_real_models() {
    let [both, one_thread] = two_ways();
    check_real(SMOLLM2, 32, 2000, std::slice::from_ref(&both));
    check_real(QWEN, 8, 300, &[both, one_thread]);
}

/// 32 requests with prompts of up to 2000 tokens, on both models, with one and two threads, with and without guesses, warm
/// and cold, all at once and a few at a time.
#[test]
#[ignore = "takes some ten minutes: cargo test --workspace --test company -- --ignored --nocapture"]
fn company_does_not_matter_to_real_models_in_full() {
    let [both, one_thread] = two_ways();
    let drafted = Setting {
        speculation: Speculation::DraftModel { max: 5 },
        n_ubatch: 64,
        seed: 3,
        ..Setting::plain()
    };
    let uncached = Setting { skip_cache: true, n_seq_max: 32, seed: 5, ..Setting::plain() };
    let few = Setting { n_seq_max: 2, n_ubatch: 512, n_cancelled: 1, seed: 7, ..Setting::plain() };
    check_real(SMOLLM2, 32, 2000, &[both.clone(), one_thread.clone(), drafted, uncached, few.clone()]);
    check_real(QWEN, 32, 2000, &[both, one_thread, few]);
}

/// Nothing where the model is not there.
fn check_real(file: &str, n: usize, longest: usize, settings: &[Setting]) {
    if let Some(path) = real(file) {
        let model = load(&path);
        let text = "fn main() {\n    let words = [\"once\", \"upon\", \"a\", \"time\"];\n    for word in words {\n        \
                    println!(\"{word}\");\n    }\n}\n\nSome people say that it is a matter of taste. Others do not.\n";
        let mix = Mix::new(&model.encode(text).unwrap(), n, longest, 8);
        check(file, &mix, &model, 2048, settings);
    }
}
