//! The vocabulary: for every token its spelling in the file, the bytes it stands for and its kind.
//!
//! Spellings and bytes lie end to end in two buffers, so a vocabulary of 150,000 tokens is two allocations rather than
//! 300,000. The same text may belong to several ids (files like that exist): then the lowest id is the one it encodes to.

use std::hash::BuildHasher;

use hashbrown::{DefaultHashBuilder, HashTable};
use minfer_gguf::{Metadata, MetadataError};

use super::{TokenizerError, byte_letters};

/// What a token is, as `tokenizer.ggml.token_type` says.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum TokenKind {
    /// A piece of ordinary text.
    Normal,
    /// Stands for text that the vocabulary cannot express.
    Unknown,
    /// Steers the model (`<|im_start|>`); never the reading of ordinary text.
    Control,
    /// Added whole (`<think>`): recognised in any text before it is split.
    UserDefined,
    /// A gap in the numbering, such as `[PAD151935]`.
    Unused,
    /// One byte, spelled `<0xNN>` (SentencePiece vocabularies).
    Byte,
}

impl TokenKind {
    fn from_id(id: i32) -> Option<Self> {
        Some(match id {
            0 | 1 => TokenKind::Normal,
            2 => TokenKind::Unknown,
            3 => TokenKind::Control,
            4 => TokenKind::UserDefined,
            5 => TokenKind::Unused,
            6 => TokenKind::Byte,
            _ => return None,
        })
    }

    /// Whether the token is left out of decoded text unless special tokens are asked for.
    pub fn is_hidden(self) -> bool {
        matches!(self, TokenKind::Control | TokenKind::Unknown)
    }
}

/// How a vocabulary spells bytes.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Spelling {
    /// One [letter](byte_letters) for each byte.
    ByteLetters,
    /// Plain text with `▁` for a space, and `<0xNN>` for single bytes.
    SentencePiece,
}

/// Texts, bytes and kinds of all tokens, and the way back from a text to its id.
#[derive(Debug)]
pub(super) struct Vocab {
    texts: Slices,
    bytes: Slices,
    kinds: Vec<TokenKind>,
    /// The ids, found by the hash of their text.
    index: HashTable<u32>,
    hasher: DefaultHashBuilder,
}

impl Vocab {
    /// Reads `tokenizer.ggml.tokens` and `tokenizer.ggml.token_type`.
    pub(super) fn from_metadata(meta: &Metadata, spelling: Spelling) -> Result<Self, TokenizerError> {
        const TOKENS: &str = "tokenizer.ggml.tokens";
        let tokens =
            meta.opt_strings(TOKENS)?.ok_or_else(|| MetadataError::Missing { key: TOKENS.into() })?;
        if tokens.is_empty() {
            return Err(TokenizerError::EmptyVocabulary);
        }
        let kinds = kinds(meta, tokens, spelling)?;
        let mut vocab = Vocab {
            texts: Slices::with_capacity(tokens.len()),
            bytes: Slices::with_capacity(tokens.len()),
            index: HashTable::with_capacity(tokens.len()),
            hasher: DefaultHashBuilder::default(),
            kinds,
        };
        for (id, text) in tokens.iter().enumerate() {
            vocab.add(id, text, spelling)?;
        }
        Ok(vocab)
    }

    fn add(&mut self, id: usize, text: &str, spelling: Spelling) -> Result<(), TokenizerError> {
        self.texts.push(text.as_bytes());
        let kind = self.kinds[id];
        match (spelling, kind) {
            (Spelling::SentencePiece, TokenKind::Byte) => {
                let byte = byte_in(text)
                    .ok_or_else(|| TokenizerError::ByteToken { index: id, text: text.into() })?;
                self.bytes.push(&[byte]);
            }
            (Spelling::SentencePiece, TokenKind::Normal | TokenKind::UserDefined) => {
                self.bytes.push(text.replace('▁', " ").as_bytes());
            }
            (Spelling::ByteLetters, TokenKind::Normal | TokenKind::Byte) => self.bytes.push_spelled(text),
            _ => self.bytes.push(text.as_bytes()),
        }
        if self.id(text).is_none() {
            let Vocab { texts, index, hasher, .. } = self;
            let hash_of = |&id: &u32| hasher.hash_one(texts.get(id).unwrap_or_default());
            index.insert_unique(hasher.hash_one(text.as_bytes()), id as u32, hash_of);
        }
        Ok(())
    }

