//! A region of a reply that holds calls: what may stand around them, and where it ends.

use super::Tools;
use super::format::ToolFormat;
use super::head_call::HeadCall;
use super::input::{Input, Start, starts};
use super::json_call::JsonCall;
use super::python_call::PythonCall;
use super::sink::Sink;
use super::tag_call::TagCall;

/// How reading went.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Step {
    /// There may be more to read.
    Again,
    /// More text is needed.
    Wait,
    /// What was read for is complete.
    Done,
    /// This is something else: what was read since it was settled last is ordinary text.
    NotACall,
    /// A call has begun and cannot go on; what follows is ordinary text.
    Broken,
}

/// What a text around calls says.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Role {
    Close,
    Glue,
    Open,
}

#[derive(Clone, Debug)]
enum Call {
    Json(Box<JsonCall>),
    Head(Box<HeadCall>),
    Tags(Box<TagCall>),
    Python(Box<PythonCall>),
}

#[derive(Clone, Debug)]
pub(super) struct Region {
    format: &'static ToolFormat,
    /// Without an opening: at the beginning of a reply.
    is_bare: bool,
    in_list: bool,
    /// The text before a call was there.
    is_announced: bool,
    call: Option<Call>,
    /// Calls that are complete.
    n_calls: usize,
    /// Calls of the reply before the region.
    n_before: usize,
}

impl Region {
    /// Whether a call has come up.
    pub(super) fn has_calls(&self, sink: &Sink) -> bool {
        sink.n_calls() > self.n_before
    }

    pub(super) fn new(format: &'static ToolFormat, is_bare: bool, sink: &Sink) -> Self {
        Region {
            format,
            is_bare,
            in_list: false,
            is_announced: false,
            call: None,
            n_calls: 0,
            n_before: sink.n_calls(),
        }
    }

    /// Whether what has not been settled is text that belongs to no call.
    pub(super) fn is_undecided(&self, sink: &Sink) -> bool {
        !sink.is_in_call() && (self.n_calls == 0 || self.is_announced || self.call.is_some())
    }

    pub(super) fn step(&mut self, input: &mut Input, tools: &Tools, sink: &mut Sink) -> Step {
        let step = match &mut self.call {
            None => return self.between(input),
            Some(Call::Json(call)) => call.step(input, tools, sink),
            Some(Call::Head(call)) => call.step(input, sink),
            Some(Call::Tags(call)) => call.step(input, tools, sink),
            Some(Call::Python(call)) => call.step(input, sink),
        };
        if step != Step::Done {
            return step;
        }
        self.call = None;
        self.n_calls += 1;
        input.settle();
        Step::Again
    }

    fn between(&mut self, input: &mut Input) -> Step {
        input.skip_whitespace();
        self.settle(input);
        if input.rest().is_empty() {
            return Step::Wait;
        }
        let step = match self.list(input) {
            Some(step) => step,
            None => self.around(input),
        };
        self.settle(input);
        step
    }

    /// What lies between two calls is settled as it is read; what goes before a call may yet turn out to be text.
    fn settle(&self, input: &mut Input) {
        if self.n_calls > 0 && !self.is_announced {
            input.settle();
        }
    }

    /// Reads a text of the format, or finds the next call.
    fn around(&mut self, input: &mut Input) -> Step {
        let format = self.format;
        for (texts, role) in
            [(format.close, Role::Close), (format.glue, Role::Glue), (format.call_open, Role::Open)]
        {
            match starts(input.rest(), texts) {
                Start::Open => return Step::Wait,
                Start::Other => {}
                Start::With(_) if role == Role::Close && self.n_calls == 0 => return Step::NotACall,
                Start::With(text) => {
                    input.advance(text.len());
                    self.is_announced |= role == Role::Open;
                    return if role == Role::Close { Step::Done } else { Step::Again };
                }
            }
        }
        self.next_call(input)
    }

    /// Reads the brackets and commas of an array of calls.
    fn list(&mut self, input: &mut Input) -> Option<Step> {
        if !self.format.json && !self.format.python {
            return None;
        }
        let (in_list, step) = match input.rest().as_bytes().first()? {
            b'[' if self.n_calls == 0 && !self.in_list => (true, Step::Again),
            b',' if self.in_list && self.n_calls > 0 => (true, Step::Again),
            b']' if self.in_list && self.n_calls > 0 && self.format.close.is_empty() => (false, Step::Done),
            b']' if self.in_list && self.n_calls > 0 => (false, Step::Again),
            _ => return None,
        };
        self.in_list = in_list;
        input.advance(1);
        Some(step)
    }

    fn next_call(&mut self, input: &Input) -> Step {
        match self.call_at(input.rest()) {
            Start::With(_) => Step::Again,
            Start::Open => Step::Wait,
            Start::Other if self.n_calls == 0 => Step::NotACall,
            Start::Other => Step::Done,
        }
    }

    /// Begins the call that the text begins with.
    fn call_at(&mut self, text: &str) -> Start<'static> {
        if self.format.json && text.starts_with('{') {
            self.call = Some(Call::Json(Box::new(JsonCall::new(self.is_bare))));
            return Start::With("");
        }
        if self.format.python && text.starts_with(|c: char| c.is_alphabetic() || c == '_') {
            self.call = Some(Call::Python(Box::new(PythonCall::new())));
            return Start::With("");
        }
        if let Some(head) = &self.format.head {
            let needs_text = !self.format.call_open.is_empty();
            if !self.in_list && (self.is_announced || (!needs_text && self.n_calls == 0)) {
                self.is_announced = false;
                self.call = Some(Call::Head(Box::new(HeadCall::new(head))));
                return Start::With("");
            }
        }
        let Some(tags) = &self.format.tags else { return Start::Other };
        let found = starts(text, &[tags.fn_open]);
        // Without a text before the name, only what opens the region announces a call.
        if tags.fn_open.is_empty() && self.n_calls > 0 {
            return Start::Other;
        }
        if let Start::With(_) = found {
            self.call = Some(Call::Tags(Box::new(TagCall::new(tags, self.format.close))));
        }
        found
    }
}
