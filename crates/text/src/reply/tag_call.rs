//! A call with a tag for each parameter, as Qwen3-Coder writes it. The arguments are made into JSON here: a parameter is
//! text if its schema says so, else whatever JSON it is.
//!
//! A text may have its own closing tag in it, as that of a file can: a closing tag ends a text only where the call goes on
//! behind it, with another parameter or its end. What is no text ends at the first one.

use super::Tools;
use super::format::Tags;
use super::head_call::{MAX_HEAD_BYTES, is_name};
use super::input::{Found, Input, Start, find, starts};
use super::region::Step;
use super::sink::Sink;
use super::tools::{Kind, escaped, value_json};

/// Longer blanks behind a closing tag are not looked past: it ends the text.
const MAX_BLANK_BYTES: usize = 256;

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Part {
    Name,
    /// Before a parameter, or the end.
    Next,
    Key,
    /// Before the tag that opens a value.
    ValueOpen,
    /// Before the first character of a value.
    ValueStart,
    /// A value that is handed out as it comes.
    Text,
    /// A value that is read whole.
    Whole,
}

/// Whether a text ends at a closing tag.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum End {
    Yes,
    No,
    /// Too little has come to tell.
    Open,
}

#[derive(Clone, Debug)]
pub(super) struct TagCall {
    tags: &'static Tags,
    /// What ends the region ends the call as well.
    region_close: &'static [&'static str],
    part: Part,
    name: String,
    kind: Kind,
    n_params: usize,
    /// Bytes of a whole value that hold no end of it.
    n_searched: usize,
}

