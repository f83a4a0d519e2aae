//! Server-sent events, and JSON line by line.

use std::fmt::Write;

use bytes::Bytes;
use serde_json::Value;

/// How pieces of a stream are told apart.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Framing {
    /// Server-sent events.
    Events,
    /// A JSON value on each line.
    Lines,
}

impl Framing {
    /// The type that the response says it has.
    pub fn content_type(self) -> &'static str {
        match self {
            Framing::Events => "text/event-stream; charset=utf-8",
            Framing::Lines => "application/x-ndjson",
        }
    }
}

/// Frames that are being put together.
#[derive(Debug)]
pub struct Frames {
    framing: Framing,
    text: String,
}

impl Frames {
    /// None yet.
    pub fn new(framing: Framing) -> Self {
        Self { framing, text: String::new() }
    }

    /// Adds a value.
    pub fn value(&mut self, value: &Value) {
        // JSON text has no line breaks of its own, and nothing that writes to a string fails.
        let _ = match self.framing {
            Framing::Events => write!(self.text, "data: {value}\n\n"),
            Framing::Lines => writeln!(self.text, "{value}"),
        };
    }

    /// Adds a value with the name of its event; where events have no names it is just the value.
    pub fn event(&mut self, name: &str, value: &Value) {
        if self.framing == Framing::Events {
            let _ = writeln!(self.text, "event: {name}");
        }
        self.value(value);
    }

    /// Adds `[DONE]`, with which OpenAI's streams end.
    pub fn done(&mut self) {
        self.text.push_str("data: [DONE]\n\n");
    }

    /// Whether there is nothing.
    pub fn is_empty(&self) -> bool {
        self.text.is_empty()
    }

    /// Bytes so far.
    pub fn len(&self) -> usize {
        self.text.len()
    }

    /// All of it.
    pub fn into_bytes(self) -> Bytes {
        self.text.into()
    }
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::*;

    #[test]
    fn frames_are_told_apart() {
        let text = |framing| {
            let mut frames = Frames::new(framing);
            frames.event("a", &json!({ "t": "x\ny" }));
            frames.value(&json!(1));
            String::from_utf8(frames.into_bytes().to_vec()).unwrap()
        };
        assert_eq!(text(Framing::Events), "event: a\ndata: {\"t\":\"x\\ny\"}\n\ndata: 1\n\n");
        assert_eq!(text(Framing::Lines), "{\"t\":\"x\\ny\"}\n1\n");
    }
}