    pub(super) fn len(&self) -> usize {
        self.kinds.len()
    }

    pub(super) fn kinds(&self) -> &[TokenKind] {
        &self.kinds
    }

    pub(super) fn kind(&self, id: u32) -> Option<TokenKind> {
        self.kinds.get(id as usize).copied()
    }

    pub(super) fn text(&self, id: u32) -> Option<&str> {
        self.texts.get(id).map(|text| std::str::from_utf8(text).expect("every text was pushed as a str"))
    }

    pub(super) fn bytes(&self, id: u32) -> Option<&[u8]> {
        self.bytes.get(id)
    }

    pub(super) fn id(&self, text: &str) -> Option<u32> {
        let text = text.as_bytes();
        self.index.find(self.hasher.hash_one(text), |&id| self.texts.get(id) == Some(text)).copied()
    }

    /// The bytes of `id`, or the error that says it is beyond the vocabulary.
    pub(super) fn bytes_or_err(&self, id: u32) -> Result<&[u8], TokenizerError> {
        self.bytes(id).ok_or(TokenizerError::UnknownId { id, n_vocab: self.len() })
    }
}

fn kinds(meta: &Metadata, tokens: &[String], spelling: Spelling) -> Result<Vec<TokenKind>, TokenizerError> {
    const KEY: &str = "tokenizer.ggml.token_type";
    let Some(types) = meta.opt_i32s(KEY)? else { return Ok(guessed_kinds(tokens, spelling)) };
    if types.len() != tokens.len() {
        return Err(TokenizerError::Length { key: KEY, found: types.len(), n_vocab: tokens.len() });
    }
    let kind = |(index, &value)| TokenKind::from_id(value).ok_or(TokenizerError::TokenType { index, value });
    types.iter().enumerate().map(kind).collect()
}

/// Without types every token is ordinary text, except what a SentencePiece vocabulary must have: byte tokens.
fn guessed_kinds(tokens: &[String], spelling: Spelling) -> Vec<TokenKind> {
    let is_byte = |text: &String| spelling == Spelling::SentencePiece && byte_in(text).is_some();
    tokens.iter().map(|text| if is_byte(text) { TokenKind::Byte } else { TokenKind::Normal }).collect()
}

/// The byte that `<0xNN>` spells.
fn byte_in(text: &str) -> Option<u8> {
    let digits = text.strip_prefix("<0x")?.strip_suffix('>')?;
    let is_hex = digits.len() == 2 && digits.bytes().all(|b| b.is_ascii_hexdigit());
    if is_hex { u8::from_str_radix(digits, 16).ok() } else { None }
}

/// Byte strings laid end to end.
#[derive(Debug)]
struct Slices {
    data: Vec<u8>,
    ends: Vec<usize>,
}

impl Slices {
    fn with_capacity(n: usize) -> Self {
        Slices { data: Vec::with_capacity(n * 8), ends: Vec::with_capacity(n) }
    }

    fn push(&mut self, slice: &[u8]) {
        self.data.extend_from_slice(slice);
        self.ends.push(self.data.len());
    }

    /// Pushes what `text` spells in byte letters; text that isn't spelled so stands for itself.
    fn push_spelled(&mut self, text: &str) {
        if !byte_letters::spelled_bytes(text, &mut self.data) {
            self.data.extend_from_slice(text.as_bytes());
        }
        self.ends.push(self.data.len());
    }

    fn get(&self, id: u32) -> Option<&[u8]> {
        let id = id as usize;
        let end = *self.ends.get(id)?;
        let start = if id == 0 { 0 } else { self.ends[id - 1] };
        Some(&self.data[start..end])
    }
}
