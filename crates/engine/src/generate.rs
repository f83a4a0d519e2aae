//! Generation: a prompt in, text out, one event at a time.

use std::ops::ControlFlow;
use std::time::{Duration, Instant};

use minfer_text::tokenizer::StreamDecoder;

use crate::context::{Context, Row, SeqId};
use crate::error::EngineError;
use crate::sampler::{Sampler, SamplerParams, TokenLogprob, logprob, top_logprobs};
use crate::stop::StopStrings;

/// What to generate and when to stop.
#[derive(Clone, Debug, Default)]
pub struct GenerateParams {
    /// Most tokens to generate; `None` for as many as the context holds.
    pub n_predict: Option<usize>,
    /// How tokens are chosen.
    pub sampler: SamplerParams,
    /// Texts that end the answer; they are not part of it.
    pub stop: Vec<String>,
    /// Go on after an end-of-generation token.
    pub ignore_eos: bool,
    /// Show control tokens in the text.
    pub special: bool,
    /// Note the log-probability of every token, and so many of the most probable ones beside it.
    pub n_logprobs: Option<usize>,
}

/// What happens while generating.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Event<'a> {
    /// So many tokens of the prompt have been read.
    Prompt {
        /// Read so far.
        done: usize,
        /// To be read.
        total: usize,
    },
    /// A token was chosen.
    Token(u32),
    /// Whole characters of the answer.
    Text(&'a str),
}

/// Why generation ended.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum FinishReason {
    /// The model ended its answer.
    EndOfGeneration,
    /// A stop string came up.
    StopString,
    /// As many tokens as asked for.
    Length,
    /// The context is full.
    ContextFull,
    /// The caller said so.
    Interrupted,
}

/// Where the time went.
#[derive(Clone, Copy, Debug, Default, PartialEq)]
pub struct Timings {
    /// Prompt tokens found in the context already.
    pub n_cached: usize,
    /// Prompt tokens read.
    pub n_prompt: usize,
    /// Their time.
    pub prompt: Duration,
    /// Tokens generated.
    pub n_generated: usize,
    /// Time from the first of them to the last.
    pub decode: Duration,
}

impl Timings {
    /// Prompt tokens read per second.
    pub fn prompt_per_second(&self) -> f64 {
        rate(self.n_prompt, self.prompt)
    }

    /// Tokens per second after the first, which the prompt pays for.
    pub fn decode_per_second(&self) -> f64 {
        rate(self.n_generated.saturating_sub(1), self.decode)
    }
}

fn rate(n: usize, time: Duration) -> f64 {
    if time.is_zero() { 0.0 } else { n as f64 / time.as_secs_f64() }
}

/// How probable the model itself found a token, before any stage of the sampler.
#[derive(Clone, Debug, PartialEq)]
pub struct StepLogprobs {
    /// ln p of the token that was chosen.
    pub logprob: f64,
    /// The most probable tokens, best first.
    pub top: Vec<TokenLogprob>,
}

/// A finished answer.
#[derive(Clone, Debug, PartialEq)]
pub struct Generated {
    /// Its tokens, an end-of-generation token included.
    pub tokens: Vec<u32>,
    /// Its text.
    pub text: String,
    /// Why it ended.
    pub reason: FinishReason,
    /// Where the time went.
    pub timings: Timings,
    /// The seed of its draws, also when none was asked for.
    pub seed: u64,
    /// For each of its tokens; empty unless asked for.
    pub logprobs: Vec<StepLogprobs>,
}

/// Makes the sequence hold `prompt`, reading only what differs from what it holds, then generates. `sink` may break to
/// end early; what was generated so far is returned.
pub fn generate(
    context: &mut Context,
    seq: SeqId,
    prompt: &[u32],
    params: &GenerateParams,
    sink: &mut dyn FnMut(Event<'_>) -> ControlFlow<()>,
) -> Result<Generated, EngineError> {
    let mut run = Run::new(context, seq, params)?;
    let n_cached = run.keep_common(prompt)?;
    let mut timings = Timings { n_cached, n_prompt: prompt.len() - n_cached, ..Timings::default() };
    let start = Instant::now();
    let complete = run.read(&prompt[n_cached..], sink)?;
    timings.prompt = start.elapsed();
    let reason = if complete { run.decode(sink, &mut timings)? } else { FinishReason::Interrupted };
    timings.n_generated = run.tokens.len();
    let seed = run.sampler.seed();
    Ok(Generated { tokens: run.tokens, text: run.text, reason, timings, seed, logprobs: run.logprobs })
}

struct Run<'a> {
    context: &'a mut Context,
    seq: SeqId,
    params: &'a GenerateParams,
    sampler: Sampler,
    stops: StopStrings,
    decoder: StreamDecoder,
    logits: Vec<f32>,
    tokens: Vec<u32>,
    logprobs: Vec<StepLogprobs>,
    text: String,
    piece: String,
}

