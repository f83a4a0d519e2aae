//! An answer that nobody reads while it is made.

use minfer_engine::{Generated, Model};

use super::event::{AnswerEvent, Delta, EndReason, Finished, TokenReport};
use super::{thoughts, tokens};
use crate::reader::Reader;

/// All of an answer.
#[derive(Clone, Debug, Default)]
pub struct Whole {
    /// Thoughts before the answer.
    pub reasoning: String,
    /// The answer.
    pub content: String,
    /// The tools that it calls.
    pub calls: Vec<Call>,
    /// Its tokens, if log-probabilities were asked for.
    pub tokens: Vec<TokenReport>,
    /// How it ended.
    pub finished: Option<Box<Finished>>,
}

/// A call of a tool.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Call {
    /// Its id.
    pub id: String,
    /// The tool.
    pub name: String,
    /// The arguments, as JSON text.
    pub arguments: String,
}

impl Whole {
    /// Of what the engine gave, for who asked the engine himself.
    pub fn of(model: &Model, n_prompt: usize, generated: Generated, mut reader: Reader) -> Self {
        let mut whole = Self { tokens: tokens::of(model, &generated, reader.shown()), ..Self::default() };
        let (deltas, n_reasoning) = thoughts::of(model, &generated, &mut reader);
        deltas.into_iter().for_each(|delta| whole.add_delta(delta));
        let reason = EndReason::of(generated.reason, reader.calls_tools());
        whole.finished = Some(Box::new(Finished { reason, n_prompt, n_reasoning, generated }));
        whole
    }

    /// Adds an event.
    pub fn add(&mut self, event: AnswerEvent) {
        match event {
            AnswerEvent::Reading { .. } => {}
            AnswerEvent::Done(finished) => self.finished = Some(finished),
            AnswerEvent::Piece(piece) => {
                self.tokens.extend(piece.tokens);
                piece.deltas.into_iter().for_each(|delta| self.add_delta(delta));
            }
        }
    }

    fn add_delta(&mut self, delta: Delta) {
        match delta {
            Delta::Reasoning(text) => self.reasoning.push_str(&text),
            Delta::Content(text) => self.content.push_str(&text),
            Delta::ToolCall { index: _, id, name } => {
                self.calls.push(Call { id, name, arguments: String::new() });
            }
            Delta::ToolArguments { index, delta } => {
                if let Some(call) = self.calls.get_mut(index) {
                    call.arguments.push_str(&delta);
                }
            }
        }
    }
}
