//! A call as a head that has the name, and the arguments as a JSON object.

use super::format::Head;
use super::input::Input;
use super::json_scan::JsonScan;
use super::region::Step;
use super::sink::Sink;

/// A head that is longer is none.
pub(super) const MAX_HEAD_BYTES: usize = 256;

#[derive(Clone, Debug)]
pub(super) struct HeadCall {
    head: &'static Head,
    arguments: Option<JsonScan>,
}

impl HeadCall {
    pub(super) fn new(head: &'static Head) -> Self {
        HeadCall { head, arguments: None }
    }

    pub(super) fn step(&mut self, input: &mut Input, sink: &mut Sink) -> Step {
        match &mut self.arguments {
            Some(scan) => step_arguments(scan, input, sink),
            None => self.step_head(input, sink),
        }
    }

    fn step_head(&mut self, input: &mut Input, sink: &mut Sink) -> Step {
        let rest = input.rest();
        let Some(at) = rest.find('{') else {
            return if rest.len() > MAX_HEAD_BYTES { Step::NotACall } else { Step::Wait };
        };
        let name = if at > MAX_HEAD_BYTES { None } else { self.name(&rest[..at]) };
        let Some(name) = name else { return Step::NotACall };
        sink.call(&name);
        input.advance(at);
        input.settle();
        self.arguments = Some(JsonScan::new());
        Step::Again
    }

    fn name(&self, head: &str) -> Option<String> {
        let head = head.trim_start();
        let head = self.head.before.iter().find_map(|text| head.strip_prefix(text)).unwrap_or(head);
        let end = self.head.ends.iter().filter_map(|text| head.find(text)).min()?;
        let name = head[..end].trim();
        is_name(name).then(|| name.to_owned())
    }
}

/// Whether this can be the name of a tool.
pub(super) fn is_name(text: &str) -> bool {
    let is_odd = |c: char| c.is_whitespace() || c.is_control() || "<>{}[]\"'`".contains(c);
    !text.is_empty() && !text.contains(is_odd)
}

fn step_arguments(scan: &mut JsonScan, input: &mut Input, sink: &mut Sink) -> Step {
    let (mut out, mut n_read, mut is_broken) = (Vec::new(), 0, false);
    for byte in input.rest().bytes() {
        match scan.push(byte) {
            Ok(Some(text)) => out.extend_from_slice(text.as_bytes()),
            Ok(None) => out.push(byte),
            Err(_) => {
                is_broken = true;
                break;
            }
        }
        n_read += 1;
        if scan.is_done() {
            break;
        }
    }
    sink.arguments(String::from_utf8_lossy(&out).into_owned());
    input.advance(n_read);
    input.settle();
    if is_broken || scan.is_done() {
        sink.end_call(!is_broken);
    }
    match (is_broken, scan.is_done()) {
        (true, _) => Step::Broken,
        (false, true) => Step::Done,
        (false, false) => Step::Wait,
    }
}
