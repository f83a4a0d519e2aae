//! A prompt run step by step on a context of its own, with the time and the figures of every node.
//!
//! **Looking back.** No value is kept. Whoever asks for the value of a node gets it by running that step again on what the
//! sequence held before it: equal steps give equal bits, so what is shown is what was computed. The run then goes on where
//! it was.

mod collect;
mod json;
#[cfg(test)]
mod tests;

use std::sync::Arc;
use std::time::{Duration, Instant};

use minfer_text::tokenizer::StreamDecoder;

use crate::context::{Context, Row, SeqId};
use crate::error::EngineError;
use crate::model::Model;
use crate::params::ContextParams;
use crate::sampler::{Sampler, SamplerParams, top_logprobs};

use super::picture::{HeatMap, Histogram};
use super::stats::Stats;
use collect::{Collect, KeepOne};

/// Most tokens of the prompt in one step, so that there is something to see soon.
const MAX_CHUNK: usize = 64;

/// What a run is to do.
#[derive(Clone, Debug)]
pub struct LiveSettings {
    /// Tokens to generate.
    pub max_tokens: usize,
    /// How many of the best tokens are told for each choice.
    pub n_top: usize,
    /// How tokens are chosen.
    pub sampling: SamplerParams,
}

impl Default for LiveSettings {
    fn default() -> Self {
        let sampling = SamplerParams { temperature: 0.0, ..SamplerParams::default() };
        LiveSettings { max_tokens: 16, n_top: 10, sampling }
    }
}

/// Kind of step.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum StepKind {
    /// Several tokens of the prompt.
    Prefill,
    /// One token: a generated one, or what is left of the prompt.
    Decode,
}

/// What a step begins with.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct StepStart {
    /// Its number.
    pub step: usize,
    /// Its kind.
    pub kind: StepKind,
    /// Tokens in it.
    pub n_tokens: usize,
    /// Rows of logits that it gives.
    pub n_out: usize,
    /// Position of its first token.
    pub first: usize,
}

/// A node has run.
#[derive(Clone, Debug, PartialEq)]
pub struct NodeReport {
    /// Its name.
    pub name: Arc<str>,
    /// How long it took.
    pub time: Duration,
    /// The figures of its value, if it has one of floats.
    pub stats: Option<Stats>,
}

/// One of the best tokens.
#[derive(Clone, Debug, PartialEq)]
pub struct TopToken {
    /// Its id.
    pub id: u32,
    /// Its bytes as text.
    pub text: String,
    /// What the model gave it.
    pub logit: f32,
    /// The probability that this means.
    pub p: f64,
}

/// The token that was chosen.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Choice {
    /// Its id.
    pub id: u32,
    /// Its bytes as text.
    pub text: String,
    /// What it adds to the answer: whole characters only.
    pub adds: String,
}

/// How full the context is.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct KvFill {
    /// Tokens in it.
    pub n_tokens: usize,
    /// Tokens that fit.
    pub n_ctx: usize,
    /// Blocks in use.
    pub n_blocks: usize,
    /// Blocks that there are.
    pub n_blocks_max: usize,
}

/// Why a run has come to its end.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Stopped {
    /// As many tokens as were asked for.
    Length,
    /// The model ended its answer.
    EndOfText,
}

/// A step has run.
#[derive(Clone, Debug, PartialEq)]
pub struct StepReport {
    /// Its number.
    pub step: usize,
    /// The whole step.
    pub time: Duration,
    /// The best tokens, if logits were wanted.
    pub top: Vec<TopToken>,
    /// The token chosen from them.
    pub choice: Option<Choice>,
    /// How full the context is.
    pub kv: KvFill,
    /// Why nothing follows, if nothing does.
    pub stopped: Option<Stopped>,
}

/// What goes on.
#[derive(Clone, Debug, PartialEq)]
pub enum LiveEvent {
    /// A step begins.
    Step(StepStart),
    /// Nodes have run.
    Nodes(Vec<NodeReport>),
    /// The step has run.
    Done(StepReport),
}

/// The value of a node at a step.
#[derive(Clone, Debug, PartialEq)]
pub struct NodeValues {
    /// Extents, dimension 0 fastest.
    pub shape: [usize; 4],
    /// Its figures.
    pub stats: Stats,
    /// How its numbers are spread.
    pub histogram: Histogram,
    /// The value seen from afar.
    pub heat: HeatMap,
}

/// A run.
pub struct LiveRun {
    context: Context,
    seq: SeqId,
    sampler: Sampler,
    decoder: StreamDecoder,
    /// The prompt, and what was chosen.
    tokens: Vec<u32>,
    n_prompt: usize,
    max_tokens: usize,
    n_top: usize,
    /// The tokens of each step, as places in `tokens`.
    steps: Vec<(usize, usize)>,
    stopped: Option<Stopped>,
}

impl LiveRun {
    /// Sets a run up; `params` say how it computes, its context is as long as it has to be. `progress` sees weights done
    /// and all.
    pub fn new(
        model: &Arc<Model>,
        params: &ContextParams,
        prompt: Vec<u32>,
        settings: &LiveSettings,
        progress: &mut dyn FnMut(usize, usize),
    ) -> Result<LiveRun, EngineError> {
        if prompt.is_empty() {
            return Err(EngineError::EmptyPrompt);
        }
        let n_ctx = prompt.len() + settings.max_tokens;
        let n_ubatch = params.n_ubatch.min(MAX_CHUNK);
        let params = ContextParams { n_ctx, n_seq_max: 1, n_kv: None, n_ubatch, ..params.clone() };
        let mut context = Context::new(model, &params, progress)?;
        let seq = context.new_sequence()?;
        let mut sampler = Sampler::new(settings.sampling.clone(), model.n_vocab())?;
        prompt.iter().try_for_each(|token| sampler.accept(*token))?;
        Ok(LiveRun {
            seq,
            sampler,
            decoder: StreamDecoder::continuing(true),
            n_prompt: prompt.len(),
            tokens: prompt,
            max_tokens: settings.max_tokens,
            n_top: settings.n_top,
            steps: Vec::new(),
            stopped: None,
            context,
        })
    }

