//! The lines of the input, and what each asks for.

use std::collections::HashSet;
use std::fs::File;
use std::io::Read;
use std::path::Path;

use minfer_server::ApiError;
use serde_json::{Map, Value};

use super::asked::Asked;
use super::fingerprint::{self, Fingerprint};
use crate::error::CliError;
use crate::files;

/// The most that is read; OpenAI takes a fifth of it.
const MAX_BYTES: u64 = 1 << 30;

/// What some editors put before a text in UTF-8.
const BYTE_ORDER_MARK: &[u8] = b"\xef\xbb\xbf";

/// The whole input.
pub(super) fn read(path: &Path) -> Result<Vec<u8>, CliError> {
    files::reads(path, "the requests")?;
    let failed = |source| CliError::ReadFile { path: path.into(), source };
    let mut bytes = Vec::new();
    let file = File::open(path).map_err(failed)?;
    let n_read = file.take(MAX_BYTES + 1).read_to_end(&mut bytes).map_err(failed)?;
    if n_read as u64 > MAX_BYTES {
        return Err(failed(std::io::Error::other("it is larger than 1 GiB")));
    }
    Ok(bytes)
}

/// A line of the input.
#[derive(Clone, Debug)]
pub(super) struct Line<'a> {
    /// Counted from 1, empty lines included.
    pub(super) number: usize,
    /// What the user calls it; null if that can't be read.
    pub(super) custom_id: Value,
    bytes: &'a [u8],
    /// Whether a line before it has the same name.
    is_repeated: bool,
}

/// The lines that are not empty.
pub(super) fn lines(text: &[u8]) -> Vec<Line<'_>> {
    let text = text.strip_prefix(BYTE_ORDER_MARK).unwrap_or(text);
    let mut seen = HashSet::new();
    let numbered = text.split(|byte| *byte == b'\n').enumerate();
    numbered
        .filter(|(_, bytes)| !bytes.trim_ascii().is_empty())
        .map(|(i, bytes)| {
            let object = serde_json::from_slice::<Map<String, Value>>(bytes).ok();
            let custom_id = object.and_then(|mut o| o.remove("custom_id")).filter(Value::is_string);
            let is_repeated = custom_id.as_ref().is_some_and(|id| !seen.insert(id.to_string()));
            Line { number: i + 1, custom_id: custom_id.unwrap_or(Value::Null), bytes, is_repeated }
        })
        .collect()
}

impl Line<'_> {
    /// The name of its answer.
    pub(super) fn answer_id(&self) -> String {
        format!("batch_req_{:08}", self.number)
    }

    /// What its answer says of where it comes from.
    pub(super) fn request_id(&self, setup: Fingerprint) -> String {
        format!("{}{setup}", self.request_id_start())
    }

    /// The part of that which does not depend on model and settings.
    pub(super) fn request_id_start(&self) -> String {
        format!("req_{}_", fingerprint::of_line(self.bytes))
    }

    /// What it asks for.
    pub(super) fn parse(&self) -> Result<Asked, ApiError> {
        let text = str::from_utf8(self.bytes).map_err(|e| {
            let at = e.valid_up_to();
            ApiError::bad("invalid_json", format!("the line is not UTF-8 text (invalid from byte {at})"))
        })?;
        let object = serde_json::from_str::<Map<String, Value>>(text);
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
        let lines = lines(text.as_bytes());
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
    fn a_byte_order_mark_is_skipped_and_bytes_that_are_no_text_spoil_their_line_only() {
        let text =
            b"\xef\xbb\xbf{\"custom_id\":\"a\"}\r\n{\"custom_id\":\"\xff\"}\n{\"custom_id\":\"b\"}\r\n";
        let lines = lines(text);
        let seen: Vec<_> = lines.iter().map(|l| (l.number, l.custom_id.as_str())).collect();
        assert_eq!(seen, [(1, Some("a")), (2, None), (3, Some("b"))]);
        let error = lines[1].parse().unwrap_err();
        assert_eq!(error.message, "the line is not UTF-8 text (invalid from byte 14)");
    }

    #[test]
    fn what_is_missing_is_named() {
        let param = |text: &str| lines(text.as_bytes())[0].parse().map(|_| ()).unwrap_err();
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
