//! The text of a call as a template writes it, so that a grammar can demand one.

use serde_json::Value;

use super::ToolFormat;
use super::detect::{TOOL, arguments};
use super::format::Tags;

/// A call is `before`, its name, `between`, its arguments, `after`.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct CallShape {
    /// What comes before the name.
    pub before: String,
    /// What comes between the name and the arguments.
    pub between: String,
    /// How the arguments are written.
    pub arguments: ArgumentsShape,
    /// What comes after the arguments.
    pub after: String,
}

/// How a template writes arguments.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum ArgumentsShape {
    /// As one JSON object.
    Json,
    /// Each for itself, one after the other.
    Tags(ParameterShape),
}

/// A parameter is `before_key`, its name, `after_key`, its value, `before_close`, `close`, `after`. A value is text as it
/// is, up to the first `close`, if its schema says text, and else JSON.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct ParameterShape {
    /// What comes before the name.
    pub before_key: String,
    /// What comes between name and value.
    pub after_key: String,
    /// What the template writes before the text that closes a value, and is not part of the value.
    pub before_close: String,
    /// The text that closes a value.
    pub close: String,
    /// What comes after it.
    pub after: String,
}

impl CallShape {
    /// Of a reply that holds one call of the probe.
    pub(super) fn of(row: &'static ToolFormat, reply: &str) -> Option<Self> {
        let name = reply.find(TOOL)?;
        let (head, tail) = (&reply[..name], &reply[name + TOOL.len()..]);
        let begin = row.open.iter().chain(row.open_kept).filter_map(|text| head.find(text)).min();
        let before = match begin {
            Some(at) => &head[at..],
            None if row.is_bare => head.trim_start(),
            None => return None,
        };
        match &row.tags {
            Some(tags) => of_tags(row, tags, before, tail),
            None => of_json(row, before, tail),
        }
    }

    /// The text of a call; `arguments` is an object.
    pub fn call(&self, name: &str, arguments: &Value) -> String {
        let arguments = match &self.arguments {
            ArgumentsShape::Json => arguments.to_string(),
            ArgumentsShape::Tags(shape) => {
                let all = arguments.as_object().into_iter().flatten();
                all.map(|(key, value)| shape.parameter(key, value)).collect()
            }
        };
        [&self.before, name, &self.between, &arguments, &self.after].concat()
    }
}

impl ParameterShape {
    fn parameter(&self, key: &str, value: &Value) -> String {
        let value = value.as_str().map_or_else(|| value.to_string(), str::to_owned);
        [&self.before_key, key, &self.after_key, &value, &self.before_close, &self.close, &self.after]
            .concat()
    }
}

fn of_json(row: &ToolFormat, before: &str, tail: &str) -> Option<CallShape> {
    let between = &tail[..tail.find('{')?];
    Some(CallShape {
        before: before.to_owned(),
        between: between.to_owned(),
        arguments: ArgumentsShape::Json,
        after: brackets(before).to_owned() + &after(row, &tail[between.len()..])?,
    })
}

/// The probe has two parameters, `place` and `count`: what stands between them tells one from the next.
fn of_tags(row: &ToolFormat, tags: &Tags, before: &str, tail: &str) -> Option<CallShape> {
    let (head, rest) = tail.split_once("place")?;
    let (after_key, rest) = rest.split_once("Oslo")?;
    let (middle, rest) = rest.split_once("count")?;
    let rest = rest.strip_prefix(after_key)?.strip_prefix('3')?;
    let (between, before_key) = head.split_at(head.rfind(tags.param_open)?);
    // The last has no line break before it.
    let close = tags.param_close.last()?;
    let (before_close, next) = middle.split_once(close)?;
    let gap = next.strip_suffix(before_key)?;
    let rest = rest.strip_prefix(before_close)?.strip_prefix(close)?.strip_prefix(gap)?;
    let end = |text: &str| rest.find(text).map(|at| at + text.len());
    let end = row.close.iter().filter_map(|text| end(text)).min().or_else(|| end(tags.fn_close))?;
    Some(CallShape {
        before: before.to_owned(),
        between: between.to_owned(),
        arguments: ArgumentsShape::Tags(ParameterShape {
            before_key: before_key.to_owned(),
            after_key: after_key.to_owned(),
            before_close: before_close.to_owned(),
            close: (*close).to_owned(),
            after: gap.to_owned(),
        }),
        after: rest[..end].to_owned(),
    })
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
    let mut values = serde_json::Deserializer::from_str(tail).into_iter::<Value>();
    if values.next()?.ok()? != arguments() {
        return None;
    }
    let rest = &tail[values.byte_offset()..];
    let end = row.close.iter().filter_map(|text| rest.find(text).map(|at| at + text.len())).min();
    let closing = &rest[..end.unwrap_or(0)];
    let begin = closing.rfind(['}', ']']).map_or(0, |at| at + 1);
    Some(closing[begin..].to_owned())
}
