//! What comes back: events while it is made, and the whole at the end.

use std::time::Duration;

use crate::sampler::{SamplerState, TokenLogprob};
use crate::speculate::SpeculationReport;

/// What happens while generating.
#[derive(Clone, Debug, PartialEq)]
#[non_exhaustive]
pub enum Event {
    /// So many tokens of the prompt have been read.
    Prompt {
        /// Read so far.
        done: usize,
        /// To be read.
        total: usize,
    },
    /// A token was chosen.
    Token {
        /// Its id.
        id: u32,
        /// How probable the model found it, if that was asked for.
        logprobs: Option<StepLogprobs>,
    },
    /// Whole characters of the answer.
    Text(String),
    /// The context was full, and tokens were dropped.
    Dropped(Dropped),
    /// The conversation was too long for the context, and its oldest turn was dropped.
    DroppedTurn {
        /// Messages of the turn.
        n_messages: usize,
    },
    /// The answer is complete; nothing follows. Streams end with it.
    Done(Box<Generated>),
}

/// Tokens that were dropped because the context was full.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Dropped {
    /// Where they stood in the text as it was then, prompt and answer together.
    pub position: usize,
    /// How many.
    pub n_tokens: usize,
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
    /// The constraint says that the answer is complete.
    Complete,
    /// The time is up.
    Deadline,
    /// The caller said so.
    Interrupted,
}

/// How a constrained answer came to its end.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum ConstraintEnd {
    /// It is what the constraint describes, and no limit had a part in that.
    Whole,
    /// It is what the constraint describes, but ends earlier than it might have: the token limit, or the end of the context,
    /// was near.
    Shortened,
    /// It was broken off, and mostly is not what the constraint describes.
    Cut,
}

/// Where the time went.
#[derive(Clone, Copy, Debug, Default, PartialEq)]
pub struct Timings {
    /// Time in the queue.
    pub queued: Duration,
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
    /// What guessing ahead has brought.
    pub speculation: SpeculationReport,
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

/// Where a prompt departs from the nearest text in the prefix cache: what kept the rest from being found there.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Departure {
    /// The first token that differs, counted from the beginning of the prompt.
    pub position: usize,
    /// The token that the prompt has there.
    pub token: u32,
    /// Its text.
    pub text: String,
    /// The token that the cached text has there.
    pub cached_token: u32,
    /// Its text.
    pub cached_text: String,
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
    /// How it came to its end under its constraint, if it had one.
    pub constraint: Option<ConstraintEnd>,
    /// The stop string that ended it, if one did.
    pub stop: Option<String>,
    /// How many tokens were read, cached and generated, and where the time went.
    pub timings: Timings,
    /// The seed of its draws, also when none was asked for.
    pub seed: u64,
    /// The sampler after the last token: [`GenerateParams::resume`](crate::GenerateParams::resume) goes on with it.
    pub sampler: SamplerState,
    /// For each of its tokens; empty unless asked for.
    pub logprobs: Vec<StepLogprobs>,
    /// For each token of the prompt after the first; empty unless asked for.
    pub prompt_logprobs: Vec<StepLogprobs>,
    /// The embedding of the text, if that was asked for: as pooled, of any length.
    pub embedding: Option<Vec<f32>>,
    /// Where the prompt departs from the nearest cached text, if one begins as it does.
    pub departure: Option<Departure>,
    /// What was dropped because the context was full, in order.
    pub dropped: Vec<Dropped>,
}
