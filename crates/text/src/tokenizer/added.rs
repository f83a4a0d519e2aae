//! Finds special and user-defined tokens in text before anything else looks at it.
//!
//! The leftmost match wins, and of several that start there the longest. Control and unknown tokens are found only when
//! asked for; user-defined ones always. A trie keeps the cost per place to the length of what matches there.

use hashbrown::HashMap;

use super::vocab::{TokenKind, Vocab};

/// A trie over the spellings of the tokens that are recognised whole.
#[derive(Debug, Default)]
pub(super) struct AddedTokens {
    edges: HashMap<(u32, u8), u32>,
    /// By node: the token that ends there.
    tokens: Vec<Option<Added>>,
}

#[derive(Clone, Copy, Debug)]
struct Added {
    id: u32,
    is_special: bool,
}

/// A stretch of text between tokens, or a token.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Part<'t> {
    /// Ordinary text, never empty, and where it starts.
    Text(usize, &'t str),
    /// A token.
    Token(u32),
}

impl AddedTokens {
    pub(super) fn new(vocab: &Vocab) -> Self {
        let mut added = AddedTokens { edges: HashMap::new(), tokens: vec![None] };
        for (id, kind) in (0..).zip(vocab.kinds()) {
            let is_special = kind.is_hidden();
            if is_special || *kind == TokenKind::UserDefined {
                added.insert(vocab.text(id).unwrap_or_default(), Added { id, is_special });
            }
        }
        added
    }

    /// Calls `emit` with the parts of `text` in order.
    pub(super) fn split<'t>(&self, text: &'t str, parse_special: bool, mut emit: impl FnMut(Part<'t>)) {
        let bytes = text.as_bytes();
        let (mut at, mut start) = (0, 0);
        while at < bytes.len() {
            match self.longest(&bytes[at..], parse_special) {
                Some((id, len)) => {
                    if start < at {
                        emit(Part::Text(start, &text[start..at]));
                    }
                    emit(Part::Token(id));
                    at += len;
                    start = at;
                }
                None => at += 1,
            }
        }
        if start < text.len() {
            emit(Part::Text(start, &text[start..]));
        }
    }

    fn insert(&mut self, text: &str, token: Added) {
        if text.is_empty() {
            return;
        }
        let mut node = 0;
        for &byte in text.as_bytes() {
            let next = self.tokens.len() as u32;
            node = *self.edges.entry((node, byte)).or_insert(next);
            if node == next {
                self.tokens.push(None);
            }
        }
        // The lowest id of a text that stands twice, as in the vocabulary.
        self.tokens[node as usize].get_or_insert(token);
    }

    /// The longest token that `bytes` starts with, and its length.
    fn longest(&self, bytes: &[u8], parse_special: bool) -> Option<(u32, usize)> {
        let (mut node, mut best) = (0, None);
        for (i, &byte) in bytes.iter().enumerate() {
            let Some(&next) = self.edges.get(&(node, byte)) else { break };
            node = next;
            if let Some(token) = self.tokens[node as usize].filter(|token| parse_special || !token.is_special)
            {
                best = Some((token.id, i + 1));
            }
        }
        best
    }
}
