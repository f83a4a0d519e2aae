use minfer_text::reply::{ReasoningTags, ReplyEvent, ReplyFormat, ReplyOptions, ReplyParser, Tools};
use serde_json::{Value, json};

/// A whole reply, put together from its events.
#[derive(Clone, Debug, Default, PartialEq)]
pub(crate) struct Reply {
    pub(crate) reasoning: String,
    pub(crate) content: String,
    pub(crate) calls: Vec<Call>,
}

#[derive(Clone, Debug, Default, PartialEq)]
pub(crate) struct Call {
    pub(crate) name: String,
    pub(crate) arguments: String,
    /// `None` until the end has come.
    pub(crate) is_complete: Option<bool>,
}

impl Reply {
    pub(crate) fn of(events: impl IntoIterator<Item = ReplyEvent>) -> Reply {
        let mut reply = Reply::default();
        for event in events {
            reply.add(event);
        }
        reply
    }

    fn add(&mut self, event: ReplyEvent) {
        match event {
            ReplyEvent::Reasoning(text) => self.reasoning.push_str(&text),
            ReplyEvent::Content(text) => self.content.push_str(&text),
            ReplyEvent::ToolCall { index, name } => {
                assert_eq!(index, self.calls.len());
                self.calls.push(Call { name, ..Call::default() });
            }
            ReplyEvent::ToolArguments { index, delta } => {
                assert_eq!((index + 1, self.calls[index].is_complete), (self.calls.len(), None));
                self.calls[index].arguments.push_str(&delta);
            }
            ReplyEvent::ToolCallEnd { index, is_complete } => {
                assert_eq!(self.calls[index].is_complete, None);
                self.calls[index].is_complete = Some(is_complete);
            }
        }
    }

    /// What holds of every reply.
    pub(crate) fn check(&self) {
        for call in &self.calls {
            let json = serde_json::from_str::<Value>(&call.arguments);
            assert_eq!(Some(json.is_ok_and(|j| j.is_object())), call.is_complete, "{call:?}");
        }
    }

    /// Names and arguments of the calls.
    pub(crate) fn called(&self) -> Vec<(String, Value)> {
        let arguments = |text: &str| serde_json::from_str(text).unwrap_or_else(|_| json!({"not json": text}));
        self.calls.iter().map(|call| (call.name.clone(), arguments(&call.arguments))).collect()
    }
}

pub(crate) const THINK: ReasoningTags = ReasoningTags { open: "<think>", close: "</think>" };

/// The row `name`, with reasoning.
pub(crate) fn format(name: &str) -> ReplyFormat {
    ReplyFormat { reasoning: Some(THINK), tools: Some(ReplyFormat::tool_format(name).unwrap()) }
}

pub(crate) fn tools() -> Tools {
    let properties =
        json!({"path": {"type": "string"}, "n": {"type": "integer"}, "note": {"type": ["string", "null"]}});
    Tools::from_json(&json!([
        {"type": "function", "function": {"name": "edit", "parameters": {"type": "object", "properties": properties}}},
        {"type": "function", "function": {"name": "now"}},
    ]))
}

/// The reply that these pieces make.
pub(crate) fn read_pieces<'a>(
    format: ReplyFormat,
    options: ReplyOptions,
    pieces: impl IntoIterator<Item = &'a str>,
) -> Reply {
    let mut parser = ReplyParser::new(format, options);
    let mut events: Vec<ReplyEvent> = pieces.into_iter().flat_map(|piece| parser.push(piece)).collect();
    events.extend(parser.finish());
    let reply = Reply::of(events);
    reply.check();
    reply
}

pub(crate) fn read(format: ReplyFormat, text: &str) -> Reply {
    read_pieces(format, ReplyOptions { tools: tools(), in_reasoning: false }, [text])
}
