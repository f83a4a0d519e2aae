//! Reads the fields of a JSON object one by one, so that what is wrong can be named: `messages[2].role must be …`.
//!
//! Null is as good as absent, as for OpenAI. What nobody asked for stays, and can be listed.

use std::ops::RangeInclusive;

use serde_json::{Map, Value};

use crate::error::ApiError;

/// An object and where it stands in the request.
#[derive(Clone, Debug)]
pub struct Fields {
    map: Map<String, Value>,
    path: String,
}

impl Fields {
    /// The body of a request.
    pub fn of_body(body: Value) -> Result<Self, ApiError> {
        match body {
            Value::Object(map) => Ok(Self { map, path: String::new() }),
            _ => Err(ApiError::bad("invalid_body", "the body must be a JSON object")),
        }
    }

    /// An object within a request, at `path`.
    pub fn of(value: Value, path: impl Into<String>) -> Result<Self, ApiError> {
        let path = path.into();
        match value {
            Value::Object(map) => Ok(Self { map, path }),
            _ => Err(ApiError::field(path, "an object")),
        }
    }

    /// Where a field of it stands, as errors name it.
    pub fn path_of(&self, name: &str) -> String {
        if self.path.is_empty() { name.to_owned() } else { format!("{}.{name}", self.path) }
    }

    /// The error that a field is not what it must be.
    pub fn wrong(&self, name: &str, what: impl std::fmt::Display) -> ApiError {
        ApiError::field(self.path_of(name), what)
    }

    /// Takes a value of any kind.
    pub fn take(&mut self, name: &str) -> Option<Value> {
        self.map.shift_remove(name).filter(|value| !value.is_null())
    }

    /// Whether a field is there, and not null.
    pub fn has(&self, name: &str) -> bool {
        self.map.get(name).is_some_and(|value| !value.is_null())
    }

    /// Takes fields that change nothing.
    pub fn ignore(&mut self, names: &[&str]) {
        for name in names {
            self.map.shift_remove(*name);
        }
    }

    /// Names that nobody has taken.
    pub fn rest(&self) -> impl Iterator<Item = &str> {
        self.map.keys().map(String::as_str)
    }

    /// All that is left, as it is.
    pub fn into_map(self) -> Map<String, Value> {
        self.map
    }

    /// Takes a yes or no.
    pub fn bool(&mut self, name: &str) -> Result<Option<bool>, ApiError> {
        match self.take(name) {
            None => Ok(None),
            Some(Value::Bool(value)) => Ok(Some(value)),
            Some(_) => Err(self.wrong(name, "true or false")),
        }
    }

    /// Takes a number within `range`.
    pub fn number(&mut self, name: &str, range: RangeInclusive<f32>) -> Result<Option<f32>, ApiError> {
        let Some(value) = self.take(name) else { return Ok(None) };
        // Rounding to single precision must not push a number out of its range.
        let number =
            value.as_f64().filter(|x| (f64::from(*range.start())..=f64::from(*range.end())).contains(x));
        let number = number.map(|x| x as f32);
        number.map(Some).ok_or_else(|| self.wrong(name, number_in(&range)))
    }

    /// Takes a whole number within `range`; `5.0` is one, too.
    pub fn integer(&mut self, name: &str, range: RangeInclusive<i64>) -> Result<Option<i64>, ApiError> {
        let Some(value) = self.take(name) else { return Ok(None) };
        let number = whole(&value).filter(|n| range.contains(n));
        number.map(Some).ok_or_else(|| self.wrong(name, integer_in(&range)))
    }

    /// Takes a count from `least` on.
    pub fn count(&mut self, name: &str, range: RangeInclusive<usize>) -> Result<Option<usize>, ApiError> {
        let bound = |n: usize| i64::try_from(n).unwrap_or(i64::MAX);
        let range = bound(*range.start())..=bound(*range.end());
        Ok(self.integer(name, range)?.and_then(|n| usize::try_from(n).ok()))
    }

    /// Takes a text.
    pub fn string(&mut self, name: &str) -> Result<Option<String>, ApiError> {
        match self.take(name) {
            None => Ok(None),
            Some(Value::String(text)) => Ok(Some(text)),
            Some(_) => Err(self.wrong(name, "a string")),
        }
    }

    /// Takes a text that must be there.
    pub fn required_string(&mut self, name: &str) -> Result<String, ApiError> {
        self.string(name)?.ok_or_else(|| self.wrong(name, "a string"))
    }

