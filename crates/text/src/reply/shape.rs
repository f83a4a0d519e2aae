//! The text of a call as a template writes it, so that a grammar can demand one.

use super::ToolFormat;
use super::detect::{TOOL, arguments};

/// A call is `before`, its name, `between`, its arguments as JSON, `after`.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct CallShape {
    /// What comes before the name.
    pub before: String,
    /// What comes between the name and the arguments.
    pub between: String,
    /// What comes after the arguments.
    pub after: String,
}

impl CallShape {
    /// Of a reply that holds one call of the probe. Formats that write each argument for itself have none.
    pub(super) fn of(row: &'static ToolFormat, reply: &str) -> Option<Self> {
        let name = reply.find(TOOL)?;
        let (head, tail) = (&reply[..name], &reply[name + TOOL.len()..]);
        let begin = row.open.iter().chain(row.open_kept).filter_map(|text| head.find(text)).min();
        let before = match begin {
            Some(at) => &head[at..],
            None if row.is_bare => head.trim_start(),
            None => return None,
        };
        let between = &tail[..tail.find('{')?];
        Some(CallShape {
            before: before.to_owned(),
            between: between.to_owned(),
            after: brackets(before).to_owned() + &after(row, &tail[between.len()..])?,
        })
    }

    /// The text of a call.
    pub fn call(&self, name: &str, arguments: &str) -> String {
        [&self.before, name, &self.between, arguments, &self.after].concat()
    }
}

/// What closes the brackets that are open before the name.
fn brackets(before: &str) -> &'static str {
    match before.split_once('{') {
        Some((list, _)) if list.trim_end().ends_with('[') => "}]",
        Some(_) => "}",
        None => "",
    }
}

/// What the template wrote between the last bracket and the end of the region, as it is.
fn after(row: &ToolFormat, tail: &str) -> Option<String> {
    let mut values = serde_json::Deserializer::from_str(tail).into_iter::<serde_json::Value>();
    if values.next()?.ok()? != arguments() {
        return None;
    }
    let rest = &tail[values.byte_offset()..];
    let end = row.close.iter().filter_map(|text| rest.find(text).map(|at| at + text.len())).min();
    let closing = &rest[..end.unwrap_or(0)];
    let begin = closing.rfind(['}', ']']).map_or(0, |at| at + 1);
    Some(closing[begin..].to_owned())
}
