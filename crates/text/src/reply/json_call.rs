//! A call as a JSON object: `{"name": …, "arguments": {…}}`.
//!
//! Keys may come in any order, under the names that models use; an object under `function` holds the call itself. The
//! arguments are handed out as they come once the name is known.

use super::Tools;
use super::input::Input;
use super::json_scan::{Expect, JsonScan, NotJson};
use super::region::Step;
use super::sink::Sink;

const NAMES: &[&str] = &["name", "tool_name", "function"];
const ARGUMENTS: &[&str] = &["arguments", "parameters"];

/// What the bytes that come are part of.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Part {
    Structure,
    Key,
    Name,
    /// Arguments that are handed out.
    Arguments,
    /// Arguments that wait for the name.
    Held,
    /// Something else that the model says of the call.
    Other,
}

#[derive(Clone, Debug)]
pub(super) struct JsonCall {
    /// Only a tool of the request counts.
    is_bare: bool,
    scan: JsonScan,
    /// The depth at which the keys of the call are.
    depth: usize,
    part: Part,
    /// Bytes of the part, as they are to be written.
    seen: Vec<u8>,
    key: String,
    name: Option<String>,
    held: Option<String>,
    has_arguments: bool,
    /// The arguments are complete, and with them the call; what is left of the object says nothing.
    has_ended: bool,
}

impl JsonCall {
    pub(super) fn new(is_bare: bool) -> Self {
        JsonCall {
            is_bare,
            scan: JsonScan::new(),
            depth: 1,
            part: Part::Structure,
            seen: Vec::new(),
            key: String::new(),
            name: None,
            held: None,
            has_arguments: false,
            has_ended: false,
        }
    }

    pub(super) fn step(&mut self, input: &mut Input, tools: &Tools, sink: &mut Sink) -> Step {
        let mut n_read = 0;
        let mut result = Ok(());
        for byte in input.rest().bytes() {
            result = self.byte(byte, tools, sink);
            if result.is_err() {
                break;
            }
            n_read += 1;
            if self.scan.is_done() {
                break;
            }
        }
        self.flush(sink);
        if result.is_err() {
            // What was read before it has been handed out, or will be given back.
            return self.fail(input, n_read, sink);
        }
        input.advance(n_read);
        if self.has_arguments {
            input.settle();
        }
        match self.scan.is_done() {
            false => Step::Wait,
            true if self.has_ended => Step::Done,
            true => self.without_arguments(tools, sink),
        }
    }

    fn fail(&mut self, input: &mut Input, n_read: usize, sink: &mut Sink) -> Step {
        if !self.has_arguments {
            return Step::NotACall;
        }
        // An error is at an ASCII byte or at the first of a character, so this ends at a character.
        input.advance(n_read);
        input.settle();
        if self.has_ended {
            return Step::Done;
        }
        sink.end_call(false);
        Step::Broken
    }

    fn byte(&mut self, byte: u8, tools: &Tools, sink: &mut Sink) -> Result<(), NotJson> {
        let (expected, depth) = (self.scan.expects(), self.scan.depth());
        let written = self.scan.push(byte)?;
        if depth == self.depth && self.part == Part::Structure && !byte.is_ascii_whitespace() {
            self.begin_part(expected, byte, tools, sink)?;
        }
        match written {
            _ if self.part == Part::Structure => {}
            Some(text) => self.seen.extend_from_slice(text.as_bytes()),
            None => self.seen.push(byte),
        }
        self.depth = self.depth.min(self.scan.depth().max(1));
        if self.scan.depth() <= self.depth && self.scan.expects() != Expect::Inside {
            self.end_part(tools, sink)?;
        }
        Ok(())
    }

    fn begin_part(
        &mut self,
        expected: Expect,
        byte: u8,
        tools: &Tools,
        sink: &mut Sink,
    ) -> Result<(), NotJson> {
        match (expected, byte) {
            (Expect::Key, b'"') => self.part = Part::Key,
            (Expect::Value, b'{') if self.key == "function" => self.depth += 1,
            (Expect::Value, _) => self.part = self.value_part(byte)?,
            _ => {}
        }
        if self.part == Part::Arguments {
            self.start(tools, sink)?;
        }
        Ok(())
    }

    fn value_part(&mut self, byte: u8) -> Result<Part, NotJson> {
        let key = self.key.as_str();
        if NAMES.contains(&key) && self.name.is_none() {
            return if byte == b'"' { Ok(Part::Name) } else { Err(NotJson) };
        }
        if !ARGUMENTS.contains(&key) {
            return Ok(Part::Other);
        }
        if self.has_arguments || self.held.is_some() {
            return Err(NotJson);
        }
        match byte {
            b'{' if self.name.is_some() => Ok(Part::Arguments),
            b'{' | b'"' | b'n' => Ok(Part::Held),
            _ => Err(NotJson),
        }
    }

    fn end_part(&mut self, tools: &Tools, sink: &mut Sink) -> Result<(), NotJson> {
        let part = std::mem::replace(&mut self.part, Part::Structure);
        match part {
            Part::Structure => return Ok(()),
            Part::Arguments => {
                self.part = part;
                self.flush(sink);
                self.part = Part::Structure;
                self.end(sink);
            }
            Part::Key => self.key = self.text()?,
            Part::Name => self.name = Some(self.text()?).filter(|name| !name.is_empty()),
            Part::Held => self.held = Some(held_arguments(&self.seen)?),
            Part::Other => {}
        }
        self.seen.clear();
        if self.name.is_some()
            && let Some(arguments) = self.held.take()
        {
            self.start(tools, sink)?;
            sink.arguments(arguments);
            self.end(sink);
        }
        Ok(())
    }

    fn end(&mut self, sink: &mut Sink) {
        self.has_ended = true;
        sink.end_call(true);
    }

    /// What was seen, as the text that it spells.
    fn text(&self) -> Result<String, NotJson> {
        serde_json::from_slice(&self.seen).map_err(|_| NotJson)
    }

    fn start(&mut self, tools: &Tools, sink: &mut Sink) -> Result<(), NotJson> {
        let name = self.name.as_deref().ok_or(NotJson)?;
        if self.is_bare && !tools.contains(name) {
            return Err(NotJson);
        }
        self.has_arguments = true;
        sink.call(name);
        Ok(())
    }

    /// Hands out the arguments seen so far; only whole characters have come in.
    fn flush(&mut self, sink: &mut Sink) {
        if self.part == Part::Arguments {
            sink.arguments(String::from_utf8_lossy(&self.seen).into_owned());
            self.seen.clear();
        }
    }

    /// The object is complete and has none. Where nothing else tells a call from other JSON, it is no call.
    fn without_arguments(&mut self, tools: &Tools, sink: &mut Sink) -> Step {
        if self.is_bare || self.start(tools, sink).is_err() {
            return Step::NotACall;
        }
        sink.arguments("{}".to_owned());
        self.end(sink);
        Step::Done
    }
}

/// Arguments as an object: they may be JSON in a string, or null.
fn held_arguments(json: &[u8]) -> Result<String, NotJson> {
    let text = std::str::from_utf8(json).map_err(|_| NotJson)?;
    match serde_json::from_str(text).map_err(|_| NotJson)? {
        serde_json::Value::Null => Ok("{}".to_owned()),
        serde_json::Value::Object(_) => Ok(text.to_owned()),
        serde_json::Value::String(inner) => match serde_json::from_str(&inner) {
            Ok(serde_json::Value::Object(_)) => Ok(inner),
            _ => Err(NotJson),
        },
        _ => Err(NotJson),
    }
}
