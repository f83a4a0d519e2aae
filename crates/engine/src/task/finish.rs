//! How a task ends.

use crate::answer::{Event, FinishReason};
use crate::error::EngineError;

use super::{Sink, Task};

impl Task {
    /// Ends it, and shows what was held back.
    pub(crate) fn end(&mut self, reason: FinishReason, sink: Sink<'_>) {
        if self.outcome.is_some() {
            return;
        }
        self.outcome = Some(Ok(reason));
        if reason == FinishReason::StopString {
            return;
        }
        let shown = self.out.finish();
        if !shown.is_empty() {
            // The answer is over: there is nothing left to break off.
            let _ = sink(Event::Text(shown.to_owned()));
        }
    }

    /// Ends it with an error.
    pub(crate) fn fail(&mut self, error: EngineError) {
        self.outcome.get_or_insert(Err(error));
    }
}
