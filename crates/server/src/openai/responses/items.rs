//! The items of a response, and the events that tell how they come to be.

use serde_json::{Value, json};

use super::super::logprobs;
use crate::answer::{AnswerEvent, Delta, EndReason, Finished, TokenReport};
use crate::state::{App, SharedApp};

/// Takes the name of an event and what it says.
pub(super) type Sink<'a> = &'a mut dyn FnMut(&'static str, Value);

/// The kind of the item that is being made.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Kind {
    Reasoning,
    Message,
    Call,
}

/// The items so far; the last may be open.
pub(super) struct Items {
    app: SharedApp,
    done: Vec<Value>,
    open: Option<Open>,
    /// Tokens that are no thoughts, and whose text has not come yet.
    pending: Vec<TokenReport>,
}

struct Open {
    kind: Kind,
    id: String,
    text: String,
    /// Tokens of a message, if log-probabilities were asked for.
    logprobs: Vec<Value>,
    /// Of a call.
    call_id: String,
    name: String,
}

impl Items {
    pub(super) fn new(app: &SharedApp) -> Self {
        Self { app: app.clone(), done: Vec::new(), open: None, pending: Vec::new() }
    }

    /// Those that are complete.
    pub(super) fn done(&self) -> &[Value] {
        &self.done
    }

    /// Adds an event of the answer; the end goes to `finished`.
    pub(super) fn add(&mut self, event: AnswerEvent, finished: &mut Option<Box<Finished>>, sink: Sink<'_>) {
        match event {
            AnswerEvent::Reading { .. } => {}
            AnswerEvent::Piece(piece) => {
                self.pending.extend(piece.tokens.into_iter().filter(|token| !token.is_thought));
                piece.deltas.into_iter().for_each(|delta| self.delta(delta, sink));
            }
            AnswerEvent::Done(end) => {
                self.add_last_tokens();
                let is_cut = end.reason == EndReason::Length;
                self.close(if is_cut { "incomplete" } else { "completed" }, sink);
                *finished = Some(end);
            }
        }
    }

    fn delta(&mut self, delta: Delta, sink: Sink<'_>) {
        match delta {
            Delta::Reasoning(text) => self.text(Kind::Reasoning, &text, sink),
            Delta::Content(text) => self.text(Kind::Message, &text, sink),
            Delta::ToolCall { index: _, id, name } => {
                self.close("completed", sink);
                self.begin(Kind::Call, id, name, sink);
            }
            Delta::ToolArguments { index: _, delta } => self.text(Kind::Call, &delta, sink),
        }
    }

    /// Adds text to an item of a kind; begins one if need be.
    fn text(&mut self, kind: Kind, text: &str, sink: Sink<'_>) {
        if self.open.as_ref().is_none_or(|open| open.kind != kind) {
            self.close("completed", sink);
            self.begin(kind, String::new(), String::new(), sink);
        }
        let output_index = self.done.len();
        // What opens a call is no part of a message.
        let tokens = std::mem::take(&mut self.pending);
        let Some(open) = &mut self.open else { return };
        let tokens = if kind == Kind::Message { open.own(&self.app, &tokens, text) } else { Vec::new() };
        open.text.push_str(text);
        let mut event = json!({ "item_id": open.id, "output_index": output_index, "delta": text });
        match kind {
            Kind::Call => sink("response.function_call_arguments.delta", event),
            Kind::Reasoning => {
                event["content_index"] = 0.into();
                sink("response.reasoning_text.delta", event);
            }
            Kind::Message => {
                event["content_index"] = 0.into();
                event["logprobs"] = tokens.into();
                sink("response.output_text.delta", event);
            }
        }
    }

    /// Tokens at the end that no text has followed.
    fn add_last_tokens(&mut self) {
        let tokens = std::mem::take(&mut self.pending);
        if let Some(open) = self.open.as_mut().filter(|open| open.kind == Kind::Message) {
            open.own(&self.app, &tokens, " ");
        }
    }

