//! An answer as it is made: a JSON object on each line, the last with the figures.

use serde_json::{Value, json};

use super::chat::call_json;
use super::now;
use crate::answer::{AnswerEvent, Answers, Call, Delta, EndReason, Finished, Render};
use crate::dialect::Dialect;
use crate::error::ApiError;
use crate::frames::Frames;

/// Which endpoint it is for.
#[derive(Clone, Debug)]
pub(super) enum Shape {
    Chat,
    /// With the tokens of the prompt.
    Generate {
        prompt: Vec<u32>,
    },
}

impl Shape {
    /// Adds the tokens with which a later request can go on.
    pub(super) fn add_context(&self, line: &mut Value, finished: &Finished) {
        if let Shape::Generate { prompt } = self {
            line["context"] = prompt.iter().chain(&finished.generated.tokens).copied().collect();
        }
    }
}

pub(super) struct LineStream {
    model: String,
    shape: Shape,
    /// Calls are told when they are complete: this one is not yet.
    call: Option<Call>,
    n_calls: usize,
}

impl LineStream {
    pub(super) fn new(model: String, shape: Shape) -> Self {
        Self { model, shape, call: None, n_calls: 0 }
    }

    fn line(&self, content: &str, thinking: Option<&str>) -> Value {
        let mut line = json!({ "model": self.model, "created_at": now() });
        match self.shape {
            Shape::Chat => {
                line["message"] = json!({ "role": "assistant", "content": content });
                if let Some(thinking) = thinking {
                    line["message"]["thinking"] = thinking.into();
                }
            }
            Shape::Generate { .. } => {
                line["response"] = content.into();
                if let Some(thinking) = thinking {
                    line["thinking"] = thinking.into();
                }
            }
        }
        line["done"] = false.into();
        line
    }

    fn delta(&mut self, delta: Delta, out: &mut Frames) {
        match delta {
            Delta::Reasoning(text) => out.value(&self.line("", Some(&text))),
            Delta::Content(text) => {
                self.end_call(out);
                out.value(&self.line(&text, None));
            }
            Delta::ToolCall { index: _, id, name } => {
                self.end_call(out);
                self.call = Some(Call { id, name, arguments: String::new() });
            }
            Delta::ToolArguments { index: _, delta } => {
                if let Some(call) = &mut self.call {
                    call.arguments.push_str(&delta);
                }
            }
        }
    }

    fn end_call(&mut self, out: &mut Frames) {
        let Some(call) = self.call.take() else { return };
        let mut line = self.line("", None);
        line["message"]["tool_calls"] = json!([call_json(self.n_calls, &call)]);
        self.n_calls += 1;
        out.value(&line);
    }
}

impl Render for LineStream {
    fn begin(&mut self, _answers: &Answers, _out: &mut Frames) {}

    fn event(&mut self, _index: usize, event: AnswerEvent, out: &mut Frames) {
        match event {
            AnswerEvent::Reading { .. } => {}
            AnswerEvent::Piece(piece) => piece.deltas.into_iter().for_each(|delta| self.delta(delta, out)),
            AnswerEvent::Done(finished) => {
                self.end_call(out);
                let mut line = self.line("", None);
                final_line(&mut line, Some(&finished));
                self.shape.add_context(&mut line, &finished);
                out.value(&line);
            }
        }
    }

    fn error(&mut self, error: &ApiError, out: &mut Frames) {
        out.value(&Dialect::Ollama.error(error));
    }

    fn end(&mut self, _out: &mut Frames) {}
}

/// Adds why an answer ended, and its figures; times are in nanoseconds.
pub(super) fn final_line(line: &mut Value, finished: Option<&Finished>) {
    line["done"] = true.into();
    let Some(finished) = finished else { return };
    let timings = &finished.generated.timings;
    let nanos = |time: std::time::Duration| u64::try_from(time.as_nanos()).unwrap_or(u64::MAX);
    line["done_reason"] = match finished.reason {
        EndReason::Length => "length",
        EndReason::Stop | EndReason::StopString | EndReason::ToolCalls => "stop",
    }
    .into();
    line["total_duration"] = nanos(timings.queued + timings.prompt + timings.decode).into();
    // The model was there before the request.
    line["load_duration"] = 0.into();
    line["prompt_eval_count"] = finished.n_prompt.into();
    line["prompt_eval_duration"] = nanos(timings.prompt).into();
    line["eval_count"] = finished.n_completion().into();
    line["eval_duration"] = nanos(timings.decode).into();
}