    /// The tokens of the prompt.
    pub fn prompt(&self) -> &[u32] {
        &self.tokens[..self.n_prompt]
    }

    /// Steps that have run.
    pub fn n_steps(&self) -> usize {
        self.steps.len()
    }

    /// Runs the next step and tells of it; false when there is none.
    pub fn step(&mut self, sink: &mut dyn FnMut(LiveEvent)) -> Result<bool, EngineError> {
        if self.stopped.is_some() {
            return Ok(false);
        }
        let first = self.steps.last().map_or(0, |step| step.1);
        self.hold(first)?;
        let last = self.tokens.len().min(first + self.context.n_ubatch());
        let wanted = last == self.tokens.len();
        let start = StepStart {
            step: self.steps.len(),
            kind: if last - first == 1 { StepKind::Decode } else { StepKind::Prefill },
            n_tokens: last - first,
            n_out: usize::from(wanted),
            first,
        };
        sink(LiveEvent::Step(start));
        let began = Instant::now();
        let rows = self.rows(first, last);
        let mut collect = Collect::new(sink);
        let logits = self.context.step_observed(&rows, &mut collect)?;
        let time = began.elapsed();
        collect.flush();
        let (top, chosen) = match wanted {
            true => (top_tokens(logits, self.n_top)?, Some(self.sampler.sample(logits, None)?.id)),
            false => (Vec::new(), None),
        };
        self.steps.push((first, last));
        let top = top.into_iter().map(|t| TopToken { text: self.token_text(t.id), ..t }).collect();
        let choice = chosen.map(|id| self.choose(id)).transpose()?;
        let (step, kv, stopped) = (self.steps.len() - 1, self.kv_fill(), self.stopped);
        sink(LiveEvent::Done(StepReport { step, time, top, choice, kv, stopped }));
        Ok(true)
    }

    /// The value that the node called `name` had at a step; nothing if there is no such step, node or value.
    pub fn values(&mut self, step: usize, name: &str) -> Result<Option<NodeValues>, EngineError> {
        let Some(&(first, last)) = self.steps.get(step) else { return Ok(None) };
        self.hold(first)?;
        let rows = self.rows(first, last);
        let mut keep = KeepOne::new(name);
        self.context.step_observed(&rows, &mut keep)?;
        Ok(keep.into_value().map(|(shape, values)| {
            let stats = Stats::of(values.iter().copied());
            let histogram = Histogram::of(&values, &stats);
            NodeValues { shape, stats, histogram, heat: HeatMap::of(&values, shape[0]) }
        }))
    }

    /// Makes the sequence hold the first `n` tokens, from the cache as far as it has them.
    fn hold(&mut self, n: usize) -> Result<(), EngineError> {
        if self.context.tokens(self.seq).len() != n {
            self.context.begin(self.seq, &self.tokens[..n], n)?;
        }
        while self.context.tokens(self.seq).len() < n {
            let first = self.context.tokens(self.seq).len();
            let last = n.min(first + self.context.n_ubatch());
            let row = |&token: &u32| Row { seq: self.seq, token, wants_logits: false };
            let rows: Vec<_> = self.tokens[first..last].iter().map(row).collect();
            self.context.step(&rows)?;
        }
        Ok(())
    }

    /// The rows of the step of these tokens. The last token that there is has its logits wanted; that it is the last one no
    /// more when a step is looked at later changes nothing, since only the end of the prompt and single tokens were it.
    fn rows(&self, first: usize, last: usize) -> Vec<Row> {
        let wanted = |i: usize| i + 1 == last && last >= self.n_prompt;
        let row = |i: usize| Row { seq: self.seq, token: self.tokens[i], wants_logits: wanted(i) };
        (first..last).map(row).collect()
    }

    fn choose(&mut self, id: u32) -> Result<Choice, EngineError> {
        let model = self.context.model().clone();
        self.sampler.accept(id)?;
        let mut adds = String::new();
        self.decoder.push(model.tokenizer(), id, &mut adds)?;
        let n_generated = self.tokens.len() - self.n_prompt + 1;
        if model.tokenizer().is_eog(id) {
            self.stopped = Some(Stopped::EndOfText);
        } else if n_generated >= self.max_tokens {
            self.stopped = Some(Stopped::Length);
        }
        if self.stopped.is_none() {
            self.tokens.push(id);
        }
        Ok(Choice { id, text: self.token_text(id), adds })
    }

    fn token_text(&self, id: u32) -> String {
        let bytes = self.context.model().tokenizer().token_bytes(id).unwrap_or_default();
        String::from_utf8_lossy(bytes).into_owned()
    }

    fn kv_fill(&self) -> KvFill {
        KvFill {
            n_tokens: self.context.tokens(self.seq).len(),
            n_ctx: self.context.n_ctx(),
            n_blocks: self.context.n_blocks_of(self.seq),
            n_blocks_max: self.context.n_blocks(),
        }
    }
}

/// The best tokens, their texts still to come.
fn top_tokens(logits: &[f32], n: usize) -> Result<Vec<TopToken>, EngineError> {
    let logit = |id: u32| logits.get(id as usize).copied().unwrap_or_default();
    let token = |id, logprob: f64| TopToken { id, text: String::new(), logit: logit(id), p: logprob.exp() };
    Ok(top_logprobs(logits, n)?.iter().map(|t| token(t.id, t.logprob)).collect())
}
