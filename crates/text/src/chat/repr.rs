//! Python's `str()` and `repr()` of template values.
//!
//! A template prints numbers, lists and dicts into the prompt, and models were trained on what Python printed there:
//! `True`, `None`, `1e-07`, `['a', 1.0]`, `(1,)`. Everything that turns a value into text goes through this module.

use std::fmt::Write;

use minijinja::value::ValueKind;
use minijinja::{Error, ErrorKind, Value};

/// Containers nested deeper than this are refused instead of being walked.
pub(super) const MAX_DEPTH: usize = 128;

/// `str(value)`; an undefined value is the empty string.
pub(super) fn to_str(value: &Value) -> Result<String, Error> {
    let mut out = String::new();
    write_str(&mut out, value)?;
    Ok(out)
}

/// `repr(value)`.
pub(super) fn to_repr(value: &Value) -> Result<String, Error> {
    let mut out = String::new();
    Repr { sort_keys: false }.write(&mut out, value, 0)?;
    Ok(out)
}

/// `repr(value)` with the keys of every dict sorted, as `pprint` writes it.
pub(super) fn to_sorted_repr(value: &Value) -> Result<String, Error> {
    let mut out = String::new();
    Repr { sort_keys: true }.write(&mut out, value, 0)?;
    Ok(out)
}

/// Appends `str(value)`.
pub(super) fn write_str(out: &mut String, value: &Value) -> Result<(), Error> {
    match value.as_str() {
        Some(text) => out.push_str(text),
        None if value.is_undefined() => {}
        None => Repr { sort_keys: false }.write(out, value, 0)?,
    }
    Ok(())
}

struct Repr {
    sort_keys: bool,
}

impl Repr {
    fn write(&self, out: &mut String, value: &Value, depth: usize) -> Result<(), Error> {
        if depth > MAX_DEPTH {
            return Err(too_deep());
        }
        match value.kind() {
            ValueKind::Undefined => out.push_str("Undefined"),
            ValueKind::None => out.push_str("None"),
            ValueKind::Bool => out.push_str(if value.is_true() { "True" } else { "False" }),
            ValueKind::Number => write_number(out, value),
            ValueKind::String => write_quoted(out, value.as_str().unwrap_or_default()),
            ValueKind::Seq | ValueKind::Iterable => self.write_sequence(out, value, depth)?,
            ValueKind::Map if is_macro(value) => write_display(out, value),
            ValueKind::Map => self.write_dict(out, value, depth)?,
            _ => write_display(out, value),
        }
        Ok(())
    }

    fn write_sequence(&self, out: &mut String, value: &Value, depth: usize) -> Result<(), Error> {
        let (open, close) = if value.is_tuple() { ("(", ")") } else { ("[", "]") };
        out.push_str(open);
        let mut n_items = 0;
        for item in value.try_iter()?.checked() {
            if n_items > 0 {
                out.push_str(", ");
            }
            self.write(out, &item?, depth + 1)?;
            n_items += 1;
        }
        if n_items == 1 && value.is_tuple() {
            out.push(',');
        }
        out.push_str(close);
        Ok(())
    }

    fn write_dict(&self, out: &mut String, value: &Value, depth: usize) -> Result<(), Error> {
        out.push('{');
        let mut keys: Vec<Value> = value.try_iter()?.checked().collect::<Result<_, _>>()?;
        if self.sort_keys {
            keys.sort();
        }
        for (i, key) in keys.iter().enumerate() {
            if i > 0 {
                out.push_str(", ");
            }
            self.write(out, key, depth + 1)?;
            out.push_str(": ");
            self.write(out, &value.get_item(key)?, depth + 1)?;
        }
        out.push('}');
        Ok(())
    }
}

/// A macro is a map to the engine (name, arguments, caller), not to a template.
pub(super) fn is_macro(value: &Value) -> bool {
    value.as_object().is_some_and(|object| format!("{object:?}").starts_with("<macro "))
}

pub(super) fn too_deep() -> Error {
    Error::new(ErrorKind::InvalidOperation, format!("value is nested more than {MAX_DEPTH} levels deep"))
}

fn write_display(out: &mut String, value: &Value) {
    // Writing to a String cannot fail.
    let _ = write!(out, "{value}");
}

fn write_number(out: &mut String, value: &Value) {
    match as_float(value) {
        Some(x) => out.push_str(&float_repr(x)),
        None => write_display(out, value),
    }
}

