//! One metadata value, for people and as JSON.

use minfer_engine::json;
use minfer_gguf::{Array, Value};
use serde_json::Value as Json;

use crate::escape;

/// How many elements of a long array are shown.
const MAX_ELEMS: usize = 8;
/// How many characters of a long text people are shown; JSON has it whole.
const MAX_CHARS: usize = 60;

/// A metadata value as it is to be shown: in full, or with long arrays and texts cut.
#[derive(Clone, Copy)]
pub(super) struct Shown<'a> {
    pub(super) value: &'a Value,
    pub(super) full: bool,
}

impl Shown<'_> {
    /// On one line: `32768`, `"qwen2"`, `["a", "b", ...]`.
    pub(super) fn to_text(self) -> String {
        match self.value {
            Value::String(text) => self.text(text),
            Value::Array(array) => self.array_text(array),
            value => scalar_json(value).map(|json| plain(&json)).unwrap_or_default(),
        }
    }

    fn text(self, text: &str) -> String {
        match text.char_indices().nth(MAX_CHARS) {
            Some((end, _)) if !self.full => format!("{}...", escape::quoted(&text.as_bytes()[..end])),
            _ => escape::quoted(text.as_bytes()),
        }
    }

    fn array_text(self, array: &Array) -> String {
        let n = if self.full { array.len() } else { array.len().min(MAX_ELEMS) };
        let mut items: Vec<_> = match array {
            Array::String(texts) => texts.iter().take(n).map(|text| self.text(text)).collect(),
            Array::Array(arrays) => arrays[..n].iter().map(|array| self.array_text(array)).collect(),
            numbers => elements(numbers, n).iter().map(plain).collect(),
        };
        if n < array.len() {
            items.push("...".to_owned());
        }
        format!("[{}]", items.join(", "))
    }

    /// The value itself; a long array is an object with its element type, length and first elements instead.
    pub(super) fn to_json(self) -> Json {
        match self.value {
            Value::Array(array) => self.array_json(array),
            value => scalar_json(value).unwrap_or_default(),
        }
    }

    fn array_json(self, array: &Array) -> Json {
        let n = if self.full { array.len() } else { array.len().min(MAX_ELEMS) };
        let items = match array {
            Array::Array(arrays) => arrays[..n].iter().map(|array| self.array_json(array)).collect(),
            flat => elements(flat, n),
        };
        if n == array.len() {
            return items.into();
        }
        let of = format!("{:?}", array.element_type()).to_lowercase();
        serde_json::json!({ "array_of": of, "count": array.len(), "first": items })
    }
}

/// Strings lose their quotation marks; that happens only to numbers that JSON has no word for.
fn plain(json: &Json) -> String {
    json.as_str().map_or_else(|| json.to_string(), Into::into)
}

/// `None` for an array.
fn scalar_json(value: &Value) -> Option<Json> {
    Some(match value {
        Value::U8(x) => (*x).into(),
        Value::I8(x) => (*x).into(),
        Value::U16(x) => (*x).into(),
        Value::I16(x) => (*x).into(),
        Value::U32(x) => (*x).into(),
        Value::I32(x) => (*x).into(),
        Value::U64(x) => (*x).into(),
        Value::I64(x) => (*x).into(),
        Value::F32(x) => json::f32(*x),
        Value::F64(x) => json::f64(*x),
        Value::Bool(x) => (*x).into(),
        Value::String(x) => x.as_str().into(),
        Value::Array(_) => return None,
    })
}

/// The first `n` elements of an array without arrays in it.
fn elements(array: &Array, n: usize) -> Vec<Json> {
    fn each<T: Copy>(items: &[T], n: usize, json: impl Fn(T) -> Json) -> Vec<Json> {
        items[..n].iter().copied().map(json).collect()
    }
    match array {
        Array::U8(v) => each(v, n, Json::from),
        Array::I8(v) => each(v, n, Json::from),
        Array::U16(v) => each(v, n, Json::from),
        Array::I16(v) => each(v, n, Json::from),
        Array::U32(v) => each(v, n, Json::from),
        Array::I32(v) => each(v, n, Json::from),
        Array::U64(v) => each(v, n, Json::from),
        Array::I64(v) => each(v, n, Json::from),
        Array::F32(v) => each(v, n, json::f32),
        Array::F64(v) => each(v, n, json::f64),
        Array::Bool(v) => each(v, n, Json::from),
        Array::String(v) => v.iter().take(n).map(Json::from).collect(),
        Array::Array(_) => Vec::new(),
    }
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::*;

    fn shown(value: &Value) -> (String, Json) {
        let shown = Shown { value, full: false };
        (shown.to_text(), shown.to_json())
    }

    #[test]
    fn scalars() {
        for (value, text, json) in [
            (Value::U64(u64::MAX), "18446744073709551615", json!(u64::MAX)),
            (Value::I8(-3), "-3", json!(-3)),
            (Value::F32(1e-6), "1e-6", json!(1e-6)),
            (Value::F32(0.1), "0.1", json!(0.1)),
            (Value::F32(f32::NAN), "NaN", json!("NaN")),
            (Value::F64(f64::NEG_INFINITY), "-inf", json!("-inf")),
            (Value::Bool(true), "true", json!(true)),
            (Value::String("a\x1b\"".into()), "\"a\\u{1b}\\\"\"", json!("a\x1b\"")),
        ] {
            assert_eq!(shown(&value), (text.to_owned(), json));
        }
    }

    #[test]
    fn long_arrays_and_texts_are_cut_unless_asked_for() {
        let value = Value::Array(Array::U32((0..10).collect()));
        let (text, json) = shown(&value);
        assert_eq!(text, "[0, 1, 2, 3, 4, 5, 6, 7, ...]");
        assert_eq!(json, json!({"array_of": "u32", "count": 10, "first": [0, 1, 2, 3, 4, 5, 6, 7]}));
        let full = Shown { value: &value, full: true };
        assert_eq!(full.to_text(), "[0, 1, 2, 3, 4, 5, 6, 7, 8, 9]");
        assert_eq!(full.to_json(), json!([0, 1, 2, 3, 4, 5, 6, 7, 8, 9]));
        let long = Value::String("é".repeat(61));
        assert_eq!(shown(&long), (format!("\"{}\"...", "é".repeat(60)), json!("é".repeat(61))));
    }

    #[test]
    fn arrays_of_every_kind() {
        let nested = Array::Array(vec![Array::Bool(vec![true]), Array::String(vec!["a"].into())]);
        assert_eq!(shown(&Value::Array(nested)), ("[[true], [\"a\"]]".into(), json!([[true], ["a"]])));
        assert_eq!(
            shown(&Value::Array(Array::F32(vec![f32::INFINITY, 0.5]))),
            ("[inf, 0.5]".into(), json!(["inf", 0.5]))
        );
        assert_eq!(shown(&Value::Array(Array::I64(Vec::new()))), ("[]".into(), json!([])));
    }
}
