//! A completion as it is made.

use serde_json::{Value, json};

use super::completion_body::{Parts, prompt_text};
use super::usage::{Usage, finish_reason, timings};
use super::{FINGERPRINT, error_body, logprobs};
use crate::answer::{AnswerEvent, Answers, Delta, Piece, Render};
use crate::error::ApiError;
use crate::frames::Frames;
use crate::state::SharedApp;

pub(super) struct CompletionStream {
    app: SharedApp,
    id: String,
    created: u64,
    /// Answers to each prompt.
    n: usize,
    /// The texts that the answers begin with; none if they do not.
    echoed: Vec<String>,
    include_usage: bool,
    /// Of each prompt.
    usage: Vec<Usage>,
}

impl CompletionStream {
    pub(super) fn new(app: &SharedApp, parts: &Parts<'_>) -> Self {
        let prompts = 0..parts.prompts.len();
        let echoed = prompts.clone().filter(|_| parts.call.echo).map(|at| prompt_text(parts, at));
        Self {
            app: app.clone(),
            id: parts.id.to_owned(),
            created: parts.created,
            n: parts.call.n.max(1),
            echoed: echoed.collect(),
            include_usage: parts.call.include_usage,
            usage: prompts.map(|_| Usage::default()).collect(),
        }
    }

    fn chunk(&self, choices: Value) -> Value {
        let mut chunk = json!({
            "id": self.id,
            "object": "text_completion",
            "created": self.created,
            "model": self.app.name(),
            "system_fingerprint": FINGERPRINT,
            "choices": choices,
        });
        if self.include_usage {
            chunk["usage"] = Value::Null;
        }
        chunk
    }

    fn choice(&self, index: usize, text: &str, logprobs: Value, reason: Option<&str>) -> Value {
        self.chunk(json!([{ "index": index, "text": text, "logprobs": logprobs, "finish_reason": reason }]))
    }

    fn piece(&self, index: usize, piece: &Piece, out: &mut Frames) {
        let logprobs = match &piece.tokens[..] {
            [] => Value::Null,
            tokens => logprobs::of_completion(self.app.model().tokenizer(), tokens, self.n_echoed(index)),
        };
        let text = piece.deltas.iter().map(|delta| if let Delta::Content(text) = delta { text } else { "" });
        out.value(&self.choice(index, &text.collect::<String>(), logprobs, None));
    }

    fn n_echoed(&self, index: usize) -> usize {
        self.echoed.get(index / self.n).map_or(0, |text| text.chars().count())
    }
}

impl Render for CompletionStream {
    fn begin(&mut self, answers: &Answers, out: &mut Frames) {
        for index in 0..answers.n_choices() {
            if let Some(text) = self.echoed.get(index / self.n) {
                out.value(&self.choice(index, text, Value::Null, None));
            }
        }
    }

    fn event(&mut self, index: usize, event: AnswerEvent, out: &mut Frames) {
        match event {
            AnswerEvent::Reading { .. } => {}
            AnswerEvent::Piece(piece) => self.piece(index, &piece, out),
            AnswerEvent::Done(finished) => {
                let mut chunk = self.choice(index, "", Value::Null, Some(finish_reason(finished.reason)));
                chunk["timings"] = timings(&finished);
                out.value(&chunk);
                if let Some(usage) = self.usage.get_mut(index / self.n) {
                    usage.add(&finished);
                }
            }
        }
    }

    fn error(&mut self, error: &ApiError, out: &mut Frames) {
        out.value(&error_body(error));
    }

    fn end(&mut self, out: &mut Frames) {
        if self.include_usage {
            let mut total = Usage::default();
            self.usage.iter().for_each(|usage| total.add_prompt(usage));
            let mut chunk = self.chunk(json!([]));
            chunk["usage"] = total.json();
            out.value(&chunk);
        }
        out.done();
    }
}
