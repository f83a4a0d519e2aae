//! One request on its way: what its sequence shall hold, and what becomes of each row of logits.
//!
//! A task is a text (prompt, then answer) and a sequence that holds a beginning of it. Whatever the sequence lacks is read;
//! the logits after the last token give the next one. So a long prompt, a decode step, a full context that was cut and a
//! sequence that had to give its memory back are the same thing: tokens to be read. Guesses are read behind the text and
//! stay only where they turn out to be the text.

mod ahead;
mod finish;
mod prompt;
mod room;
mod text;

use std::ops::ControlFlow;
use std::time::{Duration, Instant};

use minfer_graph::Head;

use crate::answer::{Departure, Dropped, Event, FinishReason, Generated, StepLogprobs, Timings};
use crate::context::{Context, SeqId};
use crate::embed::Pool;
use crate::error::EngineError;
use crate::model::Model;
use crate::request::{GenerateParams, OnFull, Request};
use crate::sampler::{Sampler, SamplerState, logprob, top_logprobs};
use crate::speculate::Speculator;

use ahead::Ahead;
use room::{check_size, drop_oldest};
use text::TextOut;

/// Takes a task's events; may break to end it.
pub(crate) type Sink<'a> = &'a mut dyn FnMut(Event) -> ControlFlow<()>;

/// How a task ended.
pub(crate) type Outcome = Result<FinishReason, EngineError>;

/// How many of a step's rows are a task's.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub(crate) struct Share {
    /// Tokens of the text that are read.
    pub(crate) n_text: usize,
    /// Guesses behind them.
    pub(crate) n_guesses: usize,
    /// Rows of logits, which belong to the last of these tokens.
    pub(crate) n_out: usize,
}

/// What a step gives for the rows of a share.
#[derive(Clone, Copy, Debug)]
pub(crate) struct StepRows<'a> {
    pub(crate) head: Head,
    /// Rows one behind the other.
    pub(crate) values: &'a [f32],
}

pub(crate) struct Task {
    params: GenerateParams,
    constraint: Option<Ahead>,
    n_ctx: usize,
    sampler: Sampler,
    out: TextOut,
    seq: Option<SeqId>,
    /// Prompt and answer, less what was dropped.
    text: Vec<u32>,
    /// Tokens of the prompt, as it is run.
    n_prompt: usize,
    tokens: Vec<u32>,
    logprobs: Vec<StepLogprobs>,
    prompt_logprobs: Vec<StepLogprobs>,
    departure: Option<Departure>,
    dropped: Vec<Dropped>,
    /// How many of these were told.
    n_told: usize,
    pub(crate) speculator: Speculator,
    timings: Timings,
    began: Option<Instant>,
    first_logits: Option<Instant>,
    outcome: Option<Outcome>,
    /// Pools an embedding, if that is what is wanted.
    pool: Option<Pool>,
}

impl Task {
    /// Checks a request against model and context size; nothing runs yet.
    pub(crate) fn new(model: &Model, n_ctx: usize, request: Request) -> Result<Task, EngineError> {
        let (n_vocab, params) = (model.n_vocab(), request.params);
        let mut text = request.prompt;
        if text.is_empty() {
            return Err(EngineError::EmptyPrompt);
        }
        if let Some(&id) = text.iter().find(|id| **id as usize >= n_vocab) {
            return Err(EngineError::Token { id, n_vocab });
        }
        let mut sampler = Sampler::new(params.sampler.clone(), n_vocab)?;
        let out = TextOut::new(&params)?;
        check_size(text.len(), &params, n_ctx)?;
        let n_embd = model.description().hparams().n_embd;
        let pool = request.embed.map(|pooling| Pool::new(pooling, n_embd));
        let mut dropped = Vec::new();
        if let OnFull::DropOldest { keep } = params.on_full
            && text.len() > n_ctx
        {
            dropped.push(drop_oldest(&mut text, keep, n_ctx));
        }
        text.iter().try_for_each(|token| sampler.accept(*token))?;
        if let Some(state) = &params.resume {
            sampler.restore(&SamplerState { history: sampler.state().history, ..state.clone() })?;
        }
        Ok(Task {
            constraint: request.constraint.map(Ahead::new),
            n_ctx,
            sampler,
            out,
            seq: None,
            n_prompt: text.len(),
            text,
            tokens: Vec::new(),
            logprobs: Vec::new(),
            prompt_logprobs: Vec::new(),
            departure: None,
            dropped,
            n_told: 0,
            speculator: Speculator::new(params.speculation),
            timings: Timings::default(),
            began: None,
            first_logits: None,
            outcome: None,
            pool,
            params,
        })
    }