impl<'a> Run<'a> {
    fn new(context: &'a mut Context, seq: SeqId, params: &'a GenerateParams) -> Result<Self, EngineError> {
        let n_vocab = context.model().n_vocab();
        Ok(Run {
            sampler: Sampler::new(params.sampler.clone(), n_vocab)?,
            stops: StopStrings::new(&params.stop)?,
            decoder: StreamDecoder::continuing(params.special),
            logits: Vec::with_capacity(n_vocab),
            tokens: Vec::new(),
            logprobs: Vec::new(),
            text: String::new(),
            piece: String::new(),
            context,
            seq,
            params,
        })
    }

    /// Forgets what differs from the prompt; at least its last token is read, since its logits are needed.
    fn keep_common(&mut self, prompt: &[u32]) -> Result<usize, EngineError> {
        if prompt.is_empty() {
            return Err(EngineError::EmptyPrompt);
        }
        let n_ctx = self.context.n_ctx();
        if prompt.len() > n_ctx {
            return Err(EngineError::ContextFull { n_tokens: prompt.len(), n_past: 0, n_ctx });
        }
        let n_vocab = self.context.model().n_vocab();
        if let Some(&id) = prompt.iter().find(|id| **id as usize >= n_vocab) {
            return Err(EngineError::Token { id, n_vocab });
        }
        let found = self.context.begin(self.seq, prompt, prompt.len() - 1)?;
        for token in prompt {
            self.sampler.accept(*token)?;
        }
        Ok(found.n_cached)
    }

    fn read(
        &mut self,
        tokens: &[u32],
        sink: &mut dyn FnMut(Event<'_>) -> ControlFlow<()>,
    ) -> Result<bool, EngineError> {
        let total = tokens.len();
        let mut chunk_done = |done| sink(Event::Prompt { done, total });
        match self.context.prefill(self.seq, tokens, &mut chunk_done)? {
            Some(logits) => {
                self.logits.clear();
                self.logits.extend_from_slice(logits);
                Ok(true)
            }
            None => Ok(false),
        }
    }

    fn decode(
        &mut self,
        sink: &mut dyn FnMut(Event<'_>) -> ControlFlow<()>,
        timings: &mut Timings,
    ) -> Result<FinishReason, EngineError> {
        let limit = self.params.n_predict.unwrap_or(usize::MAX);
        let start = Instant::now();
        let reason = loop {
            if self.tokens.len() >= limit {
                break FinishReason::Length;
            }
            let token = self.sampler.sample(&self.logits, None)?.id;
            self.sampler.accept(token)?;
            self.tokens.push(token);
            self.note_logprobs(token)?;
            timings.decode = start.elapsed();
            let ends = self.context.model().tokenizer().is_eog(token) && !self.params.ignore_eos;
            if sink(Event::Token(token)).is_break() {
                break FinishReason::Interrupted;
            }
            if ends && !self.params.special {
                break FinishReason::EndOfGeneration;
            }
            match self.show(token, sink)? {
                ControlFlow::Break(reason) => break reason,
                ControlFlow::Continue(()) if ends => break FinishReason::EndOfGeneration,
                ControlFlow::Continue(()) => {}
            }
            if self.tokens.len() >= limit {
                break FinishReason::Length;
            }
            if self.context.tokens(self.seq).len() >= self.context.n_ctx() {
                break FinishReason::ContextFull;
            }
            let logits = self.context.step(&[Row { seq: self.seq, token, wants_logits: true }])?;
            self.logits.clear();
            self.logits.extend_from_slice(logits);
        };
        if reason != FinishReason::StopString {
            self.flush(sink);
        }
        Ok(reason)
    }

    fn note_logprobs(&mut self, token: u32) -> Result<(), EngineError> {
        let Some(n) = self.params.n_logprobs else { return Ok(()) };
        let logprob = logprob(&self.logits, token)?;
        self.logprobs.push(StepLogprobs { logprob, top: top_logprobs(&self.logits, n)? });
        Ok(())
    }

    /// Turns a token into text and passes on what no stop string can claim any more.
    fn show(
        &mut self,
        token: u32,
        sink: &mut dyn FnMut(Event<'_>) -> ControlFlow<()>,
    ) -> Result<ControlFlow<FinishReason>, EngineError> {
        self.piece.clear();
        self.decoder.push(self.context.model().tokenizer(), token, &mut self.piece)?;
        let before = self.text.len();
        let stopped = self.stops.push(&self.piece, &mut self.text).is_some();
        let shown = &self.text[before..];
        if !shown.is_empty() && sink(Event::Text(shown)).is_break() {
            return Ok(ControlFlow::Break(FinishReason::Interrupted));
        }
        Ok(if stopped { ControlFlow::Break(FinishReason::StopString) } else { ControlFlow::Continue(()) })
    }

    fn flush(&mut self, sink: &mut dyn FnMut(Event<'_>) -> ControlFlow<()>) {
        self.piece.clear();
        self.decoder.finish(&mut self.piece);
        let before = self.text.len();
        if self.stops.push(&self.piece, &mut self.text).is_none() {
            self.stops.finish(&mut self.text);
        }
        let shown = &self.text[before..];
        if !shown.is_empty() {
            // The answer is over: there is nothing left to break off.
            let _ = sink(Event::Text(shown));
        }
    }
}
