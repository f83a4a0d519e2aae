//! What constraints cost: compiling a grammar, and each token of an answer.
//!
//! `cargo run --release -p minfer-engine --example grammars -- MODEL.gguf [TOKENS [THREADS]]`
//!
//! Masks are computed beside the model's own work: what they cost an answer is what its tokens take more.

#![allow(clippy::print_stdout, clippy::unwrap_used, reason = "an example prints what it finds")]

use std::ops::ControlFlow;
use std::sync::{Arc, Mutex};
use std::time::{Duration, Instant};

use minfer_engine::sampler::{SamplerParams, TokenMask};
use minfer_engine::{
    ConstraintError, Context, ContextParams, EngineError, GenerateParams, Generated, Grammar, LoadOptions,
    Model, Request, SeqId, TokenConstraint, generate_request,
};
use serde_json::json;

/// Times of masks and of accepted tokens.
type Times = Arc<Mutex<[Vec<Duration>; 2]>>;

/// A constraint with a watch.
struct Timed {
    inner: Box<dyn TokenConstraint>,
    times: Times,
}

impl Timed {
    fn note(&self, which: usize, start: Instant) {
        self.times.lock().unwrap()[which].push(start.elapsed());
    }
}

impl TokenConstraint for Timed {
    fn mask(&mut self, n_left: usize) -> Result<Option<TokenMask<'_>>, ConstraintError> {
        let start = Instant::now();
        self.inner.mask(n_left)?;
        self.note(0, start);
        self.inner.mask(n_left)
    }

    fn accept(&mut self, token: u32) -> Result<bool, ConstraintError> {
        let start = Instant::now();
        let taken = self.inner.accept(token);
        self.note(1, start);
        taken
    }

    fn is_complete(&self) -> bool {
        self.inner.is_complete()
    }

    fn is_shortened(&self) -> bool {
        self.inner.is_shortened()
    }
}

fn grammars() -> Vec<(&'static str, Grammar)> {
    let item = json!({
        "type": "object",
        "properties": {
            "name": { "type": "string" },
            "age": { "type": "integer", "minimum": 0, "maximum": 150 },
            "colour": { "enum": ["red", "green", "blue"] },
            "tags": { "type": "array", "items": { "type": "string", "maxLength": 20 }, "maxItems": 5 },
            "born": { "type": "string", "format": "date" },
        },
        "required": ["name", "age", "colour", "tags", "born"],
        "additionalProperties": false,
    });
    let json = r#"root   ::= object
value  ::= object | array | string | number | ("true" | "false" | "null") ws
object ::= "{" ws ( string ":" ws value ("," ws string ":" ws value)* )? "}" ws
array  ::= "[" ws ( value ("," ws value)* )? "]" ws
string ::= "\"" ( [^"\\\x7F\x00-\x1F] | "\\" (["\\bfnrt] | "u" [0-9a-fA-F]{4}) )* "\"" ws
number ::= ("-"? ([0-9] | [1-9] [0-9]{0,15})) ("." [0-9]+)? ([eE] [-+]? [0-9] [1-9]{0,15})? ws
ws     ::= | " " | "\n" [ \t]{0,20}"#;
    vec![
        (
            "a list of people, as JSON",
            Grammar::JsonSchema(json!({ "type": "array", "items": item, "minItems": 3 })),
        ),
        ("any JSON object", Grammar::JsonObject),
        ("JSON in GBNF", Grammar::Gbnf(json.into())),
        ("sentences, as a regular expression", Grammar::Regex("([A-Z][^.\\n]{10,200}\\. ){2,6}".into())),
    ]
}

fn percentiles(times: &mut [Duration]) -> String {
    times.sort_unstable();
    let at = |p: usize| times.get((times.len() * p / 100).min(times.len().saturating_sub(1)));
    let us = |p| at(p).map_or(0.0, |t| t.as_secs_f64() * 1e6);
    let total: Duration = times.iter().sum();
    let mean = total.as_secs_f64() * 1e6 / times.len().max(1) as f64;
    format!(
        "p50 {:7.0}  p90 {:7.0}  p99 {:7.0}  most {:7.0}  mean {mean:7.0}",
        us(50),
        us(90),
        us(99),
        us(100)
    )
}

/// Time of a token behind the first.
fn us_each(answer: &Generated) -> f64 {
    answer.timings.decode.as_secs_f64() * 1e6 / answer.tokens.len().saturating_sub(1).max(1) as f64
}

/// What a token costs by itself: the middle of three answers.
fn free_step_us(
    context: &mut Context,
    seq: SeqId,
    prompt: &[u32],
    n_predict: usize,
) -> Result<f64, EngineError> {
    let mut steps = Vec::new();
    for _ in 0..3 {
        let params = GenerateParams { n_predict: Some(n_predict), ignore_eos: true, ..Default::default() };
        let request = Request::new(prompt.to_vec(), params);
        let answer = generate_request(context, seq, request, &mut |_| ControlFlow::Continue(()))?;
        steps.push(us_each(&answer));
    }
    steps.sort_by(f64::total_cmp);
    Ok(steps[1])
}

fn main() -> Result<(), EngineError> {
    let mut args = std::env::args().skip(1);
    let Some(path) = args.next() else {
        println!("usage: grammars MODEL.gguf [TOKENS [THREADS]]");
        return Ok(());
    };
    let n_predict = args.next().and_then(|n| n.parse().ok()).unwrap_or(300);
    let n_threads = args.next().and_then(|n| n.parse().ok());
    let model = Model::load(path.as_ref(), &LoadOptions::default())?;
    let start = Instant::now();
    model.compile_grammar(&Grammar::JsonObject)?;
    println!("vocabulary: {:.0} ms, once for a model", start.elapsed().as_secs_f64() * 1e3);
    let mut context = Context::new(
        &model,
        &ContextParams { n_ctx: 1024, n_threads, ..ContextParams::default() },
        &mut |_, _| {},
    )?;
    let seq = context.new_sequence()?;
    let prompt = model.encode("Four people, each with name, age, favourite colour, tags and birthday:\n")?;
    let step_us = free_step_us(&mut context, seq, &prompt, n_predict)?;
    println!("a step without a grammar: {step_us:.0} us");
    for (name, grammar) in grammars() {
        let start = Instant::now();
        let compiled = model.compile_grammar(&grammar)?;
        println!("\n{name}: compiled in {:.1} ms", start.elapsed().as_secs_f64() * 1e3);
        for temperature in [0.0, 1.5] {
            let times = Times::default();
            let constraint: Option<Box<dyn TokenConstraint>> =
                Some(Box::new(Timed { inner: compiled.constraint(), times: times.clone() }));
            let sampler = SamplerParams { temperature, seed: Some(1), ..SamplerParams::default() };
            let params = GenerateParams { n_predict: Some(n_predict), sampler, ..GenerateParams::default() };
            let request = Request { constraint, ..Request::new(prompt.clone(), params) };
            let answer = generate_request(&mut context, seq, request, &mut |_| ControlFlow::Continue(()))?;
            let (reason, n) = (answer.reason, answer.tokens.len());
            let us = us_each(&answer);
            let more = (us / step_us - 1.0) * 100.0;
            println!("  temperature {temperature}: {n} tokens, {reason:?}, {us:.0} us each: {more:+.1} %");
            let [masks, accepted] = &mut *times.lock().unwrap();
            println!("    mask   us: {}\n    accept us: {}", percentiles(masks), percentiles(accepted));
        }
    }
    Ok(())
}
