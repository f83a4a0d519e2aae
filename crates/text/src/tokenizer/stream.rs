//! Text from tokens, as they come: only whole characters are handed out.

use super::{Tokenizer, TokenizerError};

/// Turns a stream of tokens into text. What it hands out, put together, is exactly [`Tokenizer::decode`] of the tokens:
/// bytes that begin a character are held back until it is complete, and bytes that belong to none become U+FFFD.
///
/// A decoder owns no tokenizer, so it can live beside one; give every call the same.
#[derive(Clone, Debug)]
pub struct StreamDecoder {
    special: bool,
    /// Control tokens that are kept all the same.
    shown: Vec<u32>,
    /// Whether a space at the very start is still to be taken off.
    strip_space: bool,
    pending: Vec<u8>,
}

impl StreamDecoder {
    /// Decodes a text from its start. `special` keeps control tokens in the text.
    pub fn new(tokenizer: &Tokenizer, special: bool) -> Self {
        StreamDecoder { strip_space: tokenizer.strips_first_space(), ..Self::continuing(special) }
    }

    /// Decodes a text that goes on from earlier tokens: a space at its start stays, whatever the vocabulary.
    pub fn continuing(special: bool) -> Self {
        StreamDecoder { special, shown: Vec::new(), strip_space: false, pending: Vec::new() }
    }

    /// Keeps these control tokens in the text, whatever becomes of others.
    #[must_use]
    pub fn showing(self, tokens: &[u32]) -> Self {
        StreamDecoder { shown: tokens.to_vec(), ..self }
    }

    /// Appends what token `id` completes to `out`. Errors if `id` is beyond the vocabulary.
    pub fn push(&mut self, tokenizer: &Tokenizer, id: u32, out: &mut String) -> Result<(), TokenizerError> {
        let bytes = tokenizer.visible_bytes(id, self.special || self.shown.contains(&id))?;
        let skipped = usize::from(self.strip_space && bytes.first() == Some(&b' '));
        self.strip_space &= bytes.is_empty();
        self.pending.extend_from_slice(&bytes[skipped..]);
        let held = emit_whole(&self.pending, out);
        self.pending.drain(..self.pending.len() - held);
        Ok(())
    }

    /// Ends the text: half a character becomes U+FFFD.
    pub fn finish(&mut self, out: &mut String) {
        if !self.pending.is_empty() {
            out.push(char::REPLACEMENT_CHARACTER);
            self.pending.clear();
        }
    }

    /// The bytes of a character that has begun and is not complete; empty between characters.
    pub fn pending(&self) -> &[u8] {
        &self.pending
    }
}

/// Appends the whole characters of `bytes` to `out`; returns how many bytes at the end may yet become one.
fn emit_whole(bytes: &[u8], out: &mut String) -> usize {
    let mut chunks = bytes.utf8_chunks().peekable();
    while let Some(chunk) = chunks.next() {
        out.push_str(chunk.valid());
        let bad = chunk.invalid();
        if chunks.peek().is_none() && std::str::from_utf8(bad).is_err_and(|e| e.error_len().is_none()) {
            return bad.len();
        }
        if !bad.is_empty() {
            out.push(char::REPLACEMENT_CHARACTER);
        }
    }
    0
}
