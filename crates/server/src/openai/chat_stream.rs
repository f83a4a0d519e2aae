//! A chat as it is made. The role comes first, then what is new, then why it ended, then, if asked for, the counts.

use serde_json::{Value, json};

use super::chat::Head;
use super::usage::{Usage, finish_reason, timings};
use super::{FINGERPRINT, error_body, logprobs};
use crate::answer::{AnswerEvent, Answers, Delta, Finished, Piece, Render};
use crate::error::ApiError;
use crate::frames::Frames;
use crate::state::SharedApp;

pub(super) struct ChatStream {
    app: SharedApp,
    head: Head,
    /// Present if they were asked for.
    usage: Option<Usage>,
}

impl ChatStream {
    pub(super) fn new(app: &SharedApp, head: Head, include_usage: bool) -> Self {
        Self { app: app.clone(), head, usage: include_usage.then(Usage::default) }
    }

    fn chunk(&self, choices: Value) -> Value {
        let mut chunk = json!({
            "id": self.head.id,
            "object": "chat.completion.chunk",
            "created": self.head.created,
            "model": self.head.model,
            "system_fingerprint": FINGERPRINT,
            "choices": choices,
        });
        if self.usage.is_some() {
            chunk["usage"] = Value::Null;
        }
        chunk
    }

    fn choice(&self, index: usize, delta: Value, logprobs: Value, reason: Option<&str>) -> Value {
        self.chunk(json!([{ "index": index, "delta": delta, "logprobs": logprobs, "finish_reason": reason }]))
    }

    fn piece(&self, index: usize, piece: Piece, out: &mut Frames) {
        let mut logprobs = match &piece.tokens[..] {
            [] => Value::Null,
            tokens => logprobs::of_chat(self.app.model().tokenizer(), tokens),
        };
        // Tokens that show nothing are told all the same.
        let deltas = if piece.deltas.is_empty() {
            vec![json!({})]
        } else {
            piece.deltas.into_iter().map(delta).collect()
        };
        for delta in deltas {
            out.value(&self.choice(index, delta, logprobs.take(), None));
        }
    }

    fn done(&mut self, index: usize, finished: &Finished, out: &mut Frames) {
        let mut chunk = self.choice(index, json!({}), Value::Null, Some(finish_reason(finished.reason)));
        chunk["timings"] = timings(finished);
        out.value(&chunk);
        if let Some(usage) = &mut self.usage {
            usage.add(finished);
        }
    }
}

impl Render for ChatStream {
    fn begin(&mut self, answers: &Answers, out: &mut Frames) {
        for index in 0..answers.n_choices() {
            let delta = json!({ "role": "assistant", "content": "", "refusal": null });
            out.value(&self.choice(index, delta, Value::Null, None));
        }
    }

    fn event(&mut self, index: usize, event: AnswerEvent, out: &mut Frames) {
        match event {
            AnswerEvent::Reading { .. } => {}
            AnswerEvent::Piece(piece) => self.piece(index, piece, out),
            AnswerEvent::Done(finished) => self.done(index, &finished, out),
        }
    }

    fn error(&mut self, error: &ApiError, out: &mut Frames) {
        out.value(&error_body(error));
    }

    fn end(&mut self, out: &mut Frames) {
        if let Some(usage) = self.usage {
            let mut chunk = self.chunk(json!([]));
            chunk["usage"] = usage.json();
            out.value(&chunk);
        }
        out.done();
    }
}

fn delta(delta: Delta) -> Value {
    match delta {
        Delta::Reasoning(text) => json!({ "reasoning_content": text }),
        Delta::Content(text) => json!({ "content": text }),
        Delta::ToolCall { index, id, name } => json!({
            "tool_calls": [{
                "index": index, "id": id, "type": "function", "function": { "name": name, "arguments": "" },
            }],
        }),
        Delta::ToolArguments { index, delta } => {
            json!({ "tool_calls": [{ "index": index, "function": { "arguments": delta } }] })
        }
    }
}