impl TagCall {
    pub(super) fn new(tags: &'static Tags, region_close: &'static [&'static str]) -> Self {
        let (name, kind) = (String::new(), Kind::Json);
        TagCall { tags, region_close, part: Part::Name, name, kind, n_params: 0, n_searched: 0 }
    }

    pub(super) fn step(&mut self, input: &mut Input, tools: &Tools, sink: &mut Sink) -> Step {
        let step = match self.part {
            Part::Name => return self.step_name(input, sink),
            Part::Next => self.step_next(input, sink),
            Part::Key => self.step_key(input, tools, sink),
            Part::ValueOpen => self.step_value_open(input),
            Part::ValueStart => self.step_value_start(input, sink),
            Part::Text => self.step_text(input, sink),
            Part::Whole => self.step_whole(input, sink),
        };
        if step == Step::Broken {
            sink.end_call(false);
        }
        step
    }

    fn step_name(&mut self, input: &mut Input, sink: &mut Sink) -> Step {
        let rest = &input.rest()[self.tags.fn_open.len()..];
        let (at, end) = match find(rest, self.tags.name_end) {
            Found::At(at, end) if at <= MAX_HEAD_BYTES => (at, end),
            Found::Safe(n) if n <= MAX_HEAD_BYTES => return Step::Wait,
            _ => return Step::NotACall,
        };
        let name = rest[..at].trim().to_owned();
        if !is_name(&name) {
            return Step::NotACall;
        }
        sink.call(&name);
        let n_end = if self.tags.keeps_name_end { 0 } else { end.len() };
        input.advance(self.tags.fn_open.len() + at + n_end);
        input.settle();
        self.name = name;
        self.part = Part::Next;
        Step::Again
    }

    fn step_next(&mut self, input: &mut Input, sink: &mut Sink) -> Step {
        input.skip_whitespace();
        input.settle();
        let (open, close) = (self.tags.param_open, self.tags.fn_close);
        match starts(input.rest(), &[open, close]) {
            Start::With(text) => {
                input.take(text.len());
                if text == close {
                    return self.end(sink);
                }
                self.part = Part::Key;
                Step::Again
            }
            Start::Open => Step::Wait,
            Start::Other => match starts(input.rest(), self.region_close) {
                Start::With(_) => self.end(sink),
                Start::Open => Step::Wait,
                Start::Other => Step::Broken,
            },
        }
    }

    fn end(&mut self, sink: &mut Sink) -> Step {
        sink.arguments(if self.n_params == 0 { "{}" } else { "}" }.to_owned());
        sink.end_call(true);
        Step::Done
    }

    fn step_key(&mut self, input: &mut Input, tools: &Tools, sink: &mut Sink) -> Step {
        let (at, end) = match find(input.rest(), &[self.tags.key_end]) {
            Found::At(at, end) if at <= MAX_HEAD_BYTES => (at, end),
            Found::Safe(n) if n <= MAX_HEAD_BYTES => return Step::Wait,
            _ => return Step::Broken,
        };
        let key = input.rest()[..at].trim().to_owned();
        input.take(at + end.len());
        self.kind = tools.kind(&self.name, &key);
        let before = if self.n_params == 0 { "{" } else { ", " };
        sink.arguments(format!("{before}\"{}\": ", escaped(&key)));
        self.n_params += 1;
        self.part = if self.tags.value_open.is_some() { Part::ValueOpen } else { Part::ValueStart };
        Step::Again
    }

    fn step_value_open(&mut self, input: &mut Input) -> Step {
        input.skip_whitespace();
        input.settle();
        match starts(input.rest(), self.tags.value_open.as_slice()) {
            Start::With(text) => {
                input.take(text.len());
                self.part = Part::ValueStart;
                Step::Again
            }
            Start::Open => Step::Wait,
            Start::Other => Step::Broken,
        }
    }

    /// A line break after the tag is not part of the value where one before the closing tag is not.
    fn step_value_start(&mut self, input: &mut Input, sink: &mut Sink) -> Step {
        if input.rest().is_empty() {
            return Step::Wait;
        }
        if self.tags.param_close.len() > 1 && input.rest().starts_with('\n') {
            input.take(1);
        }
        self.n_searched = 0;
        self.part = if self.kind == Kind::Text { Part::Text } else { Part::Whole };
        if self.part == Part::Text {
            sink.arguments("\"".to_owned());
        }
        Step::Again
    }

    /// Whether a closing tag ends a text, given what comes behind it.
    fn ends_before(&self, behind: &str) -> End {
        let rest = behind.trim_start();
        if behind.len() - rest.len() > MAX_BLANK_BYTES {
            return End::Yes;
        }
        let next = [self.tags.param_open, self.tags.fn_close];
        match (starts(rest, &next), starts(rest, self.region_close)) {
            (Start::With(_), _) | (_, Start::With(_)) => End::Yes,
            (Start::Open, _) | (_, Start::Open) => End::Open,
            (Start::Other, Start::Other) => End::No,
        }
    }

    fn step_text(&mut self, input: &mut Input, sink: &mut Sink) -> Step {
        match find(input.rest(), self.tags.param_close) {
            Found::At(at, close) => {
                let n_with_close = at + close.len();
                match self.ends_before(&input.rest()[n_with_close..]) {
                    End::Yes => {
                        sink.arguments(format!("{}\"", escaped(&input.take(at))));
                        input.take(close.len());
                        self.part = Part::Next;
                        Step::Again
                    }
                    End::No => {
                        sink.arguments(escaped(&input.take(n_with_close)));
                        Step::Again
                    }
                    End::Open => {
                        if at > 0 {
                            sink.arguments(escaped(&input.take(at)));
                        }
                        Step::Wait
                    }
                }
            }
            Found::Safe(0) => Step::Wait,
            Found::Safe(n) => {
                sink.arguments(escaped(&input.take(n)));
                Step::Wait
            }
        }
    }

    fn step_whole(&mut self, input: &mut Input, sink: &mut Sink) -> Step {
        match find(&input.rest()[self.n_searched..], self.tags.param_close) {
            Found::At(at, close) => {
                let text = input.take(self.n_searched + at);
                sink.arguments(value_json(self.kind, &text));
                input.take(close.len());
                self.part = Part::Next;
                Step::Again
            }
            Found::Safe(n) => {
                self.n_searched += n;
                Step::Wait
            }
        }
    }
}
