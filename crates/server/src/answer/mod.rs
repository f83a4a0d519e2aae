//! Answers on their way: what the engine says of a request becomes events that every dialect writes out.
//!
//! [`Answers`] are the choices of one request, side by side. Dropping them cancels what still runs; the engine frees its
//! memory before the next step.

mod choice;
mod event;
mod stream;
mod thoughts;
mod tokens;
mod whole;

use std::pin::Pin;
use std::sync::Arc;
use std::task::{Context, Poll};

use minfer_engine::Request;

pub(crate) use choice::Choice;
pub use event::{AnswerEvent, Delta, EndReason, Finished, Piece, TokenReport};
pub(crate) use stream::{Render, respond};
pub use whole::{Call, Whole};

use crate::error::ApiError;
use crate::notes::Notes;
use crate::reader::Reader;
use crate::state::App;

/// One answer that is to be made.
#[derive(Debug)]
pub struct Job {
    /// For the engine.
    pub request: Request,
    /// Tells the parts of the text apart.
    pub reader: Reader,
}

/// The choices of one request.
pub struct Answers {
    app: Arc<App>,
    choices: Vec<Choice>,
    /// The choice that is asked first.
    next: usize,
    /// What was looked at before its time.
    peeked: Option<(usize, Result<AnswerEvent, ApiError>)>,
    /// Tokens of the prompt.
    n_prompt: usize,
    /// For the log.
    notes: Arc<Notes>,
}

impl Answers {
    /// Submits every job; if one is refused, all are.
    pub(crate) fn submit(app: &Arc<App>, jobs: Vec<Job>) -> Result<Self, ApiError> {
        if app.is_draining() {
            return Err(ApiError::stopping());
        }
        let n_most = app.engine().max_queue();
        if jobs.len() > n_most {
            // It would find the queue full whenever it came.
            let message = format!("{} answers are more than the {n_most} that may wait at once", jobs.len());
            return Err(ApiError::bad("too_many_answers", message).at("n"));
        }
        let n_prompt = jobs.first().map_or(0, |job| job.request.prompt.len());
        let notes = Notes::current();
        // Answers to one prompt stand side by side; the log counts it once.
        let prompt = |index: usize| &jobs[index].request.prompt;
        let is_first = |index: usize| index == 0 || prompt(index) != prompt(index - 1);
        let firsts: Vec<bool> = (0..jobs.len()).map(is_first).collect();
        let submit = |(job, is_first): (Job, bool)| {
            if is_first {
                notes.prompt(job.request.prompt.len());
            }
            Choice::submit(app, job, notes.clone(), is_first)
        };
        let choices = jobs.into_iter().zip(firsts).map(submit).collect::<Result<_, _>>()?;
        Ok(Self { app: app.clone(), choices, next: 0, peeked: None, n_prompt, notes })
    }

    /// Waits for the first event, so that what goes wrong before it has a status of its own.
    pub(crate) async fn begin(mut self) -> Result<Self, ApiError> {
        match self.next().await {
            Some((_, Err(error))) => Err(error),
            first => {
                self.peeked = first;
                Ok(self)
            }
        }
    }

    /// Notes for the log that the end of the server cuts them off, and gives the error that says so.
    fn cut_off(&self) -> ApiError {
        self.notes.finish("stopping");
        ApiError::stopping()
    }

    pub(crate) fn app(&self) -> &Arc<App> {
        &self.app
    }

    /// Tokens of the prompt.
    pub fn n_prompt(&self) -> usize {
        self.n_prompt
    }

    /// How many choices there are.
    pub fn n_choices(&self) -> usize {
        self.choices.len()
    }

    /// The next event of any choice, with its index; `None` after the last.
    pub async fn next(&mut self) -> Option<(usize, Result<AnswerEvent, ApiError>)> {
        std::future::poll_fn(|cx| self.poll(cx)).await
    }

    /// The same as a poll.
    pub(crate) fn poll(
        &mut self,
        cx: &mut Context<'_>,
    ) -> Poll<Option<(usize, Result<AnswerEvent, ApiError>)>> {
        if let Some(peeked) = self.peeked.take() {
            return Poll::Ready(Some(peeked));
        }
        let (n, mut n_over) = (self.choices.len(), 0);
        for step in 0..n {
            let index = (self.next + step) % n;
            match Pin::new(&mut self.choices[index]).poll(cx) {
                Poll::Ready(Some(event)) => {
                    // The others come first next time.
                    self.next = (index + 1) % n;
                    return Poll::Ready(Some((index, event)));
                }
                Poll::Ready(None) => n_over += 1,
                Poll::Pending => {}
            }
        }
        if n_over == n { Poll::Ready(None) } else { Poll::Pending }
    }

    /// Waits for all of it.
    pub async fn whole(mut self) -> Result<Vec<Whole>, ApiError> {
        let mut all: Vec<Whole> = self.choices.iter().map(|_| Whole::default()).collect();
        while let Some((index, event)) = self.next().await {
            all[index].add(event?);
        }
        Ok(all)
    }
}
