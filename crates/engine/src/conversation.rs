//! A conversation in one sequence: messages, the template, and a cache that is appended to instead of read again.

use std::ops::ControlFlow;

use minfer_text::chat::{ChatTemplate, RenderInput};
use minfer_text::tokenizer::TokenKind;
use serde_json::{Map, Value, json};

use crate::answer::{Event, FinishReason, Generated};
use crate::context::{Context, SeqId};
use crate::error::EngineError;
use crate::generate::generate;
use crate::model::Model;
use crate::request::GenerateParams;

/// Messages and how they become a prompt.
#[derive(Debug)]
pub struct Conversation {
    template: ChatTemplate,
    messages: Vec<Value>,
    kwargs: Map<String, Value>,
    /// The last prompt, and that prompt with its answer.
    known: Vec<Known>,
}

/// A text and the tokens that were read and generated for it. The same text tokenized anew may give other tokens, since a
/// model need not spell a word as the tokenizer does; then the cache could not be kept.
#[derive(Debug)]
struct Known {
    text: String,
    tokens: Vec<u32>,
}

impl Conversation {
    /// An empty conversation; `kwargs` are template arguments such as `enable_thinking`.
    pub fn new(template: ChatTemplate, kwargs: Map<String, Value>) -> Self {
        Conversation { template, messages: Vec::new(), kwargs, known: Vec::new() }
    }

    /// The messages so far, as OpenAI spells them.
    pub fn messages(&self) -> &[Value] {
        &self.messages
    }

    /// Replaces the system message, or removes it; it always comes first.
    pub fn set_system(&mut self, text: Option<&str>) {
        self.messages.retain(|m| m["role"] != "system");
        if let Some(text) = text {
            self.messages.insert(0, json!({ "role": "system", "content": text }));
        }
    }

    /// Adds a message.
    pub fn push(&mut self, role: &str, content: &str) {
        self.messages.push(json!({ "role": role, "content": content }));
    }

    /// Takes the last message back if it has this role.
    pub fn pop(&mut self, role: &str) -> Option<Value> {
        let is_role = self.messages.last().is_some_and(|m| m["role"] == role);
        if is_role { self.messages.pop() } else { None }
    }

    /// Forgets everything but the system message.
    pub fn clear(&mut self) {
        self.messages.retain(|m| m["role"] == "system");
    }

    /// The prompt as text, the assistant to speak next.
    pub fn render(&self) -> Result<String, EngineError> {
        let mut input = RenderInput::new(Value::Array(self.messages.clone()));
        input.kwargs = self.kwargs.clone();
        Ok(self.template.render(&input)?)
    }

    /// The prompt as tokens. What the last answer's prompt and the answer were made of stays as it was, so that a context
    /// that holds it reads only what is new.
    pub fn prompt(&self, model: &Model) -> Result<Vec<u32>, EngineError> {
        self.encode(model, &self.render()?)
    }

    /// Generates the assistant's next message and adds it. When generation fails, the messages stay as they were.
    pub fn reply(
        &mut self,
        context: &mut Context,
        seq: SeqId,
        params: &GenerateParams,
        sink: &mut dyn FnMut(Event) -> ControlFlow<()>,
    ) -> Result<Generated, EngineError> {
        let text = self.render()?;
        let prompt = self.encode(context.model(), &text)?;
        let answer = generate(context, seq, &prompt, params, sink)?;
        self.push("assistant", &answer.text);
        self.known = vec![Known { text, tokens: prompt }];
        if !params.special {
            self.remember(&answer);
        }
        Ok(answer)
    }

    fn encode(&self, model: &Model, text: &str) -> Result<Vec<u32>, EngineError> {
        let known = self.known.iter().filter(|known| text.starts_with(&known.text));
        if let Some(known) = known.max_by_key(|known| known.text.len()) {
            let rest = model.encode_chat(&text[known.text.len()..])?;
            if rest.first().is_none_or(|&first| is_boundary(model, first)) {
                return Ok([&known.tokens[..], &rest].concat());
            }
        }
        model.encode_chat(text)
    }

    /// Adds the answer to what is known.
    fn remember(&mut self, answer: &Generated) {
        let Some(prompt) = self.known.last() else { return };
        let tokens = match answer.reason {
            // The template writes the token that ended the answer itself.
            FinishReason::EndOfGeneration => answer.tokens.split_last().map_or(&[][..], |(_, rest)| rest),
            FinishReason::Length
            | FinishReason::ContextFull
            | FinishReason::Complete
            | FinishReason::Deadline => &answer.tokens,
            // A stop string, or what came with the last token, is in the tokens and not in the text.
            FinishReason::StopString | FinishReason::Interrupted => return,
        };
        let text = format!("{}{}", prompt.text, answer.text);
        let tokens = [&prompt.tokens[..], tokens].concat();
        self.known.push(Known { text, tokens });
    }
}

/// Whether `token` cannot have come of a text together with what stands before it.
fn is_boundary(model: &Model, token: u32) -> bool {
    matches!(model.tokenizer().kind(token), Some(TokenKind::Control | TokenKind::UserDefined))
}
