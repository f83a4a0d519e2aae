//! `--override-kv KEY=TYPE:VALUE`: metadata that the user states in place of the file's, as llama.cpp spells it.

use std::str::FromStr;

use minfer_gguf::{Metadata, Value};

/// One piece of metadata that the user states.
#[derive(Clone, Debug, PartialEq)]
pub(crate) struct OverrideKv {
    key: String,
    value: Value,
}

/// What is wrong with the text of an override.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
pub(crate) enum OverrideKvError {
    /// There is no `=`, no `:`, or nothing before one of them.
    #[error("expected KEY=TYPE:VALUE, for instance tokenizer.ggml.add_bos_token=bool:false")]
    Form,
    /// The type is none of the four.
    #[error("unknown type '{0}', expected int, float, bool or str")]
    Type(String),
    /// The value is not of that type.
    #[error("'{value}' is not {expected}")]
    Value {
        /// What was given.
        value: String,
        /// What the type takes.
        expected: &'static str,
    },
}

impl OverrideKv {
    /// Puts the value under its key, whether the file has that key or not.
    pub(crate) fn apply(&self, metadata: &mut Metadata) {
        metadata.set(self.key.clone(), self.value.clone());
    }
}

impl FromStr for OverrideKv {
    type Err = OverrideKvError;

    fn from_str(text: &str) -> Result<Self, OverrideKvError> {
        let (key, typed) = text.split_once('=').ok_or(OverrideKvError::Form)?;
        let (kind, value) = typed.split_once(':').ok_or(OverrideKvError::Form)?;
        if key.is_empty() || kind.is_empty() {
            return Err(OverrideKvError::Form);
        }
        Ok(Self { key: key.to_owned(), value: parse_value(kind, value)? })
    }
}

fn parse_value(kind: &str, value: &str) -> Result<Value, OverrideKvError> {
    match kind {
        "int" => parsed(value, "a whole number of 64 bits").map(Value::I64),
        "float" => parsed(value, "a number").map(Value::F32),
        "bool" => parsed(value, "true or false").map(Value::Bool),
        "str" => Ok(Value::String(value.to_owned())),
        _ => Err(OverrideKvError::Type(kind.to_owned())),
    }
}

fn parsed<T: FromStr>(value: &str, expected: &'static str) -> Result<T, OverrideKvError> {
    value.parse().map_err(|_| OverrideKvError::Value { value: value.to_owned(), expected })
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn each_type_is_read() {
        for (text, key, value) in [
            ("a.b=int:-7", "a.b", Value::I64(-7)),
            ("a=float:1e-6", "a", Value::F32(1e-6)),
            ("a=bool:true", "a", Value::Bool(true)),
            ("a=str:x=y:z", "a", Value::String("x=y:z".into())),
            ("a=str:", "a", Value::String(String::new())),
        ] {
            assert_eq!(text.parse(), Ok(OverrideKv { key: key.into(), value }), "{text}");
        }
    }

    #[test]
    fn what_is_wrong_is_named() {
        let value = |value: &str, expected| OverrideKvError::Value { value: value.into(), expected };
        for (text, error) in [
            ("", OverrideKvError::Form),
            ("a", OverrideKvError::Form),
            ("a=1", OverrideKvError::Form),
            ("=int:1", OverrideKvError::Form),
            ("a=:1", OverrideKvError::Form),
            ("a=uint:1", OverrideKvError::Type("uint".into())),
            ("a=int:1.5", value("1.5", "a whole number of 64 bits")),
            ("a=int:9223372036854775808", value("9223372036854775808", "a whole number of 64 bits")),
            ("a=float:x", value("x", "a number")),
            ("a=bool:1", value("1", "true or false")),
        ] {
            assert_eq!(text.parse::<OverrideKv>(), Err(error), "{text}");
        }
    }

    #[test]
    fn an_override_replaces_or_adds() {
        let mut metadata = Metadata::new();
        metadata.set("a", Value::U32(1));
        for text in ["a=int:2", "b=str:x"] {
            text.parse::<OverrideKv>().unwrap().apply(&mut metadata);
        }
        assert_eq!((metadata.u32("a"), metadata.str("b")), (Ok(2), Ok("x")));
    }
}
