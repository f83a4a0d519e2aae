//! One answer: the engine's events become those of the server.

use std::pin::Pin;
use std::sync::Arc;
use std::task::{Context, Poll};
use std::time::Instant;

use futures_core::Stream;
use minfer_engine::{Event, EventStream, FinishReason, Generated};

use super::Job;
use super::event::{AnswerEvent, EndReason, Finished, Piece, TokenReport};
use super::thoughts::{Read, Thoughts};
use super::tokens::Tokens;
use crate::error::ApiError;
use crate::notes::Notes;
use crate::reader::Reader;
use crate::state::App;

pub(crate) struct Choice {
    app: Arc<App>,
    events: EventStream,
    reader: Reader,
    tokens: Option<Tokens>,
    thoughts: Thoughts,
    /// For the log.
    notes: Arc<Notes>,
    is_first: bool,
    n_prompt: usize,
    submitted: Instant,
    last_token: Option<Instant>,
    /// The end, while the last piece is being given.
    done: Option<Box<Finished>>,
}

impl Choice {
    /// Hands a job to the engine. `is_first` says that its prompt is not the one of the job before.
    pub(super) fn submit(
        app: &Arc<App>,
        job: Job,
        notes: Arc<Notes>,
        is_first: bool,
    ) -> Result<Self, ApiError> {
        let Job { mut request, reader } = job;
        request.deadline = app.deadline(request.deadline);
        let tokens = request.params.n_logprobs.map(|_| Tokens::new(&request.params));
        let n_prompt = request.prompt.len();
        let events = app.engine().submit(request)?;
        let submitted = Instant::now();
        Ok(Self {
            app: app.clone(),
            events,
            reader,
            tokens,
            thoughts: Thoughts::default(),
            notes,
            is_first,
            n_prompt,
            submitted,
            last_token: None,
            done: None,
        })
    }

    pub(super) fn poll(
        mut self: Pin<&mut Self>,
        cx: &mut Context<'_>,
    ) -> Poll<Option<Result<AnswerEvent, ApiError>>> {
        if let Some(done) = self.done.take() {
            return Poll::Ready(Some(Ok(AnswerEvent::Done(done))));
        }
        loop {
            let event = match Pin::new(&mut self.events).poll_next(cx) {
                Poll::Pending => return Poll::Pending,
                Poll::Ready(None) => return Poll::Ready(None),
                Poll::Ready(Some(Err(error))) => return Poll::Ready(Some(Err(error.into()))),
                Poll::Ready(Some(Ok(event))) => event,
            };
            if let Some(event) = self.take(event) {
                return Poll::Ready(Some(event));
            }
        }
    }

    /// What is to be told of an event of the engine.
    fn take(&mut self, event: Event) -> Option<Result<AnswerEvent, ApiError>> {
        match event {
            Event::Prompt { done, total } => Some(Ok(AnswerEvent::Reading { n_done: done, n_total: total })),
            Event::Token { id, logprobs } => {
                self.note_token();
                self.thoughts.token();
                if let (Some(tokens), Some(logprobs)) = (&mut self.tokens, logprobs) {
                    tokens.push(self.app.engine().model(), id, logprobs);
                }
                None
            }
            Event::Text(text) => {
                let tokens = self.tokens.as_mut().map(|tokens| tokens.shown(text.len())).unwrap_or_default();
                let piece = Piece::of(self.thoughts.read(&mut self.reader, &text), tokens);
                (!piece.is_empty()).then_some(Ok(AnswerEvent::Piece(piece)))
            }
            Event::Done(generated) => Some(self.finish(*generated)),
            _ => None,
        }
    }

    /// The last piece, if there is one; then the end.
    fn finish(&mut self, generated: Generated) -> Result<AnswerEvent, ApiError> {
        self.app.metrics().note_finished(&generated);
        if self.is_first {
            self.notes.cached(generated.timings.n_cached);
        }
        // What was generated until then is no answer that anybody asked for.
        if generated.reason == FinishReason::Interrupted {
            self.notes.finish("stopping");
            return Err(ApiError::stopping());
        }
        let is_cut = generated.reason == FinishReason::StopString;
        let ended_by_token = generated.reason == FinishReason::EndOfGeneration;
        let tokens = self.tokens.as_mut().filter(|_| !is_cut).map(|tokens| tokens.rest(ended_by_token));
        let (read, n_reasoning) = self.thoughts.finish(&mut self.reader);
        let piece = Piece::of(read, tokens.unwrap_or_default());
        let reason = EndReason::of(generated.reason, self.reader.calls_tools());
        self.notes.finish(reason.name());
        let done = Box::new(Finished { reason, n_prompt: self.n_prompt, n_reasoning, generated });
        if piece.is_empty() {
            return Ok(AnswerEvent::Done(done));
        }
        self.done = Some(done);
        Ok(AnswerEvent::Piece(piece))
    }

    fn note_token(&mut self) {
        self.notes.token();
        let now = Instant::now();
        match self.last_token.replace(now) {
            None => self.app.metrics().note_first_token(now.saturating_duration_since(self.submitted)),
            Some(last) => self.app.metrics().note_token(now.saturating_duration_since(last)),
        }
    }
}

impl Piece {
    fn of(read: Read, mut tokens: Vec<TokenReport>) -> Self {
        tokens.iter_mut().for_each(|token| token.is_thought = read.is_thought);
        Self { deltas: read.deltas, tokens }
    }

    fn is_empty(&self) -> bool {
        self.deltas.is_empty() && self.tokens.is_empty()
    }
}
