//! What is told of a prompt while it is read.

use std::ops::ControlFlow;

use crate::answer::{Event, FinishReason};
use crate::context::Context;
use crate::error::EngineError;

use super::{Share, Sink, Task, step_logprobs};

impl Task {
    pub(super) fn wants_prompt_logprobs(&self) -> bool {
        self.params.n_prompt_logprobs.is_some() && self.prompt_logprobs.len() + 1 < self.n_prompt
    }

    /// Rows of a share that speak of tokens of the prompt.
    pub(super) fn n_prompt_rows(&self, n_read: usize, share: &Share) -> usize {
        if !self.wants_prompt_logprobs() {
            return 0;
        }
        // The row after a token speaks of the next one; the last row of the prompt speaks of the answer.
        share.n_out - usize::from(n_read >= self.n_prompt)
    }

    pub(super) fn note_prompt(
        &mut self,
        n_read: usize,
        share: &Share,
        rows: &[&[f32]],
    ) -> Result<(), EngineError> {
        let Some(n) = self.params.n_prompt_logprobs else { return Ok(()) };
        let first = n_read - share.n_text;
        for (i, row) in rows.iter().enumerate() {
            self.prompt_logprobs.push(step_logprobs(row, self.text[first + i + 1], n)?);
        }
        Ok(())
    }

    /// Pools the rows of a step; the embedding is there when the whole text is read.
    pub(super) fn pool_rows(
        &mut self,
        context: &Context,
        rows: &[f32],
        sink: Sink<'_>,
    ) -> ControlFlow<FinishReason> {
        if let Some(pool) = &mut self.pool {
            pool.add(rows);
        }
        let n_read = self.seq.map_or(0, |seq| context.tokens(seq).len());
        if self.report_reading(n_read, sink).is_break() {
            return ControlFlow::Break(FinishReason::Interrupted);
        }
        if n_read < self.text.len() {
            return ControlFlow::Continue(());
        }
        self.note_first_logits();
        ControlFlow::Break(FinishReason::Complete)
    }

    pub(super) fn report_reading(&mut self, n_read: usize, sink: Sink<'_>) -> ControlFlow<()> {
        if self.first_logits.is_some() {
            return ControlFlow::Continue(());
        }
        self.tell_dropped(sink)?;
        let total = self.timings.n_prompt;
        sink(Event::Prompt { done: (total + n_read).saturating_sub(self.n_prompt), total })
    }
}
