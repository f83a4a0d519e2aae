//! Byte-level BPE: a piece of text is a chain of bytes, joined in the order of the merge list.

use hashbrown::HashMap;
use minfer_gguf::{Metadata, MetadataError};

use super::merge::{Chain, Join, NONE, Symbol};
use super::vocab::Vocab;
use super::{TokenizerError, byte_letters};

const MERGES: &str = "tokenizer.ggml.merges";

/// The merge list, and the token of every byte.
#[derive(Debug)]
pub(super) struct ByteBpe {
    merges: HashMap<(u32, u32), Join>,
    byte_ids: [u32; 256],
    /// Whether a piece that is a token as a whole is that token, whatever the merges would make of it.
    ignore_merges: bool,
}

impl ByteBpe {
    pub(super) fn from_metadata(
        meta: &Metadata,
        vocab: &Vocab,
        ignore_merges: bool,
    ) -> Result<Self, TokenizerError> {
        let list = meta.opt_strings(MERGES)?.ok_or_else(|| MetadataError::Missing { key: MERGES.into() })?;
        let mut merges = HashMap::with_capacity(list.len());
        let mut joined = String::new();
        for (rank, merge) in list.iter().enumerate() {
            let (pair, id) = resolve(rank, merge, vocab, &mut joined)?;
            merges.entry(pair).or_insert(Join { rank: rank as u32, id });
        }
        let letter_id = |letter: char| vocab.id(letter.encode_utf8(&mut [0; 4])).unwrap_or(NONE);
        Ok(ByteBpe { merges, byte_ids: byte_letters::LETTERS.map(letter_id), ignore_merges })
    }

    /// Appends the tokens of `piece` to `ids`. Bytes that no token stands for are handed to `dropped` with their place
    /// in the piece, and their neighbours are joined as if they weren't there, as the reference does.
    pub(super) fn encode(
        &self,
        piece: &[u8],
        vocab: &Vocab,
        chain: &mut Chain,
        ids: &mut Vec<u32>,
        mut dropped: impl FnMut(usize, u8),
    ) {
        if self.ignore_merges && piece.len() > 1 {
            let spelled: String = piece.iter().map(|&b| byte_letters::LETTERS[usize::from(b)]).collect();
            if let Some(id) = vocab.id(&spelled) {
                return ids.push(id);
            }
        }
        chain.clear();
        for (at, &byte) in piece.iter().enumerate() {
            match self.byte_ids[usize::from(byte)] {
                NONE => dropped(at, byte),
                id => chain.push(id, at as u32, at as u32 + 1),
            }
        }
        chain.merge(|left: &Symbol, right: &Symbol| self.merges.get(&(left.id, right.id)).copied());
        ids.extend(chain.iter().map(|symbol| symbol.id));
    }
}

/// The ids of the two sides of a merge, and of what they make.
fn resolve(
    index: usize,
    merge: &str,
    vocab: &Vocab,
    joined: &mut String,
) -> Result<((u32, u32), u32), TokenizerError> {
    let form = || TokenizerError::MergeForm { index, merge: merge.into() };
    let (left, right) = merge.split_once(' ').ok_or_else(form)?;
    if left.is_empty() || right.is_empty() {
        return Err(form());
    }
    joined.clear();
    joined.push_str(left);
    joined.push_str(right);
    let id = |piece: &str| {
        vocab.id(piece).ok_or_else(|| TokenizerError::MergeToken {
            index,
            merge: merge.into(),
            piece: piece.into(),
        })
    };
    Ok(((id(left)?, id(right)?), id(joined)?))
}
