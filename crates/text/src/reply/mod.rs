//! A model's reply, read as it comes: reasoning, content and tool calls told apart.
//!
//! The template decides how a model writes calls, so [`ReplyFormat::detect`] asks the template: it renders a call and
//! looks which row of a table reads it back. Nothing depends on the name of a model.
//!
//! # What holds
//! - Any cut of a reply into pieces gives the same events, put together; no part of a tag comes out before it is certain
//!   that it is none.
//! - No text is lost. What looks like a call and is none is content, with its tags. Whitespace next to reasoning and calls
//!   belongs to the format, and so does what closes a tag after the last call.
//! - The arguments of a complete call are one JSON object. A call that is cut off, or goes on as something that is not
//!   JSON, ends with `is_complete: false`; its arguments are then the beginning of an object and never parse, so that
//!   nobody runs half a call. What follows in the reply is content. A call that is cut off before its name and the
//!   beginning of its arguments are there is content.
//! - Reasoning stands at the beginning. A tag further on is content.
//!
//! # Example
//! ```
//! use minfer_text::reply::{ReplyEvent, ReplyFormat, ReplyOptions, ReplyParser, Tools};
//!
//! let tools = Tools::from_json(&serde_json::json!([{"name": "now"}]));
//! let format = ReplyFormat { reasoning: None, tools: ReplyFormat::tool_format("hermes") };
//! let mut parser = ReplyParser::new(format, ReplyOptions { tools, in_reasoning: false });
//! let mut events = parser.push("One moment.\n<tool_c");
//! events.extend(parser.push("all>{\"name\": \"now\", \"arguments\": {}}</tool_call>"));
//! events.extend(parser.finish());
//! assert_eq!(events, [
//!     ReplyEvent::Content("One moment.".to_owned()),
//!     ReplyEvent::ToolCall { index: 0, name: "now".to_owned() },
//!     ReplyEvent::ToolArguments { index: 0, delta: "{}".to_owned() },
//!     ReplyEvent::ToolCallEnd { index: 0, is_complete: true },
//! ]);
//! ```

mod detect;
mod format;
mod head_call;
mod input;
mod json_call;
mod json_scan;
mod python_call;
mod python_value;
mod region;
mod shape;
mod sink;
mod tag_call;
mod tools;

pub use detect::ReplyFormat;
pub use format::{ReasoningTags, ToolFormat};
pub use shape::{ArgumentsShape, CallShape, ParameterShape};
pub use tools::Tools;

use input::{Found, Input, Start, find, starts};
use region::{Region, Step};
use sink::Sink;

/// What a reply says, piece by piece.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum ReplyEvent {
    /// More of the reasoning.
    Reasoning(String),
    /// More of the answer.
    Content(String),
    /// A call begins.
    ToolCall {
        /// Its place among the calls of the reply, from 0.
        index: usize,
        /// The tool.
        name: String,
    },
    /// More of the JSON of a call's arguments.
    ToolArguments {
        /// The call.
        index: usize,
        /// What comes next of it.
        delta: String,
    },
    /// A call ends.
    ToolCallEnd {
        /// The call.
        index: usize,
        /// Whether its arguments are one whole JSON object.
        is_complete: bool,
    },
}

/// What a parser needs to know of the request.
#[derive(Clone, Debug, Default, PartialEq)]
pub struct ReplyOptions {
    /// Without tools, nothing is read as a call.
    pub tools: Tools,
    /// Whether the prompt has opened the reasoning: [`ReplyFormat::opens_reasoning`].
    pub in_reasoning: bool,
}

/// Reads one reply.
#[derive(Clone, Debug)]
pub struct ReplyParser {
    format: ReplyFormat,
    tools: Tools,
    input: Input,
    place: Place,
    /// Whitespace that is content if content follows.
    gap: String,
    /// Whether whitespace is to be dropped up to the next content.
    after_part: bool,
    sink: Sink,
}

#[derive(Clone, Debug)]
enum Place {
    /// At the beginning, or behind reasoning.
    Start {
        may_reason: bool,
    },
    Reasoning,
    Content,
    /// In a region; so many bytes opened it.
    Calls {
        region: Box<Region>,
        n_open: usize,
    },
}

impl ReplyParser {
    /// A parser at the beginning of a reply.
    pub fn new(format: ReplyFormat, options: ReplyOptions) -> Self {
        let ReplyOptions { tools, in_reasoning } = options;
        let is_reasoning = in_reasoning && format.reasoning.is_some();
        ReplyParser {
            format: ReplyFormat { tools: format.tools.filter(|_| !tools.is_empty()), ..format },
            tools,
            input: Input::default(),
            place: if is_reasoning { Place::Reasoning } else { Place::Start { may_reason: true } },
            gap: String::new(),
            after_part: is_reasoning,
            sink: Sink::default(),
        }
    }

    /// Takes more of the reply; gives what is certain by now.
    pub fn push(&mut self, piece: &str) -> Vec<ReplyEvent> {
        self.input.push(piece);
        while self.step() {}
        self.sink.take()
    }

