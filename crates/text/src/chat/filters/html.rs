//! Filters that escape: `escape`, `urlencode`, `striptags`, `xmlattr`.

use std::fmt::Write;

use minijinja::value::ValueKind;
use minijinja::{Environment, Error, Value};

use crate::chat::repr;

pub(super) fn add_to(env: &mut Environment<'_>) {
    env.add_filter("escape", escape);
    env.add_filter("e", escape);
    env.add_filter("forceescape", |value: &Value| {
        repr::to_str(value).map(|s| Value::from_safe_string(escape_text(&s)))
    });
    env.add_filter("safe", |value: &Value| repr::to_str(value).map(Value::from_safe_string));
    env.add_filter("urlencode", urlencode);
    env.add_filter("striptags", |value: &Value| repr::to_str(value).map(|s| strip_tags(&s)));
    env.add_filter("xmlattr", xmlattr);
}

fn escape(value: &Value) -> Result<Value, Error> {
    if value.is_safe() {
        return Ok(value.clone());
    }
    repr::to_str(value).map(|text| Value::from_safe_string(escape_text(&text)))
}

/// As `markupsafe.escape` does.
pub(in crate::chat) fn escape_text(text: &str) -> String {
    let mut out = String::with_capacity(text.len());
    for c in text.chars() {
        match c {
            '&' => out.push_str("&amp;"),
            '<' => out.push_str("&lt;"),
            '>' => out.push_str("&gt;"),
            '"' => out.push_str("&#34;"),
            '\'' => out.push_str("&#39;"),
            c => out.push(c),
        }
    }
    out
}

/// A string keeps its slashes; of a dict or a list of pairs, `key=value` joined by `&`, with `+` for spaces.
fn urlencode(value: &Value) -> Result<String, Error> {
    if !matches!(value.kind(), ValueKind::Map | ValueKind::Seq | ValueKind::Iterable) {
        return Ok(quote(&repr::to_str(value)?, "/"));
    }
    let mut pairs = Vec::new();
    for item in value.try_iter()?.checked() {
        let item = item?;
        let (key, value) = match value.kind() {
            ValueKind::Map => (item.clone(), value.get_item(&item)?),
            _ => (item.get_item(&Value::from(0))?, item.get_item(&Value::from(1))?),
        };
        let quote_plus = |v: &Value| repr::to_str(v).map(|s| quote(&s, " ").replace(' ', "+"));
        pairs.push(format!("{}={}", quote_plus(&key)?, quote_plus(&value)?));
    }
    Ok(pairs.join("&"))
}

fn quote(text: &str, also_safe: &str) -> String {
    let mut out = String::with_capacity(text.len());
    for byte in text.bytes() {
        match char::from(byte) {
            c if c.is_ascii_alphanumeric() || "_.-~".contains(c) || also_safe.contains(c) => out.push(c),
            _ => {
                let _ = write!(out, "%{byte:02X}");
            }
        }
    }
    out
}

/// Without comments and tags, entities decoded, white space collapsed.
fn strip_tags(text: &str) -> String {
    let text = without(&without(text, "<!--", "-->"), "<", ">");
    let text = text.split_whitespace().collect::<Vec<_>>().join(" ");
    const ENTITIES: [(&str, &str); 7] = [
        ("&lt;", "<"),
        ("&gt;", ">"),
        ("&quot;", "\""),
        ("&#34;", "\""),
        ("&#39;", "'"),
        ("&nbsp;", "\u{a0}"),
        ("&amp;", "&"),
    ];
    ENTITIES.iter().fold(text, |text, (entity, c)| text.replace(entity, c))
}

fn without(text: &str, open: &str, close: &str) -> String {
    let mut out = String::new();
    let mut rest = text;
    while let Some((before, behind)) = rest.split_once(open) {
        let Some((_, after)) = behind.split_once(close) else { break };
        out.push_str(before);
        rest = after;
    }
    out + rest
}

fn xmlattr(dict: &Value, autospace: Option<bool>) -> Result<Value, Error> {
    let mut attributes = Vec::new();
    for key in dict.try_iter()?.checked() {
        let key = key?;
        let value = dict.get_item(&key)?;
        if !value.is_none() && !value.is_undefined() {
            let (key, value) = (repr::to_str(&key)?, repr::to_str(&value)?);
            attributes.push(format!("{}=\"{}\"", escape_text(&key), escape_text(&value)));
        }
    }
    let space = if autospace.unwrap_or(true) && !attributes.is_empty() { " " } else { "" };
    Ok(Value::from_safe_string(format!("{space}{}", attributes.join(" "))))
}
