//! A conversation in one sequence: messages, the template, and a cache that is appended to instead of read again.

use std::ops::ControlFlow;

use minfer_text::chat::{ChatTemplate, RenderInput};
use serde_json::{Map, Value, json};

use crate::context::{Context, SeqId};
use crate::error::EngineError;
use crate::generate::{Event, GenerateParams, Generated, generate};

/// Messages and how they become a prompt.
#[derive(Debug)]
pub struct Conversation {
    template: ChatTemplate,
    messages: Vec<Value>,
    kwargs: Map<String, Value>,
}

impl Conversation {
    /// An empty conversation; `kwargs` are template arguments such as `enable_thinking`.
    pub fn new(template: ChatTemplate, kwargs: Map<String, Value>) -> Self {
        Conversation { template, messages: Vec::new(), kwargs }
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

    /// Generates the assistant's next message and adds it. When generation fails, the messages stay as they were.
    pub fn reply(
        &mut self,
        context: &mut Context,
        seq: SeqId,
        params: &GenerateParams,
        sink: &mut dyn FnMut(Event<'_>) -> ControlFlow<()>,
    ) -> Result<Generated, EngineError> {
        let prompt = context.model().encode_chat(&self.render()?)?;
        let answer = generate(context, seq, &prompt, params, sink)?;
        self.push("assistant", &answer.text);
        Ok(answer)
    }
}
