//! Byte-level BPE: a piece of text is a chain of bytes, joined in the order of the merge list.

use std::ops::Range;

use hashbrown::HashMap;
use minfer_gguf::{Metadata, MetadataError, Strings};

use super::both::both;
use super::merge::{Chain, Join, NONE, Symbol};
use super::vocab::Vocab;
use super::{TokenizerError, byte_letters};

const MERGES: &str = "tokenizer.ggml.merges";

/// The merge list, and the token of every byte.
#[derive(Debug)]
pub(super) struct ByteBpe {
    merges: Merges,
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
        let merges = Merges::new(&resolve(list, vocab)?);
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
        chain.merge(|left: &Symbol, right: &Symbol| self.merges.get((left.id, right.id)));
        ids.extend(chain.iter().map(|symbol| symbol.id));
    }
}

/// The ids of the two sides of a merge, and of what they make.
type Merge = ((u32, u32), u32);

/// What pairs make. Two tables, so that two threads can fill them.
#[derive(Debug)]
struct Merges([HashMap<(u32, u32), Join>; 2]);

impl Merges {
    fn new(all: &[Merge]) -> Merges {
        let (even, odd) = both(&|| Merges::table(all, 0), || Merges::table(all, 1));
        Merges([even, odd])
    }

    fn table(all: &[Merge], parity: usize) -> HashMap<(u32, u32), Join> {
        let mut table = HashMap::with_capacity(all.len() / 2);
        let its_own = (0..).zip(all).filter(|(_, (pair, _))| Merges::parity(*pair) == parity);
        for (rank, &(pair, id)) in its_own {
            table.entry(pair).or_insert(Join { rank, id });
        }
        table
    }

    /// Which table has a pair.
    fn parity((left, right): (u32, u32)) -> usize {
        ((left ^ right) & 1) as usize
    }

    fn get(&self, pair: (u32, u32)) -> Option<Join> {
        self.0[Merges::parity(pair)].get(&pair).copied()
    }
}

/// The merges of the list, in order.
fn resolve(list: &Strings, vocab: &Vocab) -> Result<Vec<Merge>, TokenizerError> {
    let half = list.len() / 2;
    let (head, tail) =
        both(&|| resolve_part(list, 0..half, vocab), || resolve_part(list, half..list.len(), vocab));
    let mut merges = head?;
    merges.append(&mut tail?);
    Ok(merges)
}

fn resolve_part(list: &Strings, part: Range<usize>, vocab: &Vocab) -> Result<Vec<Merge>, TokenizerError> {
    let mut merges = Vec::with_capacity(part.len());
    // Files mostly number tokens in the order in which merges make them.
    let mut guess = 0;
    for index in part {
        let merge = resolve_one(index, list.get(index).unwrap_or_default(), vocab, guess)?;
        guess = merge.1.wrapping_add(1);
        merges.push(merge);
    }
    Ok(merges)
}

/// A merge of the list, which perhaps makes `guess`.
fn resolve_one(index: usize, merge: &str, vocab: &Vocab, guess: u32) -> Result<Merge, TokenizerError> {
    let form = || TokenizerError::MergeForm { index, merge: merge.into() };
    let (left, right) = merge.split_once(' ').ok_or_else(form)?;
    if left.is_empty() || right.is_empty() {
        return Err(form());
    }
    let missing =
        |piece: &str| TokenizerError::MergeToken { index, merge: merge.into(), piece: piece.into() };
    let id = |piece: &str| vocab.id(piece).ok_or_else(|| missing(piece));
    let pair = (id(left)?, id(right)?);
    let both = vocab.id_of_both(left, right, guess).ok_or_else(|| missing(&[left, right].concat()))?;
    Ok((pair, both))
}
