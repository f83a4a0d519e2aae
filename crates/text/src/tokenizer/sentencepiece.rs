//! SentencePiece BPE: a text is a chain of characters, joined by the best score.
//!
//! Spaces are written `▁`, and with `add_space_prefix` every stretch of ordinary text gets one in front. A character
//! without a token falls back to its bytes, else to the unknown token; a run of unknown characters is one token.

use minfer_gguf::{Metadata, MetadataError};

use super::TokenizerError;
use super::merge::{Chain, Join, NONE, Symbol};
use super::vocab::{TokenKind, Vocab};

const SCORES: &str = "tokenizer.ggml.scores";

/// The rank of every token, the token of every byte, and the space rule.
#[derive(Debug)]
pub(super) struct SentencePiece {
    /// By id; the better the score, the lower.
    ranks: Vec<u32>,
    byte_ids: [u32; 256],
    unknown: Option<u32>,
    /// Whether joins stay within words, so that each can be joined by itself: the same ids, from short chains.
    words_are_apart: bool,
    pub(super) add_space_prefix: bool,
}

impl SentencePiece {
    /// `unknown` is the token for what cannot be expressed, if there is one.
    pub(super) fn from_metadata(
        meta: &Metadata,
        vocab: &Vocab,
        unknown: Option<u32>,
    ) -> Result<Self, TokenizerError> {
        let scores = meta.opt_f32s(SCORES)?.ok_or_else(|| MetadataError::Missing { key: SCORES.into() })?;
        if scores.len() != vocab.len() {
            return Err(TokenizerError::Length { key: SCORES, found: scores.len(), n_vocab: vocab.len() });
        }
        if let Some(index) = scores.iter().position(|score| score.is_nan()) {
            return Err(TokenizerError::Score { index });
        }
        Ok(SentencePiece {
            ranks: scores.iter().map(|&score| rank(score)).collect(),
            byte_ids: byte_ids(vocab),
            unknown,
            words_are_apart: words_are_apart(vocab),
            add_space_prefix: meta.opt_bool("tokenizer.ggml.add_space_prefix")?.unwrap_or(true),
        })
    }

    /// Appends the tokens of a stretch of ordinary text to `ids`. Bytes that cannot be expressed are handed to
    /// `dropped` with their place in `text`.
    pub(super) fn encode(
        &self,
        text: &str,
        vocab: &Vocab,
        chain: &mut Chain,
        ids: &mut Vec<u32>,
        mut dropped: impl FnMut(usize, u8),
    ) {
        let prefix = if self.add_space_prefix { "▁" } else { "" };
        let spelled = format!("{prefix}{}", text.replace(' ', "▁"));
        let mut writer = Writer {
            places: text.char_indices(),
            prefix_chars: usize::from(self.add_space_prefix),
            after_unknown: false,
            ids,
            dropped: &mut dropped,
        };
        let mut rest = &*spelled;
        while !rest.is_empty() {
            let (word, tail) = rest.split_at(self.word_end(rest));
            self.join(word, vocab, chain);
            for symbol in chain.iter() {
                self.write(symbol.id, &word[symbol.start as usize..symbol.end as usize], &mut writer);
            }
            rest = tail;
        }
    }

    /// Where the first word of `text` ends: before the next `▁` that follows something else, if no token reaches across
    /// such a place.
    fn word_end(&self, text: &str) -> usize {
        let starts = text.match_indices('▁').map(|(at, _)| at);
        let mut next = starts.filter(|&at| self.words_are_apart && at > 0 && !text[..at].ends_with('▁'));
        next.next().unwrap_or(text.len())
    }

    /// Fills `chain` with the pieces of `word`.
    fn join(&self, word: &str, vocab: &Vocab, chain: &mut Chain) {
        chain.clear();
        for (at, c) in word.char_indices() {
            let end = at + c.len_utf8();
            chain.push(piece(&word[at..end], vocab).unwrap_or(NONE), at as u32, end as u32);
        }
        chain.merge(|left: &Symbol, right: &Symbol| {
            let id = piece(&word[left.start as usize..right.end as usize], vocab)?;
            Some(Join { rank: self.ranks[id as usize], id })
        });
    }