    fn begin(&mut self, kind: Kind, call_id: String, name: String, sink: Sink<'_>) {
        let prefix = match kind {
            Kind::Reasoning => "rs_",
            Kind::Message => "msg_",
            Kind::Call => "fc_",
        };
        let open = Open {
            kind,
            id: self.app.new_id(prefix),
            text: String::new(),
            logprobs: Vec::new(),
            call_id,
            name,
        };
        let output_index = self.done.len();
        let mut item = open.item("in_progress");
        if kind != Kind::Call {
            item["content"] = json!([]);
        }
        sink("response.output_item.added", json!({ "output_index": output_index, "item": item }));
        if let Some(part) = open.part() {
            let place =
                json!({ "item_id": open.id, "output_index": output_index, "content_index": 0, "part": part });
            sink("response.content_part.added", place);
        }
        self.open = Some(open);
    }

    /// Ends the open item, if there is one.
    fn close(&mut self, status: &str, sink: Sink<'_>) {
        let Some(open) = self.open.take() else { return };
        let output_index = self.done.len();
        let place = json!({ "item_id": open.id, "output_index": output_index });
        let with = |name: &str, value: Value| {
            let mut event = place.clone();
            event["content_index"] = 0.into();
            event[name] = value;
            event
        };
        match open.kind {
            Kind::Call => {
                let mut event = place.clone();
                event["name"] = open.name.as_str().into();
                event["arguments"] = open.text.as_str().into();
                sink("response.function_call_arguments.done", event);
            }
            Kind::Reasoning => sink("response.reasoning_text.done", with("text", open.text.as_str().into())),
            Kind::Message => {
                let mut event = with("text", open.text.as_str().into());
                event["logprobs"] = open.logprobs.clone().into();
                sink("response.output_text.done", event);
            }
        }
        if let Some(part) = open.part() {
            sink("response.content_part.done", with("part", part));
        }
        let item = open.item(status);
        sink("response.output_item.done", json!({ "output_index": output_index, "item": item }));
        self.done.push(item);
    }
}

impl Open {
    /// Keeps the tokens of a text; gives what they are in an event. The line break after thoughts is not part of a message.
    fn own(&mut self, app: &App, tokens: &[TokenReport], text: &str) -> Vec<Value> {
        let tokenizer = app.model().tokenizer();
        let is_space = |token: &&TokenReport| {
            tokenizer.token_bytes(token.id).is_some_and(|bytes| bytes.iter().all(u8::is_ascii_whitespace))
        };
        let is_first = self.logprobs.is_empty() && !text.starts_with(char::is_whitespace);
        let n_space = if is_first { tokens.iter().take_while(is_space).count() } else { 0 };
        let list = logprobs::list(tokenizer, &tokens[n_space..]);
        self.logprobs.extend(list.iter().cloned());
        list
    }

    /// The part of its content; a call has none.
    fn part(&self) -> Option<Value> {
        match self.kind {
            Kind::Call => None,
            Kind::Reasoning => Some(json!({ "type": "reasoning_text", "text": self.text })),
            Kind::Message => Some(
                json!({ "type": "output_text", "text": self.text, "annotations": [], "logprobs": self.logprobs }),
            ),
        }
    }

    fn item(&self, status: &str) -> Value {
        let content: Vec<Value> = self.part().into_iter().collect();
        match self.kind {
            Kind::Reasoning => {
                json!({ "id": self.id, "type": "reasoning", "summary": [], "content": content, "status": status })
            }
            Kind::Message => json!({
                "id": self.id, "type": "message", "status": status, "role": "assistant", "content": content,
            }),
            Kind::Call => json!({
                "id": self.id, "type": "function_call", "status": status, "call_id": self.call_id,
                "name": self.name, "arguments": self.text,
            }),
        }
    }
}