    /// Whether there is more to do.
    pub(crate) fn is_active(&self) -> bool {
        self.outcome.is_none()
    }

    /// Whether the answer has begun and its next token is one step away.
    pub(crate) fn is_streaming(&self, context: &Context) -> bool {
        !self.tokens.is_empty() && self.n_unread(context) == 1
    }

    /// Tokens of its text that its sequence lacks; all of them before it has begun.
    pub(crate) fn n_unread(&self, context: &Context) -> usize {
        self.text.len() - self.seq.map_or(0, |seq| context.tokens(seq).len().min(self.text.len()))
    }

    /// Prompt, then answer, less what was dropped.
    pub(crate) fn text(&self) -> &[u32] {
        &self.text
    }

    pub(crate) fn seq(&self) -> Option<SeqId> {
        self.seq
    }

    pub(crate) fn n_generated(&self) -> usize {
        self.tokens.len()
    }

    /// Most tokens that its sequence will ever hold. The last token of an answer is not read.
    pub(crate) fn max_len(&self) -> usize {
        if self.pool.is_some() {
            return self.text.len();
        }
        let n_left = self.params.n_predict.map_or(usize::MAX, |n| n.saturating_sub(self.tokens.len()));
        self.text.len().saturating_add(n_left.saturating_sub(1)).min(self.n_ctx)
    }

    /// Notes how long it has waited.
    pub(crate) fn set_queued(&mut self, queued: Duration) {
        self.timings.queued = queued;
    }

    /// Begins, or begins again after [`Self::suspend`], in an empty sequence or one whose contents may go: from the longest
    /// cached prefix. At least the last token is read, since its logits are needed.
    pub(crate) fn begin(&mut self, context: &mut Context, seq: SeqId) -> Result<(), EngineError> {
        let pools_all = self.pool.as_ref().is_some_and(Pool::needs_all);
        let reads_all = self.params.skip_cache || self.wants_prompt_logprobs() || pools_all;
        if let Some(pool) = &mut self.pool {
            // Begun again halfway through, it reads all of it again.
            pool.clear();
        }
        if self.wants_prompt_logprobs() {
            // Begun again halfway through the prompt, it reads all of it again.
            self.prompt_logprobs.clear();
        }
        let limit = if reads_all { 0 } else { self.text.len() - 1 };
        // Its own before anything can fail, so that it is freed with the task.
        self.seq = Some(seq);
        let found = context.begin(seq, &self.text, limit)?;
        if self.began.is_none() {
            self.began = Some(Instant::now());
            self.timings.n_cached = found.n_cached;
            self.timings.n_prompt = self.text.len() - found.n_cached;
            self.departure = found.divergence.map(|d| departure(context.model(), &self.text, d));
        }
        Ok(())
    }

    /// Gives its sequence up; it can begin again in another.
    pub(crate) fn suspend(&mut self, context: &mut Context) {
        if let Some(seq) = self.seq.take() {
            context.free_sequence(seq);
        }
    }

    /// Guesses what comes next from its own text, if that is how it guesses and the next step can verify it.
    pub(crate) fn guess_from_text(&mut self) {
        if !self.tokens.is_empty() {
            self.speculator.guess_from(&self.text);
        }
    }

    /// Its share of a step that reads at most `n_tokens` of its text and gives at most `n_out` rows of logits. Guesses go
    /// only behind the last token.
    pub(crate) fn share(&self, context: &Context, n_tokens: usize, n_out: usize) -> Share {
        let n_unread = self.n_unread(context);
        if let Some(pool) = &self.pool {
            let n_text = n_unread.min(n_tokens);
            return Share { n_text, n_guesses: 0, n_out: pool.n_rows(n_text, n_text == n_unread) };
        }
        if !self.wants_prompt_logprobs() {
            let n_text = n_unread.min(n_tokens);
            let is_last = n_text == n_unread && n_text > 0;
            let n_guesses = if is_last { self.n_guesses().min(n_out.saturating_sub(1)) } else { 0 };
            return Share { n_text, n_guesses, n_out: if is_last { 1 + n_guesses } else { 0 } };
        }
        let n_text = n_unread.min(n_tokens).min(n_out);
        Share { n_text, n_guesses: 0, n_out: n_text }
    }