    fn write<D: FnMut(usize, u8)>(&self, id: u32, text: &str, writer: &mut Writer<'_, D>) {
        let origin = writer.advance(text);
        let was_unknown = std::mem::take(&mut writer.after_unknown);
        if id != NONE {
            return writer.ids.push(id);
        }
        if self.push_bytes(text, writer.ids) {
            return;
        }
        writer.after_unknown = true;
        match (self.unknown, origin) {
            (Some(_), _) if was_unknown => {}
            (Some(unknown), _) => writer.ids.push(unknown),
            (None, Some((at, c))) => writer.report(at, c),
            (None, None) => {}
        }
    }

    /// Writes `piece` as byte tokens, if there is one for each of its bytes.
    fn push_bytes(&self, piece: &str, ids: &mut Vec<u32>) -> bool {
        let byte_id = |byte: u8| self.byte_ids[usize::from(byte)];
        let has_all = piece.bytes().all(|byte| byte_id(byte) != NONE);
        if has_all {
            ids.extend(piece.bytes().map(byte_id));
        }
        has_all
    }
}

/// Where the ids go, and how far into the text they have come.
struct Writer<'a, D> {
    /// The characters of the text: one for each of the spelled ones after the prefix.
    places: std::str::CharIndices<'a>,
    prefix_chars: usize,
    /// Whether the last symbol was unknown.
    after_unknown: bool,
    ids: &'a mut Vec<u32>,
    dropped: &'a mut D,
}

impl<D: FnMut(usize, u8)> Writer<'_, D> {
    /// Steps over the characters of a spelled piece; returns the first of them in the text.
    fn advance(&mut self, piece: &str) -> Option<(usize, char)> {
        let n_chars = piece.chars().count() - std::mem::take(&mut self.prefix_chars);
        self.places.by_ref().take(n_chars).reduce(|first, _| first)
    }

    fn report(&mut self, at: usize, c: char) {
        for (i, &byte) in c.encode_utf8(&mut [0; 4]).as_bytes().iter().enumerate() {
            (self.dropped)(at + i, byte);
        }
    }
}

/// The token of an ordinary piece.
fn piece(text: &str, vocab: &Vocab) -> Option<u32> {
    vocab.id(text).filter(|&id| vocab.kind(id).is_some_and(is_ordinary))
}

fn is_ordinary(kind: TokenKind) -> bool {
    matches!(kind, TokenKind::Normal | TokenKind::UserDefined)
}

/// Whether no ordinary token has `▁` after something else.
fn words_are_apart(vocab: &Vocab) -> bool {
    let ordinary = (0..).zip(vocab.kinds()).filter(|(_, kind)| is_ordinary(**kind));
    let mut texts = ordinary.filter_map(|(id, _)| vocab.text(id));
    texts.all(|text| !text.trim_start_matches('▁').contains('▁'))
}

/// Turns scores round so that the best is lowest, keeping their order.
fn rank(score: f32) -> u32 {
    let bits = (score + 0.0).to_bits();
    let rising = if bits >> 31 == 1 { !bits } else { bits | 1 << 31 };
    !rising
}

fn byte_ids(vocab: &Vocab) -> [u32; 256] {
    let mut ids = [NONE; 256];
    for id in 0..vocab.len() as u32 {
        if let (Some(TokenKind::Byte), Some(&[byte])) = (vocab.kind(id), vocab.bytes(id)) {
            let slot = &mut ids[usize::from(byte)];
            *slot = (*slot).min(id);
        }
    }
    ids
}

#[cfg(test)]
mod tests {
    use super::rank;

    #[test]
    fn better_scores_have_lower_ranks() {
        let falling = [f32::INFINITY, 3.0, 1e-9, 0.0, -1e-9, -1.0, -31999.0, f32::NEG_INFINITY];
        assert!(falling.windows(2).all(|pair| rank(pair[0]) < rank(pair[1])));
        assert_eq!(rank(0.0), rank(-0.0));
    }
}
