//! The lines of the input, and what each asks for.

use std::fs::File;
use std::io::Read;
use std::path::Path;

use minfer_server::ApiError;
use serde_json::{Map, Value};

use super::asked::Asked;
use crate::error::CliError;
use crate::files;

/// The most that is read; OpenAI takes a fifth of it.
const MAX_BYTES: u64 = 1 << 30;

/// The whole input.
pub(super) fn read(path: &Path) -> Result<String, CliError> {
    files::reads(path, "the requests")?;
    let failed = |source| CliError::ReadFile { path: path.into(), source };
    let mut text = String::new();
    let file = File::open(path).map_err(failed)?;
    let n_read = file.take(MAX_BYTES + 1).read_to_string(&mut text).map_err(failed)?;
    if n_read as u64 > MAX_BYTES {
        return Err(failed(std::io::Error::other("it is larger than 1 GiB")));
    }
    Ok(text)
}

/// A line of the input.
#[derive(Clone, Debug)]
pub(super) struct Line<'a> {
    /// Counted from 1, empty lines included.
    pub(super) number: usize,
    /// What the user calls it; null if that can't be read.
    pub(super) custom_id: Value,
    text: &'a str,
    /// Whether a line before it has the same name.
    is_repeated: bool,
}

/// The lines that are not empty.
pub(super) fn lines(text: &str) -> Vec<Line<'_>> {
    let mut seen = std::collections::HashSet::new();
    let numbered = text.lines().enumerate().filter(|(_, text)| !text.trim().is_empty());
    let line = |(i, text): (usize, &'_ str)| {
        let object = serde_json::from_str::<Map<String, Value>>(text).ok();
        let custom_id = object.and_then(|mut o| o.remove("custom_id")).filter(Value::is_string);
        let is_repeated = custom_id.as_ref().is_some_and(|id| !seen.insert(id.to_string()));
        (i + 1, custom_id.unwrap_or(Value::Null), is_repeated)
    };
    let mut line = line;
    numbered
        .map(|(i, text)| {
            let (number, custom_id, is_repeated) = line((i, text));
            Line { number, custom_id, text, is_repeated }
        })
        .collect()
}

impl Line<'_> {
    /// The name of its answer.
    pub(super) fn answer_id(&self) -> String {
        format!("batch_req_{:08}", self.number)
    }

    /// What it asks for.
    pub(super) fn parse(&self) -> Result<Asked, ApiError> {
        let object = serde_json::from_str::<Map<String, Value>>(self.text);
        let mut object =
            object.map_err(|e| ApiError::bad("invalid_json", format!("the line is no JSON object: {e}")))?;
        let wrong = |param: &'static str, what: &str| Err(ApiError::field(param, what));
        if self.custom_id.is_null() {
            return wrong("custom_id", "a string");
        }
        if self.is_repeated {
            return wrong("custom_id", "different on every line");
        }
        if object.get("method").and_then(Value::as_str) != Some("POST") {
            return wrong("method", "POST");
        }
        let is_chat = match object.get("url").and_then(Value::as_str) {
            Some("/v1/chat/completions") => true,
            Some("/v1/completions") => false,
            _ => return wrong("url", "/v1/chat/completions or /v1/completions"),
        };
        match object.remove("body") {
            Some(body @ Value::Object(_)) => Asked::read(is_chat, body),
            _ => wrong("body", "an object"),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn lines_keep_their_numbers_and_names() {
        let text = "\n{\"custom_id\":\"a\"}\n  \nnonsense\n{\"custom_id\":\"a\"}\n{\"custom_id\":7}\n[]";
        let lines = lines(text);
        let seen: Vec<_> = lines.iter().map(|l| (l.number, l.custom_id.as_str(), l.is_repeated)).collect();
        let want = [
            (2, Some("a"), false),
            (4, None, false),
            (5, Some("a"), true),
            (6, None, false),
            (7, None, false),
        ];
        assert_eq!(seen, want);
        assert_eq!(lines[0].answer_id(), "batch_req_00000002");
    }

    #[test]
    fn what_is_missing_is_named() {
        let param = |text: &str| lines(text)[0].parse().map(|_| ()).unwrap_err();
        assert_eq!(param("nonsense").code, "invalid_json");
        for (text, name) in [
            ("{}", "custom_id"),
            ("{\"custom_id\":\"a\"}", "method"),
            ("{\"custom_id\":\"a\",\"method\":\"POST\",\"url\":\"/v1/embeddings\"}", "url"),
            ("{\"custom_id\":\"a\",\"method\":\"POST\",\"url\":\"/v1/completions\",\"body\":1}", "body"),
        ] {
            assert_eq!(param(text).param.as_deref(), Some(name), "{text}");
        }
    }
}
