//! `minfer generate`: what follows a prompt, as token ids.

use std::time::Duration;

use minfer_engine::sampler::TokenLogprob;
use minfer_engine::{
    CompiledGrammar, ConstraintEnd, FinishReason, GenerateParams, Generated, Request, StepLogprobs, Timings,
    generate_request,
};
use minfer_text::tokenizer::Tokenizer;
use serde::Serialize;

use crate::args::GenerateArgs;
use crate::interrupt::Interrupt;
use crate::printer::{self, Printer};
use crate::shell::Shell;
use crate::token::{self, Token};
use crate::{engine, prompt};

pub(super) fn run(args: GenerateArgs, shell: &mut Shell) -> anyhow::Result<()> {
    let (name, argument) = args.model.require(args.prompt.argument.as_deref())?;
    let model = engine::load(&name, &args.model.open)?;
    let tokens = prompt::raw_ids(&model, argument, &args.prompt, &args.tokens, shell)?;
    let params = GenerateParams { n_logprobs: args.logprobs, ..args.sampling.params() };
    let grammar = args.grammar.compile(&model)?;
    let guesses = (&args.sampling.speculation, &args.model.open);
    let mut context = engine::for_requests(&model, &args.context, guesses, 1, shell)?;
    engine::load_weights(&mut context, shell)?;
    let (seq, interrupt) = (context.new_sequence()?, Interrupt::listen());
    let mut printer = Printer::new(&mut shell.out, &interrupt, !args.json);
    let constraint = grammar.as_ref().map(CompiledGrammar::constraint);
    let request = Request { constraint, ..Request::new(tokens.clone(), params) };
    let generated = generate_request(&mut context, seq, request, &mut |event| printer.event(event))?;
    printer.finish(&generated)?;
    if args.json {
        shell.out.json(&Json::of(&tokens, &generated, model.tokenizer()))?;
    } else {
        token::write_ids(&generated.tokens, &mut shell.out)?;
    }
    engine::finish(&mut context, &args.context.compute, shell)?;
    Ok(printer::check_complete(&generated)?)
}

/// The answer, as `--json` shows it.
#[derive(Serialize)]
struct Json<'a> {
    /// The prompt.
    tokens: &'a [u32],
    generated: &'a [u32],
    text: &'a str,
    finish_reason: &'static str,
    /// How it came to its end under a grammar or a schema.
    #[serde(skip_serializing_if = "Option::is_none")]
    grammar: Option<&'static str>,
    seed: u64,
    timings: JsonTimings,
    #[serde(skip_serializing_if = "Vec::is_empty")]
    logprobs: Vec<JsonStep<'a>>,
}

/// Named as llama.cpp's server names them; times in milliseconds.
#[derive(Serialize)]
struct JsonTimings {
    cache_n: usize,
    prompt_n: usize,
    prompt_ms: f64,
    prompt_per_second: f64,
    predicted_n: usize,
    predicted_ms: f64,
    predicted_per_second: f64,
}

/// One generated token.
#[derive(Serialize)]
struct JsonStep<'a> {
    #[serde(flatten)]
    chosen: JsonLogprob<'a>,
    top: Vec<JsonLogprob<'a>>,
}

#[derive(Serialize)]
struct JsonLogprob<'a> {
    #[serde(flatten)]
    token: Token<'a>,
    logprob: f64,
}

impl<'a> Json<'a> {
    fn of(tokens: &'a [u32], generated: &'a Generated, tokenizer: &'a Tokenizer) -> Self {
        let steps = generated.tokens.iter().zip(&generated.logprobs);
        Self {
            tokens,
            generated: &generated.tokens,
            text: &generated.text,
            finish_reason: finish_reason(generated.reason),
            grammar: generated.constraint.map(constraint_end),
            seed: generated.seed,
            timings: JsonTimings::of(&generated.timings),
            logprobs: steps.map(|(&id, step)| JsonStep::of(id, step, tokenizer)).collect(),
        }
    }
}

impl JsonTimings {
    fn of(timings: &Timings) -> Self {
        let ms = |time: Duration| time.as_secs_f64() * 1e3;
        Self {
            cache_n: timings.n_cached,
            prompt_n: timings.n_prompt,
            prompt_ms: ms(timings.prompt),
            prompt_per_second: timings.prompt_per_second(),
            predicted_n: timings.n_generated,
            predicted_ms: ms(timings.decode),
            predicted_per_second: timings.decode_per_second(),
        }
    }
}

impl<'a> JsonStep<'a> {
    fn of(id: u32, step: &StepLogprobs, tokenizer: &'a Tokenizer) -> Self {
        let json =
            |it: &TokenLogprob| JsonLogprob { token: Token::of(tokenizer, it.id), logprob: it.logprob };
        Self {
            chosen: json(&TokenLogprob { id, logprob: step.logprob }),
            top: step.top.iter().map(json).collect(),
        }
    }
}

fn constraint_end(end: ConstraintEnd) -> &'static str {
    match end {
        ConstraintEnd::Whole => "whole",
        ConstraintEnd::Shortened => "shortened",
        ConstraintEnd::Cut => "cut",
    }
}

fn finish_reason(reason: FinishReason) -> &'static str {
    match reason {
        FinishReason::EndOfGeneration => "end_of_generation",
        FinishReason::StopString => "stop_string",
        FinishReason::Length => "length",
        FinishReason::ContextFull => "context_full",
        FinishReason::Complete => "complete",
        FinishReason::Deadline => "deadline",
        FinishReason::Interrupted => "interrupted",
    }
}