    /// The tokens of its share.
    pub(crate) fn share_tokens(&self, context: &Context, share: &Share) -> impl Iterator<Item = u32> {
        let at = self.text.len() - self.n_unread(context);
        let guesses = &self.speculator.guesses()[..share.n_guesses];
        self.text[at..at + share.n_text].iter().chain(guesses).copied()
    }

    /// Whether it needs no more of a row of logits than the best token.
    pub(crate) fn takes_best(&self) -> bool {
        let params = &self.params;
        let tells = params.n_logprobs.is_some() || params.n_prompt_logprobs.is_some();
        self.sampler.takes_best() && self.constraint.is_none() && !tells
    }

    /// What it wants of a step.
    pub(crate) fn head(&self) -> Head {
        if self.pool.is_some() { Head::Hidden } else { Head::Logits }
    }

    /// Takes the rows of its share, after a step.
    pub(crate) fn commit(
        &mut self,
        context: &mut Context,
        share: &Share,
        rows: StepRows<'_>,
        sink: Sink<'_>,
    ) {
        let done = match self.pool.is_some() {
            true => Ok(self.pool_rows(context, rows.values, sink)),
            false => self.take_rows(context, share, rows, sink),
        };
        // What was guessed wrong is not part of the text, and the last token of the text is not read yet.
        if let Some(seq) = self.seq
            && share.n_guesses > 0
        {
            context.truncate(seq, self.text.len() - 1);
        }
        match done {
            Ok(ControlFlow::Continue(())) => {}
            Ok(ControlFlow::Break(reason)) => self.end(reason, sink),
            Err(error) => self.fail(error),
        }
    }

    fn take_rows(
        &mut self,
        context: &mut Context,
        share: &Share,
        rows: StepRows<'_>,
        sink: Sink<'_>,
    ) -> Result<ControlFlow<FinishReason>, EngineError> {
        let n_read = self.seq.map_or(0, |seq| context.tokens(seq).len()) - share.n_guesses;
        let model = context.model().clone();
        let head = rows.head;
        let rows: Vec<&[f32]> = rows.values.chunks_exact(context.row_len(head)).collect();
        let (prompt_rows, rows) = rows.split_at(self.n_prompt_rows(n_read, share));
        self.note_prompt(n_read, share, prompt_rows)?;
        if self.report_reading(n_read, sink).is_break() {
            return Ok(ControlFlow::Break(FinishReason::Interrupted));
        }
        if n_read < self.text.len() {
            return Ok(ControlFlow::Continue(()));
        }
        self.note_first_logits();
        let guesses = self.speculator.take(share.n_guesses);
        let mut n_accepted = 0;
        for row in rows {
            if let ControlFlow::Break(reason) = self.next_token(&model, (head, row), sink)? {
                return Ok(ControlFlow::Break(reason));
            }
            if guesses.get(n_accepted) != self.tokens.last() {
                break;
            }
            n_accepted += 1;
        }
        self.speculator.verified(guesses.len(), n_accepted);
        let flow = self.make_room(context, sink)?;
        // The next step may be one that reads a prompt beside this sequence.
        let n_threads = context.n_threads().max(context.n_threads_batch());
        if flow.is_continue() && ahead::has_core_beside(n_threads) {
            self.begin_mask();
        }
        Ok(flow)
    }

    /// Has the mask of the next token computed while the next step runs.
    fn begin_mask(&mut self) {
        let n_left = self.n_left();
        if let Some(constraint) = &mut self.constraint {
            constraint.begin(n_left);
        }
    }

    /// Draws the next token from its row.
    fn next_token(
        &mut self,
        model: &Model,
        (head, row): (Head, &[f32]),
        sink: Sink<'_>,
    ) -> Result<ControlFlow<FinishReason>, EngineError> {
        let limit = self.params.n_predict.unwrap_or(usize::MAX);
        if limit == 0 {
            return Ok(ControlFlow::Break(FinishReason::Length));
        }
        let token = match (head, row) {
            (Head::Best, [place, logit]) => self.sampler.take_best(*place, *logit)?,
            _ => self.draw(row)?,
        };
        self.sampler.accept(token)?;
        self.tokens.push(token);
        self.text.push(token);
        if let Some(start) = self.first_logits {
            self.timings.decode = start.elapsed();
        }
        let logprobs = self.params.n_logprobs.map(|n| step_logprobs(row, token, n)).transpose()?;
        self.logprobs.extend(logprobs.clone());
        if sink(Event::Token { id: token, logprobs }).is_break() {
            return Ok(ControlFlow::Break(FinishReason::Interrupted));
        }
        self.after_token(model, token, sink)
    }

