//! JSON in and out of templates: request values become template values, and `tojson` writes what Python's
//! `json.dumps` writes as `transformers` calls it (no HTML escapes, keys in their order, `ensure_ascii=False`).

use std::fmt::Write;

use minijinja::value::{Kwargs, Rest, ValueKind};
use minijinja::{Error, ErrorKind, State, Value};

use super::dict::Dict;
use super::error::TemplateError;
use super::repr::{self, MAX_DEPTH};

/// A template value for a request's JSON value; deeper than [`MAX_DEPTH`] is an error.
pub(super) fn from_json(json: &serde_json::Value) -> Result<Value, TemplateError> {
    convert(json, 0)
}

fn convert(json: &serde_json::Value, depth: usize) -> Result<Value, TemplateError> {
    if depth > MAX_DEPTH {
        return Err(TemplateError::InputTooDeep { limit: MAX_DEPTH });
    }
    Ok(match json {
        serde_json::Value::Null => Value::from(()),
        serde_json::Value::Bool(b) => Value::from(*b),
        serde_json::Value::Number(n) => number(n),
        serde_json::Value::String(s) => Value::from(s.as_str()),
        serde_json::Value::Array(items) => {
            let items: Result<Vec<Value>, TemplateError> =
                items.iter().map(|item| convert(item, depth + 1)).collect();
            Value::from(items?)
        }
        serde_json::Value::Object(map) => {
            let pairs: Result<Vec<(&str, Value)>, TemplateError> =
                map.iter().map(|(key, item)| Ok((key.as_str(), convert(item, depth + 1)?))).collect();
            Dict::from_pairs(pairs?)
        }
    })
}

fn number(n: &serde_json::Number) -> Value {
    if let Some(i) = n.as_i64() {
        Value::from(i)
    } else if let Some(u) = n.as_u64() {
        Value::from(u)
    } else {
        Value::from(n.as_f64().unwrap_or(f64::NAN))
    }
}

/// The filter: `value|tojson(ensure_ascii=false, indent=none, separators=none, sort_keys=false)`.
pub(super) fn tojson(
    state: &State<'_, '_>,
    value: &Value,
    args: Rest<Value>,
    kwargs: Kwargs,
) -> Result<String, Error> {
    let writer = Writer::new(&args, &kwargs)?;
    kwargs.assert_all_used()?;
    let mut out = String::new();
    writer.write(&mut out, value, 0)?;
    // Writing JSON costs about as much as a few instructions for each 64 bytes.
    state.consume_fuel(out.len() as u64 / 16)?;
    Ok(out)
}

struct Writer {
    ensure_ascii: bool,
    indent: Option<String>,
    item_separator: String,
    key_separator: String,
    sort_keys: bool,
}

impl Writer {
    fn new(args: &[Value], kwargs: &Kwargs) -> Result<Self, Error> {
        let argument = |i: usize, name: &str| -> Result<Option<Value>, Error> {
            let named: Option<Value> = kwargs.get(name)?;
            Ok(args.get(i).cloned().or(named).filter(|v| !v.is_none() && !v.is_undefined()))
        };
        let ensure_ascii = argument(0, "ensure_ascii")?.is_some_and(|v| v.is_true());
        let indent = argument(1, "indent")?.map(|v| indent_text(&v)).transpose()?;
        let (mut item_separator, key_separator) = match argument(2, "separators")? {
            Some(pair) => separators(&pair)?,
            None => (", ".to_owned(), ": ".to_owned()),
        };
        if indent.is_some() && argument(2, "separators")?.is_none() {
            item_separator = ",".to_owned();
        }
        let sort_keys = argument(3, "sort_keys")?.is_some_and(|v| v.is_true());
        Ok(Self { ensure_ascii, indent, item_separator, key_separator, sort_keys })
    }

    fn write(&self, out: &mut String, value: &Value, depth: usize) -> Result<(), Error> {
        if depth > MAX_DEPTH {
            return Err(repr::too_deep());
        }
        match value.kind() {
            ValueKind::None => out.push_str("null"),
            ValueKind::Bool => out.push_str(if value.is_true() { "true" } else { "false" }),
            ValueKind::Number => write_number(out, value),
            ValueKind::String => self.write_string(out, value.as_str().unwrap_or_default()),
            ValueKind::Seq | ValueKind::Iterable => self.write_array(out, value, depth)?,
            ValueKind::Map => self.write_object(out, value, depth)?,
            kind => return Err(type_error(format!("{kind} is not JSON serializable"))),
        }
        Ok(())
    }

