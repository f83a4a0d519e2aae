//! An answer as it is made: text by text, the last with the figures.

use serde_json::{Value, json};

use super::body::{final_body, probabilities};
use super::completion::RawCompletion;
use crate::answer::{AnswerEvent, Answers, Delta, Piece, Render};
use crate::dialect::Dialect;
use crate::error::ApiError;
use crate::frames::Frames;
use crate::state::SharedApp;

pub(super) struct CompletionStream {
    app: SharedApp,
    call: RawCompletion,
    prompts: Vec<String>,
}

impl CompletionStream {
    pub(super) fn new(app: &SharedApp, call: &RawCompletion, prompts: Vec<String>) -> Self {
        Self { app: app.clone(), call: call.clone(), prompts }
    }

    fn piece(&self, index: usize, piece: &Piece) -> Value {
        let text = piece.deltas.iter().map(|delta| if let Delta::Content(text) = delta { text } else { "" });
        let mut chunk = json!({ "index": index, "content": text.collect::<String>(), "tokens": [], "stop": false, "id_slot": -1 });
        if !piece.tokens.is_empty() {
            chunk["completion_probabilities"] = probabilities(&self.app, &piece.tokens);
        }
        chunk
    }
}

impl Render for CompletionStream {
    fn begin(&mut self, _answers: &Answers, _out: &mut Frames) {}

    fn event(&mut self, index: usize, event: AnswerEvent, out: &mut Frames) {
        match event {
            AnswerEvent::Reading { .. } => {}
            AnswerEvent::Piece(piece) => out.value(&self.piece(index, &piece)),
            AnswerEvent::Done(finished) => {
                let prompt = self.prompts.get(index).map_or("", String::as_str);
                let mut body = final_body(&self.app, &self.call, index, prompt, &finished);
                if self.call.return_tokens {
                    body["tokens"] = finished.generated.tokens.as_slice().into();
                }
                out.value(&body);
            }
        }
    }

    fn error(&mut self, error: &ApiError, out: &mut Frames) {
        out.value(&Dialect::LlamaCpp.error(error));
    }

    fn end(&mut self, _out: &mut Frames) {}
}
