//! What fits into the context, and what goes when it is full.

use std::ops::ControlFlow;

use crate::answer::{Dropped, Event, FinishReason};
use crate::context::Context;
use crate::error::EngineError;
use crate::request::{GenerateParams, OnFull};

use super::{Sink, Task};

impl Task {
    /// Drops the oldest tokens if the context is full.
    pub(super) fn make_room(
        &mut self,
        context: &mut Context,
        sink: Sink<'_>,
    ) -> Result<ControlFlow<FinishReason>, EngineError> {
        let (OnFull::DropOldest { keep }, Some(seq)) = (self.params.on_full, self.seq) else {
            return Ok(ControlFlow::Continue(()));
        };
        if self.text.len() <= self.n_ctx {
            return Ok(ControlFlow::Continue(()));
        }
        let dropped = drop_oldest(&mut self.text, keep, self.n_ctx);
        self.dropped.push(dropped);
        context.truncate(seq, keep);
        // The penalties see what a run over the kept text would see.
        self.sampler.set_history(&self.text)?;
        let goes_on = self.tell_dropped(sink).is_continue();
        Ok(if goes_on { ControlFlow::Continue(()) } else { ControlFlow::Break(FinishReason::Interrupted) })
    }

    /// Tells of what was dropped and is not told yet: of the prompt, when its reading begins.
    pub(super) fn tell_dropped(&mut self, sink: Sink<'_>) -> ControlFlow<()> {
        while let Some(dropped) = self.dropped.get(self.n_told) {
            self.n_told += 1;
            sink(Event::Dropped(*dropped))?;
        }
        ControlFlow::Continue(())
    }

    pub(super) fn can_drop(&self) -> bool {
        matches!(self.params.on_full, OnFull::DropOldest { .. })
    }
}

pub(super) fn check_size(n_prompt: usize, params: &GenerateParams, n_ctx: usize) -> Result<(), EngineError> {
    let n_most = match params.on_full {
        OnFull::Stop => n_prompt,
        // The last token of an answer is not read.
        OnFull::Refuse => n_prompt.saturating_add(params.n_predict.unwrap_or(0).saturating_sub(1)),
        OnFull::DropOldest { keep } if keep < n_ctx => 0,
        OnFull::DropOldest { keep } => {
            let reason = "it must be less than the context holds";
            return Err(EngineError::Setting {
                setting: "the part to keep",
                value: keep.to_string(),
                reason,
            });
        }
    };
    if n_most <= n_ctx {
        return Ok(());
    }
    Err(EngineError::ContextFull { n_tokens: n_most, n_past: 0, n_ctx })
}

/// Drops tokens after the first `keep`, so that what is left fills half of the room.
pub(super) fn drop_oldest(text: &mut Vec<u32>, keep: usize, n_ctx: usize) -> Dropped {
    let n_kept = keep + (n_ctx - keep).div_ceil(2);
    let n_tokens = text.len().saturating_sub(n_kept);
    text.drain(keep..keep + n_tokens);
    Dropped { position: keep, n_tokens }
}