    /// A token that the constraint takes. Each one that it refuses is missing from its next mask.
    fn draw(&mut self, logits: &[f32]) -> Result<u32, EngineError> {
        let n_left = self.n_left();
        let Some(constraint) = &mut self.constraint else { return Ok(self.sampler.sample(logits, None)?.id) };
        let constraint = constraint.here()?;
        loop {
            let token = self.sampler.sample(logits, constraint.mask(n_left)?)?.id;
            if constraint.accept(token)? {
                return Ok(token);
            }
        }
    }

    /// Tokens that may still come.
    fn n_left(&self) -> usize {
        let n_left = self.params.n_predict.map_or(usize::MAX, |n| n.saturating_sub(self.tokens.len()));
        let n_room =
            if self.can_drop() { usize::MAX } else { (self.n_ctx + 1).saturating_sub(self.text.len()) };
        n_left.min(n_room)
    }

    /// Shows a token, and finds out whether the answer ends with it.
    fn after_token(
        &mut self,
        model: &Model,
        token: u32,
        sink: Sink<'_>,
    ) -> Result<ControlFlow<FinishReason>, EngineError> {
        let ends = model.tokenizer().is_eog(token) && !self.params.ignore_eos;
        if ends && !self.params.special {
            return Ok(ControlFlow::Break(FinishReason::EndOfGeneration));
        }
        let (shown, stopped) = self.out.push(model.tokenizer(), token)?;
        if !shown.is_empty() && sink(Event::Text(shown.to_owned())).is_break() {
            return Ok(ControlFlow::Break(FinishReason::Interrupted));
        }
        let is_full = self.text.len() > self.n_ctx && !self.can_drop();
        let reasons = [
            (stopped, FinishReason::StopString),
            (ends, FinishReason::EndOfGeneration),
            (self.constraint.as_ref().is_some_and(Ahead::is_complete), FinishReason::Complete),
            (self.params.n_predict.is_some_and(|n| self.tokens.len() >= n), FinishReason::Length),
            (is_full, FinishReason::ContextFull),
        ];
        Ok(match reasons.into_iter().find(|(holds, _)| *holds) {
            Some((_, reason)) => ControlFlow::Break(reason),
            None => ControlFlow::Continue(()),
        })
    }

    fn note_first_logits(&mut self) {
        if self.first_logits.is_none() {
            self.first_logits = Some(Instant::now());
            self.timings.prompt = self.began.map_or(Duration::ZERO, |began| began.elapsed());
        }
    }

    /// Guesses that still make sense: no more than the answer may be long, and the context.
    fn n_guesses(&self) -> usize {
        let n_left = self.params.n_predict.map_or(usize::MAX, |n| n.saturating_sub(self.tokens.len()));
        let n_room = self.n_ctx.saturating_sub(self.text.len());
        self.speculator.guesses().len().min(n_left.saturating_sub(1)).min(n_room)
    }
}

fn step_logprobs(logits: &[f32], token: u32, n_top: usize) -> Result<StepLogprobs, EngineError> {
    Ok(StepLogprobs { logprob: logprob(logits, token)?, top: top_logprobs(logits, n_top)? })
}

fn departure(model: &Model, prompt: &[u32], found: crate::kv::Divergence) -> Departure {
    let token = prompt.get(found.position).copied().unwrap_or(0);
    let text =
        |id| String::from_utf8_lossy(model.tokenizer().token_bytes(id).unwrap_or_default()).into_owned();
    Departure {
        position: found.position,
        token,
        text: text(token),
        cached_token: found.cached,
        cached_text: text(found.cached),
    }
}

impl Task {
    /// Takes what it has made; the sequence is left to the caller.
    pub(crate) fn into_answer(mut self) -> Result<Generated, EngineError> {
        let reason = self.outcome.take().unwrap_or(Ok(FinishReason::Interrupted))?;
        self.timings.n_generated = self.tokens.len();
        self.timings.speculation = self.speculator.report();
        Ok(Generated {
            tokens: self.tokens,
            stop: self.out.stop().filter(|_| reason == FinishReason::StopString).map(str::to_owned),
            text: self.out.into_text(),
            reason,
            constraint: self.constraint.as_ref().map(|constraint| constraint.end(reason)),
            timings: self.timings,
            seed: self.sampler.seed(),
            sampler: self.sampler.state(),
            logprobs: self.logprobs,
            prompt_logprobs: self.prompt_logprobs,
            embedding: self.pool.as_ref().map(Pool::finish),
            departure: self.departure,
            dropped: self.dropped,
        })
    }
}