    fn write_array(&self, out: &mut String, value: &Value, depth: usize) -> Result<(), Error> {
        out.push('[');
        let mut is_empty = true;
        for item in value.try_iter()?.checked() {
            self.start_item(out, is_empty, depth + 1);
            is_empty = false;
            self.write(out, &item?, depth + 1)?;
        }
        self.end_items(out, is_empty, depth);
        out.push(']');
        Ok(())
    }

    fn write_object(&self, out: &mut String, value: &Value, depth: usize) -> Result<(), Error> {
        let mut keys: Vec<Value> = value.try_iter()?.checked().collect::<Result<_, _>>()?;
        if self.sort_keys {
            keys.sort();
        }
        out.push('{');
        for (i, key) in keys.iter().enumerate() {
            self.start_item(out, i == 0, depth + 1);
            self.write_string(out, &key_text(key)?);
            out.push_str(&self.key_separator);
            self.write(out, &value.get_item(key)?, depth + 1)?;
        }
        self.end_items(out, keys.is_empty(), depth);
        out.push('}');
        Ok(())
    }

    fn start_item(&self, out: &mut String, is_first: bool, depth: usize) {
        if !is_first {
            out.push_str(&self.item_separator);
        }
        self.break_line(out, depth);
    }

    fn end_items(&self, out: &mut String, is_empty: bool, depth: usize) {
        if !is_empty {
            self.break_line(out, depth);
        }
    }

    fn break_line(&self, out: &mut String, depth: usize) {
        if let Some(indent) = &self.indent {
            out.push('\n');
            (0..depth).for_each(|_| out.push_str(indent));
        }
    }

    fn write_string(&self, out: &mut String, text: &str) {
        out.push('"');
        for c in text.chars() {
            match c {
                '"' => out.push_str("\\\""),
                '\\' => out.push_str("\\\\"),
                '\n' => out.push_str("\\n"),
                '\r' => out.push_str("\\r"),
                '\t' => out.push_str("\\t"),
                '\u{8}' => out.push_str("\\b"),
                '\u{c}' => out.push_str("\\f"),
                c if c < ' ' || (self.ensure_ascii && !c.is_ascii()) => write_utf16(out, c),
                c if self.ensure_ascii && c == '\u{7f}' => out.push(c),
                c => out.push(c),
            }
        }
        out.push('"');
    }
}

fn write_utf16(out: &mut String, c: char) {
    for unit in c.encode_utf16(&mut [0; 2]) {
        let _ = write!(out, "\\u{unit:04x}");
    }
}

fn write_number(out: &mut String, value: &Value) {
    match repr::as_float(value) {
        Some(x) if x.is_nan() => out.push_str("NaN"),
        Some(x) if x.is_infinite() => out.push_str(if x > 0.0 { "Infinity" } else { "-Infinity" }),
        Some(x) => out.push_str(&repr::float_repr(x)),
        None => {
            let _ = write!(out, "{value}");
        }
    }
}

fn key_text(key: &Value) -> Result<String, Error> {
    let mut text = String::new();
    match key.kind() {
        ValueKind::String => text.push_str(key.as_str().unwrap_or_default()),
        ValueKind::None => text.push_str("null"),
        ValueKind::Bool => text.push_str(if key.is_true() { "true" } else { "false" }),
        ValueKind::Number => write_number(&mut text, key),
        kind => {
            return Err(type_error(format!("keys must be strings, numbers, booleans or none, not {kind}")));
        }
    }
    Ok(text)
}

/// How much one level is indented: a number of spaces, or a string as it is. `json.dumps` takes a negative number
/// for 0; a wide one is refused, as it multiplies with depth.
fn indent_text(indent: &Value) -> Result<String, Error> {
    const MAX_INDENT: i64 = 64;
    if let Some(text) = indent.as_str().filter(|text| text.len() <= MAX_INDENT as usize) {
        return Ok(text.to_owned());
    }
    let n_spaces =
        if indent.kind() == ValueKind::Bool { Some(i64::from(indent.is_true())) } else { indent.as_i64() };
    match n_spaces {
        Some(n) if n <= MAX_INDENT => Ok(" ".repeat(usize::try_from(n).unwrap_or(0))),
        _ => Err(type_error(format!("tojson cannot indent by {indent:?}"))),
    }
}

fn separators(pair: &Value) -> Result<(String, String), Error> {
    let parts: Vec<Value> = pair.try_iter()?.checked().take(3).collect::<Result<_, _>>()?;
    match &parts[..] {
        [item, key] => match (item.as_str(), key.as_str()) {
            (Some(item), Some(key)) => Ok((item.to_owned(), key.to_owned())),
            _ => Err(type_error("tojson separators must be strings".to_owned())),
        },
        _ => Err(type_error("tojson separators must be two strings".to_owned())),
    }
}

fn type_error(detail: String) -> Error {
    Error::new(ErrorKind::InvalidOperation, detail)
}