    /// Takes one of several words; gives its index.
    pub fn one_of(&mut self, name: &str, words: &[&'static str]) -> Result<Option<usize>, ApiError> {
        let Some(value) = self.take(name) else { return Ok(None) };
        let found = value.as_str().and_then(|text| words.iter().position(|word| *word == text));
        found.map(Some).ok_or_else(|| self.wrong(name, one_of(words)))
    }

    /// Takes a list of at most `max` things.
    pub fn list(&mut self, name: &str, max: usize) -> Result<Option<Vec<Value>>, ApiError> {
        match self.take(name) {
            None => Ok(None),
            Some(Value::Array(list)) if list.len() <= max => Ok(Some(list)),
            Some(Value::Array(_)) => Err(self.wrong(name, format_args!("a list of at most {max}"))),
            Some(_) => Err(self.wrong(name, "a list")),
        }
    }

    /// Takes a text, or a list of at most `max` texts.
    pub fn strings(&mut self, name: &str, max: usize) -> Result<Option<Vec<String>>, ApiError> {
        if let Some(Value::String(_)) = self.map.get(name) {
            return Ok(self.string(name)?.map(|text| vec![text]));
        }
        let Some(list) = self.list(name, max)? else { return Ok(None) };
        let text = |value| if let Value::String(text) = value { Some(text) } else { None };
        let texts: Option<Vec<String>> = list.into_iter().map(text).collect();
        texts.map(Some).ok_or_else(|| self.wrong(name, "a string or a list of strings"))
    }

    /// Takes an object.
    pub fn object(&mut self, name: &str) -> Result<Option<Fields>, ApiError> {
        self.take(name).map(|value| Fields::of(value, self.path_of(name))).transpose()
    }
}

/// The whole number that a value is.
pub(crate) fn whole(value: &Value) -> Option<i64> {
    let of_float = || value.as_f64().filter(|x| x.fract() == 0.0 && x.abs() < 9e15).map(|x| x as i64);
    value.as_i64().or_else(of_float)
}

fn number_in(range: &RangeInclusive<f32>) -> String {
    match (*range.start() == f32::MIN, *range.end() == f32::MAX) {
        (true, true) => "a number".to_owned(),
        (false, true) => format!("a number from {}", range.start()),
        _ => format!("a number from {} to {}", range.start(), range.end()),
    }
}

fn integer_in(range: &RangeInclusive<i64>) -> String {
    match (*range.start() == i64::MIN, *range.end() == i64::MAX) {
        (true, true) => "a whole number".to_owned(),
        (false, true) => format!("a whole number from {}", range.start()),
        _ => format!("a whole number from {} to {}", range.start(), range.end()),
    }
}

pub(crate) fn one_of(words: &[&'static str]) -> String {
    let quoted: Vec<_> = words.iter().map(|word| format!("'{word}'")).collect();
    match &quoted[..] {
        [one] => one.clone(),
        [all @ .., last] => format!("{} or {last}", all.join(", ")),
        [] => "absent".to_owned(),
    }
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::*;

    fn fields(value: Value) -> Fields {
        Fields::of_body(value).unwrap()
    }

    #[test]
    fn what_is_wrong_is_named_with_what_it_must_be() {
        let text = |error: ApiError| error.message;
        let mut of = fields(json!({ "a": "x", "b": 3, "c": 1.5, "d": [1], "e": { "f": "zz" } }));
        assert_eq!(text(of.number("a", 0.0..=2.0).unwrap_err()), "a must be a number from 0 to 2");
        assert_eq!(text(of.bool("b").unwrap_err()), "b must be true or false");
        assert_eq!(text(of.count("c", 1..=usize::MAX).unwrap_err()), "c must be a whole number from 1");
        assert_eq!(text(of.strings("d", 4).unwrap_err()), "d must be a string or a list of strings");
        let mut inner = of.object("e").unwrap().unwrap();
        let error = inner.one_of("f", &["low", "high"]).unwrap_err();
        assert_eq!((error.param.as_deref(), &*error.message), (Some("e.f"), "e.f must be 'low' or 'high'"));
    }

    #[test]
    fn null_is_absent_and_a_whole_float_is_whole() {
        let mut of = fields(json!({ "a": null, "b": 5.0, "c": 1e300, "d": 0.1 }));
        assert_eq!(of.bool("a"), Ok(None));
        assert_eq!(of.integer("b", 0..=9), Ok(Some(5)));
        assert!(of.integer("c", i64::MIN..=i64::MAX).is_err());
        assert_eq!(of.number("d", 0.0..=0.1).unwrap(), None.or(Some(0.1)));
        assert_eq!(of.rest().count(), 0);
    }
}
