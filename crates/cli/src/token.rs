//! One token, as the commands show it.

use std::borrow::Cow;
use std::io::{self, Write};

use minfer_text::tokenizer::Tokenizer;
use serde::Serialize;

use crate::escape;

/// A token as JSON: its text with U+FFFD for what is not UTF-8, and then its bytes.
#[derive(Serialize)]
pub(crate) struct Token<'a> {
    id: u32,
    text: Cow<'a, str>,
    #[serde(skip_serializing_if = "Option::is_none")]
    bytes: Option<&'a [u8]>,
}

impl<'a> Token<'a> {
    pub(crate) fn of(tokenizer: &'a Tokenizer, id: u32) -> Self {
        let bytes = bytes_of(tokenizer, id);
        let is_text = std::str::from_utf8(bytes).is_ok();
        Self { id, text: String::from_utf8_lossy(bytes), bytes: (!is_text).then_some(bytes) }
    }
}

/// The bytes of a token between quotation marks.
pub(crate) fn quoted(tokenizer: &Tokenizer, id: u32) -> String {
    escape::quoted(bytes_of(tokenizer, id))
}

/// `[1, 2, 3]`.
pub(crate) fn write_ids(ids: &[u32], out: &mut impl Write) -> io::Result<()> {
    out.write_all(b"[")?;
    for (i, id) in ids.iter().enumerate() {
        write!(out, "{}{id}", if i == 0 { "" } else { ", " })?;
    }
    writeln!(out, "]")
}

/// Ids that are shown were checked, or come from the model: they are in the vocabulary.
fn bytes_of(tokenizer: &Tokenizer, id: u32) -> &[u8] {
    tokenizer.token_bytes(id).unwrap_or_default()
}
