//! An answer as it is made: a message begins, blocks begin, grow and end one after the other, the message ends.

use serde_json::{Value, json};

use super::body::{stop_reason, usage};
use crate::answer::{AnswerEvent, Answers, Delta, Finished, Render};
use crate::dialect::Dialect;
use crate::error::ApiError;
use crate::frames::Frames;

/// What is being written.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Block {
    Thinking,
    Text,
    ToolUse,
}

pub(super) struct MessageStream {
    id: String,
    model: String,
    /// The block that has begun and not ended.
    open: Option<Block>,
    /// Blocks that have ended.
    n_blocks: usize,
}

impl MessageStream {
    pub(super) fn new(id: String, model: &str) -> Self {
        Self { id, model: model.to_owned(), open: None, n_blocks: 0 }
    }

    fn delta(&mut self, delta: Delta, out: &mut Frames) {
        match delta {
            Delta::Reasoning(text) => {
                self.block(
                    Block::Thinking,
                    || json!({ "type": "thinking", "thinking": "", "signature": "" }),
                    out,
                );
                self.grow(json!({ "type": "thinking_delta", "thinking": text }), out);
            }
            Delta::Content(text) => {
                self.block(Block::Text, || json!({ "type": "text", "text": "" }), out);
                self.grow(json!({ "type": "text_delta", "text": text }), out);
            }
            Delta::ToolCall { index: _, id, name } => {
                self.close(out);
                let block = || json!({ "type": "tool_use", "id": id, "name": name, "input": {} });
                self.block(Block::ToolUse, block, out);
            }
            Delta::ToolArguments { index: _, delta } => {
                self.grow(json!({ "type": "input_json_delta", "partial_json": delta }), out);
            }
        }
    }

    /// Goes on with the open block if it is of this kind; else begins one.
    fn block(&mut self, kind: Block, block: impl FnOnce() -> Value, out: &mut Frames) {
        if self.open == Some(kind) {
            return;
        }
        self.close(out);
        self.open = Some(kind);
        let value =
            json!({ "type": "content_block_start", "index": self.n_blocks, "content_block": block() });
        out.event("content_block_start", &value);
    }

    fn grow(&self, delta: Value, out: &mut Frames) {
        let value = json!({ "type": "content_block_delta", "index": self.n_blocks, "delta": delta });
        out.event("content_block_delta", &value);
    }

    fn close(&mut self, out: &mut Frames) {
        if self.open.take().is_some() {
            let value = json!({ "type": "content_block_stop", "index": self.n_blocks });
            out.event("content_block_stop", &value);
            self.n_blocks += 1;
        }
    }

    fn done(&mut self, finished: &Finished, out: &mut Frames) {
        self.close(out);
        let delta = json!({ "stop_reason": stop_reason(finished), "stop_sequence": finished.generated.stop });
        out.event(
            "message_delta",
            &json!({ "type": "message_delta", "delta": delta, "usage": usage(finished) }),
        );
    }
}

impl Render for MessageStream {
    fn begin(&mut self, answers: &Answers, out: &mut Frames) {
        let message = json!({
            "id": self.id,
            "type": "message",
            "role": "assistant",
            "model": self.model,
            "content": [],
            "stop_reason": null,
            "stop_sequence": null,
            "usage": { "input_tokens": answers.n_prompt(), "output_tokens": 0 },
        });
        out.event("message_start", &json!({ "type": "message_start", "message": message }));
        out.event("ping", &json!({ "type": "ping" }));
    }

    fn event(&mut self, _index: usize, event: AnswerEvent, out: &mut Frames) {
        match event {
            AnswerEvent::Reading { .. } => {}
            AnswerEvent::Piece(piece) => piece.deltas.into_iter().for_each(|delta| self.delta(delta, out)),
            AnswerEvent::Done(finished) => self.done(&finished, out),
        }
    }

    fn error(&mut self, error: &ApiError, out: &mut Frames) {
        out.event("error", &Dialect::Anthropic.error(error));
    }

    fn end(&mut self, out: &mut Frames) {
        out.event("message_stop", &json!({ "type": "message_stop" }));
    }
}
