//! A call as Python writes one: `name(key=value, …)`. The arguments are made into JSON here, one after the other.

use super::head_call::{MAX_HEAD_BYTES, is_name};
use super::input::Input;
use super::python_value::{LiteralScan, to_json};
use super::region::Step;
use super::sink::Sink;
use super::tools::escaped;

#[derive(Clone, Debug)]
enum Part {
    Name,
    /// Before a key, a comma, or the end.
    Next,
    Key,
    /// So many bytes of a value hold no end of it.
    Value {
        scan: LiteralScan,
        n_scanned: usize,
    },
}

#[derive(Clone, Debug)]
pub(super) struct PythonCall {
    part: Part,
    n_params: usize,
    has_comma: bool,
}

impl PythonCall {
    pub(super) fn new() -> Self {
        PythonCall { part: Part::Name, n_params: 0, has_comma: true }
    }

    pub(super) fn step(&mut self, input: &mut Input, sink: &mut Sink) -> Step {
        let step = match &mut self.part {
            Part::Name => return self.step_name(input, sink),
            Part::Next => self.step_next(input, sink),
            Part::Key => self.step_key(input, sink),
            Part::Value { scan, n_scanned } => match end_of_value(input.rest(), scan, n_scanned) {
                Some(end) => self.step_value(end, input, sink),
                None => Step::Wait,
            },
        };
        if step == Step::Broken {
            sink.end_call(false);
        }
        step
    }

    fn step_name(&mut self, input: &mut Input, sink: &mut Sink) -> Step {
        let name = match head(input.rest(), '(') {
            Head::Is(name) if is_name(name) && !name.contains([')', '=', ',']) => name.to_owned(),
            Head::Open => return Step::Wait,
            _ => return Step::NotACall,
        };
        sink.call(&name);
        let n_bytes = input.rest().find('(').map_or(0, |at| at + 1);
        input.take(n_bytes);
        self.part = Part::Next;
        Step::Again
    }

    fn step_next(&mut self, input: &mut Input, sink: &mut Sink) -> Step {
        input.skip_whitespace();
        input.settle();
        match input.rest().as_bytes().first() {
            None => Step::Wait,
            Some(b')') => {
                input.take(1);
                sink.arguments(if self.n_params == 0 { "{}" } else { "}" }.to_owned());
                sink.end_call(true);
                Step::Done
            }
            Some(b',') if !self.has_comma => {
                input.take(1);
                self.has_comma = true;
                Step::Again
            }
            Some(_) if self.has_comma => {
                self.part = Part::Key;
                Step::Again
            }
            Some(_) => Step::Broken,
        }
    }

    fn step_key(&mut self, input: &mut Input, sink: &mut Sink) -> Step {
        let key = match head(input.rest(), '=') {
            Head::Is(key) if is_name(key) && !key.contains(['(', ')', ',']) => key.to_owned(),
            Head::Open => return Step::Wait,
            _ => return Step::Broken,
        };
        let n_bytes = input.rest().find('=').map_or(0, |at| at + 1);
        input.take(n_bytes);
        let before = if self.n_params == 0 { "{" } else { ", " };
        sink.arguments(format!("{before}\"{}\": ", escaped(&key)));
        self.n_params += 1;
        self.part = Part::Value { scan: LiteralScan::default(), n_scanned: 0 };
        Step::Again
    }

    fn step_value(&mut self, end: usize, input: &mut Input, sink: &mut Sink) -> Step {
        let Some(value) = to_json(&input.take(end)) else { return Step::Broken };
        sink.arguments(value.to_string());
        self.has_comma = false;
        self.part = Part::Next;
        Step::Again
    }
}

/// What stands before a character.
enum Head<'a> {
    Is(&'a str),
    /// It has not come yet.
    Open,
    TooLong,
}

fn head(text: &str, end: char) -> Head<'_> {
    match text.find(end) {
        Some(at) if at <= MAX_HEAD_BYTES => Head::Is(text[..at].trim()),
        None if text.len() <= MAX_HEAD_BYTES => Head::Open,
        _ => Head::TooLong,
    }
}

fn end_of_value(text: &str, scan: &mut LiteralScan, n_scanned: &mut usize) -> Option<usize> {
    let found = text.as_bytes()[*n_scanned..].iter().position(|byte| scan.push(*byte));
    let end = found.map(|at| *n_scanned + at);
    *n_scanned = text.len();
    end
}