/// The float that `value` holds; `None` for integers and everything else.
pub(super) fn as_float(value: &Value) -> Option<f64> {
    (value.kind() == ValueKind::Number && !value.is_integer()).then(|| f64::try_from(value.clone()).ok())?
}

fn write_quoted(out: &mut String, text: &str) {
    let quote = if text.contains('\'') && !text.contains('"') { '"' } else { '\'' };
    out.push(quote);
    for c in text.chars() {
        write_escaped(out, c, quote);
    }
    out.push(quote);
}

fn write_escaped(out: &mut String, c: char, quote: char) {
    match c {
        '\\' => out.push_str("\\\\"),
        '\n' => out.push_str("\\n"),
        '\r' => out.push_str("\\r"),
        '\t' => out.push_str("\\t"),
        c if c == quote => {
            out.push('\\');
            out.push(c);
        }
        c if is_printable(c) => out.push(c),
        c => {
            let code = u32::from(c);
            let _ = match code {
                0..=0xff => write!(out, "\\x{code:02x}"),
                0x100..=0xffff => write!(out, "\\u{code:04x}"),
                _ => write!(out, "\\U{code:08x}"),
            };
        }
    }
}

/// Python's `str.isprintable`, for the classes that text meets: controls, separators other than the space, format
/// characters, surrogates' neighbours, private use and noncharacters are not.
fn is_printable(c: char) -> bool {
    !matches!(u32::from(c),
        0..=0x1f | 0x7f..=0xa0 | 0xad | 0x600..=0x605 | 0x61c | 0x6dd | 0x70f | 0x890..=0x891 | 0x8e2 | 0x1680
        | 0x180e | 0x2000..=0x200f | 0x2028..=0x202f | 0x205f..=0x206f | 0x3000 | 0xe000..=0xf8ff | 0xfdd0..=0xfdef
        | 0xfeff | 0xfff0..=0xfffb | 0xfffe..=0xffff | 0x110bd | 0x110cd | 0x13430..=0x1343f | 0x1bca0..=0x1bca3
        | 0x1d173..=0x1d17a | 0x1fffe..=0x1ffff | 0xe0000..=0xe00ff | 0xe01f0..=0x10ffff)
}

/// Python's `repr` of a float: the shortest digits that read back, with an exponent below 1e-4 and from 1e16.
pub(super) fn float_repr(x: f64) -> String {
    if x.is_nan() {
        return "nan".to_owned();
    }
    if x.is_infinite() {
        return if x > 0.0 { "inf" } else { "-inf" }.to_owned();
    }
    let scientific = format!("{x:e}");
    let (mantissa, exponent) = scientific.split_once('e').unwrap_or((&scientific, "0"));
    let exponent: i32 = exponent.parse().unwrap_or(0);
    if x == 0.0 || (-4..16).contains(&exponent) {
        return format!("{x:?}");
    }
    let sign = if exponent < 0 { '-' } else { '+' };
    format!("{mantissa}e{sign}{:02}", exponent.abs())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn floats_print_as_python_prints_them() {
        let cases = [
            (1.0, "1.0"),
            (-0.0, "-0.0"),
            (0.1 + 0.2, "0.30000000000000004"),
            (1e-7, "1e-07"),
            (1.5e-7, "1.5e-07"),
            (0.0001, "0.0001"),
            (0.00001, "1e-05"),
            (1e15, "1000000000000000.0"),
            (1e16, "1e+16"),
            (1.25e100, "1.25e+100"),
            (f64::MAX, "1.7976931348623157e+308"),
            (f64::INFINITY, "inf"),
            (f64::NEG_INFINITY, "-inf"),
            (f64::NAN, "nan"),
        ];
        for (x, expected) in cases {
            assert_eq!(float_repr(x), expected);
        }
    }

    #[test]
    fn strings_are_quoted_as_python_quotes_them() {
        let cases = [
            ("a", "'a'"),
            ("it's", "\"it's\""),
            ("'\"", "'\\'\"'"),
            ("\n\t\\\u{7f}", "'\\n\\t\\\\\\x7f'"),
            ("é中😀", "'é中😀'"),
            ("\u{a0}\u{200b}\u{e000}", "'\\xa0\\u200b\\ue000'"),
        ];
        for (text, expected) in cases {
            assert_eq!(to_repr(&Value::from(text)).expect("a string has a repr"), expected);
        }
    }
}
