//! Tells the parts of an answer's text apart: thoughts, the answer itself, calls of tools.

use minfer_text::reply::{ReplyEvent, ReplyFormat, ReplyOptions, ReplyParser};

use crate::answer::Delta;

/// Reads the text of one answer as it comes.
#[derive(Debug, Default)]
pub enum Reader {
    /// All of it is the answer.
    #[default]
    Plain,
    /// It is written in the format of a template.
    Reply(Box<ReplyReader>),
}

/// Reads an answer in the format of a template.
#[derive(Debug)]
pub struct ReplyReader {
    parser: ReplyParser,
    /// Control tokens that the text has.
    shown: Vec<u32>,
    /// What the ids of its calls begin with.
    id: String,
    /// Most calls; those beyond are dropped.
    max_calls: usize,
    n_complete: usize,
    is_broken: bool,
}

impl Reader {
    /// Of a format; one that sets nothing apart needs no reading. `shown` are the control tokens that the text has, and `id`
    /// begins the ids of calls.
    pub fn of(
        format: ReplyFormat,
        options: ReplyOptions,
        shown: Vec<u32>,
        max_calls: usize,
        id: String,
    ) -> Self {
        if format == ReplyFormat::default() {
            return Reader::Plain;
        }
        let parser = ReplyParser::new(format, options);
        Reader::Reply(Box::new(ReplyReader { parser, shown, id, max_calls, n_complete: 0, is_broken: false }))
    }

    /// Takes more text; gives what can be told of it now.
    pub fn push(&mut self, text: &str) -> Vec<Delta> {
        match self {
            Reader::Plain if text.is_empty() => Vec::new(),
            Reader::Plain => vec![Delta::Content(text.to_owned())],
            Reader::Reply(reader) => {
                let events = reader.parser.push(text);
                reader.deltas(events)
            }
        }
    }

    /// Gives what was held back, at the end of the text.
    pub fn finish(&mut self) -> Vec<Delta> {
        match self {
            Reader::Plain => Vec::new(),
            Reader::Reply(reader) => {
                let events = reader.parser.finish();
                reader.deltas(events)
            }
        }
    }

    /// Whether what comes next is a thought, as far as is certain.
    pub fn is_thinking(&self) -> bool {
        match self {
            Reader::Plain => false,
            Reader::Reply(reader) => reader.parser.is_reasoning(),
        }
    }

    /// Control tokens that the text has.
    pub fn shown(&self) -> &[u32] {
        match self {
            Reader::Plain => &[],
            Reader::Reply(reader) => &reader.shown,
        }
    }

    /// Whether tools were called, every call whole.
    pub fn calls_tools(&self) -> bool {
        match self {
            Reader::Plain => false,
            Reader::Reply(reader) => reader.n_complete > 0 && !reader.is_broken,
        }
    }
}

impl ReplyReader {
    fn deltas(&mut self, events: Vec<ReplyEvent>) -> Vec<Delta> {
        events.into_iter().filter_map(|event| self.delta(event)).collect()
    }

    fn delta(&mut self, event: ReplyEvent) -> Option<Delta> {
        let is_allowed = |index: usize| index < self.max_calls;
        match event {
            ReplyEvent::Reasoning(text) => Some(Delta::Reasoning(text)),
            ReplyEvent::Content(text) => Some(Delta::Content(text)),
            ReplyEvent::ToolCall { index, name } if is_allowed(index) => {
                Some(Delta::ToolCall { index, id: format!("{}{index:02x}", self.id), name })
            }
            ReplyEvent::ToolArguments { index, delta } if is_allowed(index) => {
                Some(Delta::ToolArguments { index, delta })
            }
            ReplyEvent::ToolCallEnd { index, is_complete } if is_allowed(index) => {
                self.n_complete += usize::from(is_complete);
                self.is_broken |= !is_complete;
                None
            }
            ReplyEvent::ToolCall { .. }
            | ReplyEvent::ToolArguments { .. }
            | ReplyEvent::ToolCallEnd { .. } => None,
        }
    }
}

#[cfg(test)]
mod tests {
    use minfer_text::reply::Tools;
    use serde_json::json;

    use super::*;

    fn reader(max_calls: usize) -> Reader {
        let format = ReplyFormat { reasoning: None, tools: ReplyFormat::tool_format("hermes") };
        let tools = Tools::from_json(&json!([{ "name": "now" }]));
        Reader::of(
            format,
            ReplyOptions { tools, in_reasoning: false },
            Vec::new(),
            max_calls,
            "call_7".into(),
        )
    }

    const CALL: &str = "<tool_call>{\"name\": \"now\", \"arguments\": {}}</tool_call>";

    #[test]
    fn calls_have_ids_and_come_one_by_one() {
        let mut reader = reader(usize::MAX);
        let mut deltas = reader.push(&format!("Hm. {CALL}{CALL}"));
        deltas.extend(reader.finish());
        let call = |index: usize| {
            let id = format!("call_7{index:02x}");
            [
                Delta::ToolCall { index, id, name: "now".into() },
                Delta::ToolArguments { index, delta: "{}".into() },
            ]
        };
        let expected: Vec<Delta> =
            [vec![Delta::Content("Hm.".into())], call(0).to_vec(), call(1).to_vec()].concat();
        assert_eq!((deltas, reader.calls_tools()), (expected, true));
    }

    #[test]
    fn where_one_call_is_allowed_there_is_one() {
        let mut reader = reader(1);
        let mut deltas = reader.push(&format!("{CALL}{CALL}"));
        deltas.extend(reader.finish());
        assert_eq!((deltas.len(), reader.calls_tools()), (2, true));
    }

    #[test]
    fn a_call_that_is_cut_off_is_no_reason_to_wait_for_a_tool() {
        let mut reader = reader(usize::MAX);
        reader.push("<tool_call>{\"name\": \"now\", \"arguments\": {\"a\": ");
        reader.finish();
        assert!(!reader.calls_tools());
    }
}