    /// Ends the reply; gives what was held back. The parser has done its work then.
    pub fn finish(&mut self) -> Vec<ReplyEvent> {
        match &self.place {
            Place::Reasoning => {
                self.reasoning(self.input.rest().len());
                self.gap.clear();
            }
            Place::Start { .. } | Place::Content => self.content(self.input.rest().len()),
            Place::Calls { region, .. } => self.finish_calls(region.is_undecided(&self.sink)),
        }
        if !self.after_part {
            self.sink.content(std::mem::take(&mut self.gap));
        }
        self.sink.take()
    }

    fn finish_calls(&mut self, is_text: bool) {
        if is_text {
            self.input.rewind();
            self.content(self.input.rest().len());
        } else if self.sink.is_in_call() {
            self.sink.end_call(false);
        }
    }

    /// Whether what comes next is reasoning, as far as is certain.
    pub fn is_reasoning(&self) -> bool {
        matches!(self.place, Place::Reasoning)
    }

    /// Reads on; whether there may be more to read.
    fn step(&mut self) -> bool {
        match &mut self.place {
            Place::Start { may_reason } => {
                let may_reason = *may_reason;
                self.step_start(may_reason)
            }
            Place::Reasoning => self.step_reasoning(),
            Place::Content => self.step_content(),
            Place::Calls { region, n_open } => {
                let n_open = *n_open;
                let step = region.step(&mut self.input, &self.tools, &mut self.sink);
                let has_calls = region.has_calls(&self.sink);
                self.after_region_step(step, has_calls, n_open)
            }
        }
    }

    fn step_start(&mut self, may_reason: bool) -> bool {
        let rest = self.input.rest();
        let n_space = rest.len() - rest.trim_start().len();
        let space = self.input.take(n_space);
        if !self.after_part {
            self.gap.push_str(&space);
        }
        if self.input.rest().is_empty() {
            return false;
        }
        if let Some(tags) = self.format.reasoning.filter(|_| may_reason) {
            match starts(self.input.rest(), &[tags.open]) {
                Start::With(tag) => {
                    self.input.take(tag.len());
                    self.begin_part(Place::Reasoning);
                    return true;
                }
                Start::Open => return false,
                Start::Other => {}
            }
        }
        self.place = match self.format.tools {
            Some(format) if format.is_bare && self.input.rest().starts_with(['{', '[']) => {
                Place::Calls { region: Box::new(Region::new(format, true, &self.sink)), n_open: 0 }
            }
            _ => Place::Content,
        };
        true
    }

    fn begin_part(&mut self, place: Place) {
        self.gap.clear();
        self.after_part = true;
        self.place = place;
    }

    fn step_reasoning(&mut self) -> bool {
        let close = self.format.reasoning.map_or("", |tags| tags.close);
        match find(self.input.rest(), &[close]) {
            Found::At(at, tag) => {
                self.reasoning(at);
                self.input.take(tag.len());
                self.begin_part(Place::Start { may_reason: false });
                true
            }
            Found::Safe(n) => {
                self.reasoning(n);
                false
            }
        }
    }

    fn step_content(&mut self) -> bool {
        let Some(format) = self.format.tools else {
            self.content(self.input.rest().len());
            return false;
        };
        let openings = [format.open, format.open_kept].concat();
        match find(self.input.rest(), &openings) {
            Found::At(at, text) => {
                self.content(at);
                let is_kept = format.open_kept.contains(&text);
                if !is_kept {
                    self.input.advance(text.len());
                }
                let region = Box::new(Region::new(format, false, &self.sink));
                self.place = Place::Calls { region, n_open: text.len() };
                true
            }
            Found::Safe(n) => {
                self.content(n);
                false
            }
        }
    }

    fn after_region_step(&mut self, step: Step, has_calls: bool, n_open: usize) -> bool {
        if has_calls {
            self.gap.clear();
        }
        match step {
            Step::Again => return true,
            Step::Wait => return false,
            Step::Done | Step::Broken => {
                self.input.settle();
                self.begin_part(Place::Content);
            }
            Step::NotACall => {
                self.input.rewind();
                self.place = Place::Content;
                // The opening is text, and what follows is looked at anew.
                self.content(if has_calls { 0 } else { n_open });
            }
        }
        true
    }

    /// Hands out `n` bytes of reasoning, without the whitespace around it.
    fn reasoning(&mut self, n: usize) {
        let text = self.input.take(n);
        let text = self.trimmed(&text);
        self.sink.reasoning(text);
    }

    /// Hands out `n` bytes of content. Whitespace at its end waits for what follows, if that may be a call.
    fn content(&mut self, n: usize) {
        let text = self.input.take(n);
        let mut text = self.trimmed(&text);
        if self.format.tools.is_none() && !self.after_part {
            text.push_str(&std::mem::take(&mut self.gap));
        }
        self.sink.content(text);
    }

    /// The text with the whitespace that was held back before it, without what is held back now.
    fn trimmed(&mut self, text: &str) -> String {
        let text = if self.after_part { text.trim_start() } else { text };
        let body = text.trim_end();
        if body.is_empty() {
            self.gap.push_str(text);
            return String::new();
        }
        self.after_part = false;
        let out = std::mem::take(&mut self.gap) + body;
        self.gap.push_str(&text[body.len()..]);
        out
    }
}
