//! A conversation in one sequence: messages, the template, and a cache that is appended to instead of read again.
//!
//! With [`OnFull::DropOldest`] a conversation goes on for as long as one likes: before an answer, the oldest turns are
//! dropped until there is room for it. The system message stays. The text is rendered and read anew from where it differs,
//! so an answer is what a conversation without those turns would have got.

use std::ops::ControlFlow;

use minfer_text::chat::{ChatTemplate, RenderInput};
use minfer_text::tokenizer::TokenKind;
use serde_json::{Map, Value, json};

use crate::answer::{Event, FinishReason, Generated};
use crate::context::{Context, SeqId};
use crate::error::EngineError;
use crate::generate::generate_request;
use crate::grammar::CompiledGrammar;
use crate::model::Model;
use crate::request::{GenerateParams, OnFull, Request};

/// Messages and how they become a prompt.
#[derive(Debug)]
pub struct Conversation {
    template: ChatTemplate,
    messages: Vec<Value>,
    kwargs: Map<String, Value>,
    /// The last prompt, and that prompt with its answer.
    known: Vec<Known>,
    dropped: Vec<Value>,
    grammar: Option<CompiledGrammar>,
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
        Conversation {
            template,
            messages: Vec::new(),
            kwargs,
            known: Vec::new(),
            dropped: Vec::new(),
            grammar: None,
        }
    }

    /// Makes every answer from now on one that `grammar` describes.
    pub fn set_grammar(&mut self, grammar: Option<CompiledGrammar>) {
        self.grammar = grammar;
    }

    /// The messages so far, as OpenAI spells them.
    pub fn messages(&self) -> &[Value] {
        &self.messages
    }

    /// Messages that were dropped because the context was full, oldest first.
    pub fn dropped(&self) -> &[Value] {
        &self.dropped
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
    ///
    /// With [`OnFull::DropOldest`] turns are dropped first, so that a quarter of the context, or `n_predict` if that is
    /// less, is left for the answer; its `keep` is the conversation's to know: whatever comes before the first turn. An
    /// answer longer than that loses the oldest tokens after it.
    pub fn reply(
        &mut self,
        context: &mut Context,
        seq: SeqId,
        params: &GenerateParams,
        sink: &mut dyn FnMut(Event) -> ControlFlow<()>,
    ) -> Result<Generated, EngineError> {
        let messages = self.messages.clone();
        let answer = self.try_reply(context, seq, params, sink);
        match &answer {
            Ok(_) => {
                let n_dropped = messages.len() + 1 - self.messages.len();
                let first = messages.iter().take_while(|m| m["role"] == "system").count();
                self.dropped.extend(messages.into_iter().skip(first).take(n_dropped));
            }
            Err(_) => self.messages = messages,
        }
        answer
    }

    fn try_reply(
        &mut self,
        context: &mut Context,
        seq: SeqId,
        params: &GenerateParams,
        sink: &mut dyn FnMut(Event) -> ControlFlow<()>,
    ) -> Result<Generated, EngineError> {
        let mut params = params.clone();
        let mut text = self.render()?;
        let mut prompt = self.encode(context.model(), &text)?;
        if matches!(params.on_full, OnFull::DropOldest { .. }) {
            let n_ctx = context.n_ctx();
            let n_room = params.n_predict.unwrap_or(usize::MAX).min(n_ctx / 4);
            while prompt.len() + n_room > n_ctx
                && let Some(n_messages) = self.drop_turn()
            {
                // Whoever breaks now is asked again with the first part of the prompt that is read.
                let _ = sink(Event::DroppedTurn { n_messages });
                text = self.render()?;
                prompt = self.encode(context.model(), &text)?;
            }
            params.on_full =
                OnFull::DropOldest { keep: self.n_before_turns(context.model(), &prompt).min(n_ctx / 2) };
        }
        let constraint = self.grammar.as_ref().map(CompiledGrammar::constraint);
        let request = Request { constraint, ..Request::new(prompt.clone(), params.clone()) };
        let answer = generate_request(context, seq, request, sink)?;
        self.push("assistant", &answer.text);
        self.known = vec![Known { text, tokens: prompt }];
        if !params.special {
            self.remember(&answer);
        }
        Ok(answer)
    }

    /// Drops the oldest turn, from its question to the next, unless it is the last; gives the number of messages.
    fn drop_turn(&mut self) -> Option<usize> {
        let first = self.messages.iter().position(|m| m["role"] != "system")?;
        let next = self.messages[first + 1..].iter().position(|m| m["role"] == "user")?;
        self.messages.drain(first..=first + next);
        Some(next + 1)
    }

    /// Tokens of a prompt before its first turn: what it has in common with a conversation that says nothing.
    fn n_before_turns(&self, model: &Model, prompt: &[u32]) -> usize {
        let mut messages = self.messages.clone();
        messages.retain(|m| m["role"] == "system");
        messages.push(json!({ "role": "user", "content": "" }));
        let mut input = RenderInput::new(Value::Array(messages));
        input.kwargs = self.kwargs.clone();
        // A template that refuses an empty question leaves nothing to compare with.
        let silent = self.template.render(&input).ok().and_then(|text| model.encode_chat(&text).ok());
        silent.map_or(0, |silent| silent.iter().zip(prompt).take_while(|(a, b)| a == b).count())
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
