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
        chain.clear();
        for (at, c) in spelled.char_indices() {
            let end = at + c.len_utf8();
            chain.push(self.piece(&spelled[at..end], vocab).unwrap_or(NONE), at as u32, end as u32);
        }
        chain.merge(|left: &Symbol, right: &Symbol| {
            let id = self.piece(&spelled[left.start as usize..right.end as usize], vocab)?;
            Some(Join { rank: self.ranks[id as usize], id })
        });
        self.emit(&spelled, text, chain, ids, &mut dropped);
    }

    /// Writes the tokens of the joined chain. `spelled` has the characters of `text` one for one, after the prefix.
    fn emit(
        &self,
        spelled: &str,
        text: &str,
        chain: &Chain,
        ids: &mut Vec<u32>,
        dropped: &mut impl FnMut(usize, u8),
    ) {
        let mut places = text.char_indices();
        let mut prefix_chars = usize::from(self.add_space_prefix);
        let mut after_unknown = false;
        for symbol in chain.iter() {
            let piece = &spelled[symbol.start as usize..symbol.end as usize];
            let n_chars = piece.chars().count() - std::mem::take(&mut prefix_chars);
            let origin = places.by_ref().take(n_chars).reduce(|first, _| first);
            let was_unknown = std::mem::take(&mut after_unknown);
            match symbol.id {
                NONE if self.push_bytes(piece, ids) => {}
                NONE => {
                    after_unknown = true;
                    match (self.unknown, origin) {
                        (Some(_), _) if was_unknown => {}
                        (Some(unknown), _) => ids.push(unknown),
                        (None, Some((at, c))) => report(at, c, dropped),
                        (None, None) => {}
                    }
                }
                id => ids.push(id),
            }
        }
    }

    /// The token of an ordinary piece.
    fn piece(&self, text: &str, vocab: &Vocab) -> Option<u32> {
        let joinable = |&id: &u32| matches!(vocab.kind(id), Some(TokenKind::Normal | TokenKind::UserDefined));
        vocab.id(text).filter(joinable)
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

fn report(at: usize, c: char, dropped: &mut impl FnMut(usize, u8)) {
    for (i, &byte) in c.encode_utf8(&mut [0; 4]).as_bytes().iter().enumerate() {
        dropped(at + i, byte);
    }
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
