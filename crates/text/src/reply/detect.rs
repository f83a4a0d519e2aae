//! Which format a template speaks: it is shown a conversation with a call, and the rows of the table are asked which of
//! them reads it back.

use serde_json::{Value, json};

use super::format::{FORMATS, REASONING, ReasoningTags, ToolFormat};
use super::shape::CallShape;
use super::{ReplyEvent, ReplyOptions, ReplyParser, Tools};
use crate::chat::{ChatTemplate, RenderInput};
use crate::tokenizer::{TokenKind, Tokenizer};

/// How the replies of a model are written.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct ReplyFormat {
    /// How reasoning is set apart; `None` if the template knows of none.
    pub reasoning: Option<ReasoningTags>,
    /// How tools are called; `None` if the template does not render calls, or in no way that is known.
    pub tools: Option<&'static ToolFormat>,
}

impl ReplyFormat {
    /// Asks the template.
    pub fn detect(template: &ChatTemplate) -> Self {
        let reasoning = REASONING.iter().find(|tags| template.mentions(tags.close)).copied();
        let format = ReplyFormat { reasoning, tools: None };
        let tools =
            probes(template).iter().find_map(|reply| FORMATS.iter().find(|row| reads(format, row, reply)));
        ReplyFormat { tools, ..format }
    }

    /// How the template writes one call; `None` if it is not known from the text alone.
    pub fn call_shape(self, template: &ChatTemplate) -> Option<CallShape> {
        let row = self.tools?;
        let reply = probes(template).into_iter().find(|reply| reads(self, row, reply))?;
        CallShape::of(row, &reply).filter(|shape| reads(self, row, &shape.call(TOOL, &arguments())))
    }

    /// The row of this name.
    pub fn tool_format(name: &str) -> Option<&'static ToolFormat> {
        FORMATS.iter().find(|row| row.name == name)
    }

    /// The text that begins calls, of those that a call's own text begins with; `None` if calls begin without one.
    pub fn opening(&self, call: &str) -> Option<&'static str> {
        let row = self.tools?;
        row.open.iter().chain(row.open_kept).copied().find(|text| call.starts_with(text))
    }

    /// Whether a prompt leaves the model in the middle of its reasoning.
    pub fn opens_reasoning(&self, prompt: &str) -> bool {
        self.reasoning.is_some_and(|tags| prompt.trim_end().ends_with(tags.open))
    }

    /// Control tokens of the vocabulary that must be shown as text for a reply to be read. The ones that end a reply are
    /// not among them.
    pub fn shown_tokens(&self, tokenizer: &Tokenizer) -> Vec<u32> {
        let is_hidden =
            |id: &u32| tokenizer.kind(*id).is_some_and(TokenKind::is_hidden) && !tokenizer.is_eog(*id);
        self.markers().into_iter().filter_map(|text| tokenizer.token_id(text)).filter(is_hidden).collect()
    }

    /// The texts that steer reading.
    pub fn markers(&self) -> Vec<&'static str> {
        let tags = self.reasoning.iter().flat_map(|tags| [tags.open, tags.close]);
        tags.chain(self.tools.iter().flat_map(|row| row.markers())).collect()
    }
}

/// The user's words in the conversation that is rendered; no template has them.
const QUESTION: &str = "Which page is it, zzyx?";
pub(super) const TOOL: &str = "look_up_page";

pub(super) fn arguments() -> Value {
    json!({"place": "Oslo", "count": 3})
}

fn tool() -> Value {
    let parameters = json!({"type": "object", "required": ["place", "count"], "properties": {
        "place": {"type": "string", "description": "Where."},
        "count": {"type": "integer", "description": "How many."}}});
    json!({"type": "function", "function": {
        "name": TOOL, "description": "Looks a page up.", "parameters": parameters}})
}

/// What the assistant says when it calls the tool, as the template writes it, in every way that templates agree to.
fn probes(template: &ChatTemplate) -> Vec<String> {
    let user = json!({"role": "user", "content": QUESTION});
    let mut replies = Vec::new();
    // Some templates want an id of nine letters, others one that has the name in it.
    for id in ["abcdefghi".to_owned(), format!("functions.{TOOL}:0")] {
        for arguments in [arguments(), Value::from(arguments().to_string())] {
            let call = json!({"id": id, "type": "function",
                "function": {"name": TOOL, "arguments": arguments}});
            let assistant = json!({"role": "assistant", "content": "", "tool_calls": [call]});
            let result = json!({"role": "tool", "tool_call_id": id, "name": TOOL, "content": "42"});
            let prompt = render(template, json!([user]), true);
            for messages in [json!([user, assistant]), json!([user, assistant, result])] {
                let Some(text) = render(template, messages, false) else { continue };
                replies.extend(prompt.as_deref().and_then(|p| text.strip_prefix(p)).map(str::to_owned));
                replies.extend(text.split_once(QUESTION).map(|(_, after)| after.to_owned()));
            }
        }
    }
    replies
}

fn render(template: &ChatTemplate, messages: Value, add_generation_prompt: bool) -> Option<String> {
    let tools = Some(json!([tool()]));
    let input = RenderInput { tools, add_generation_prompt, ..RenderInput::new(messages) };
    template.render(&input).ok()
}

fn reads(format: ReplyFormat, row: &'static ToolFormat, reply: &str) -> bool {
    let tools = Tools::from_json(&json!([tool()]));
    let format = ReplyFormat { tools: Some(row), ..format };
    let mut parser = ReplyParser::new(format, ReplyOptions { tools, in_reasoning: false });
    let mut events = parser.push(reply);
    events.extend(parser.finish());
    let (mut names, mut json, mut n_complete) = (Vec::new(), String::new(), 0);
    for event in events {
        match event {
            ReplyEvent::ToolCall { name, .. } => names.push(name),
            ReplyEvent::ToolArguments { delta, .. } => json.push_str(&delta),
            ReplyEvent::ToolCallEnd { is_complete, .. } => n_complete += usize::from(is_complete),
            ReplyEvent::Reasoning(_) | ReplyEvent::Content(_) => {}
        }
    }
    names == [TOOL] && n_complete == 1 && serde_json::from_str::<Value>(&json).is_ok_and(|j| j == arguments())
}
