//! Where events go.

use super::ReplyEvent;

/// Events in order, and the number of the call that is being read.
#[derive(Clone, Debug, Default)]
pub(super) struct Sink {
    events: Vec<ReplyEvent>,
    n_calls: usize,
    is_open: bool,
}

impl Sink {
    pub(super) fn take(&mut self) -> Vec<ReplyEvent> {
        std::mem::take(&mut self.events)
    }

    /// Calls that have begun.
    pub(super) fn n_calls(&self) -> usize {
        self.n_calls
    }

    /// Whether a call has begun and not ended.
    pub(super) fn is_in_call(&self) -> bool {
        self.is_open
    }

    pub(super) fn reasoning(&mut self, text: String) {
        if !text.is_empty() {
            self.events.push(ReplyEvent::Reasoning(text));
        }
    }

    pub(super) fn content(&mut self, text: String) {
        if !text.is_empty() {
            self.events.push(ReplyEvent::Content(text));
        }
    }

    pub(super) fn call(&mut self, name: &str) {
        self.events.push(ReplyEvent::ToolCall { index: self.n_calls, name: name.to_owned() });
        self.n_calls += 1;
        self.is_open = true;
    }

    pub(super) fn arguments(&mut self, delta: String) {
        if !delta.is_empty() {
            self.events.push(ReplyEvent::ToolArguments { index: self.n_calls - 1, delta });
        }
    }

    pub(super) fn end_call(&mut self, is_complete: bool) {
        self.events.push(ReplyEvent::ToolCallEnd { index: self.n_calls - 1, is_complete });
        self.is_open = false;
    }
}
