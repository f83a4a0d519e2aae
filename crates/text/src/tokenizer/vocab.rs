//! The vocabulary: for every token its spelling in the file, the bytes it stands for and its kind.
//!
//! Spellings and bytes lie end to end in two buffers, so a vocabulary of 150,000 tokens is two allocations rather than
//! 300,000. The same text may belong to several ids (files like that exist): then the lowest id is the one it encodes to.

use minfer_gguf::{Metadata, MetadataError, Strings};

use super::both::both;
use super::index::Index;
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
    texts: Strings,
    bytes: Slices,
    kinds: Vec<TokenKind>,
    index: Index,
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
        let (index, bytes) = both(&|| Index::new(tokens), || bytes(tokens, &kinds, spelling));
        Ok(Vocab { texts: tokens.clone(), bytes: bytes?, kinds, index })
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
        self.texts.get(id as usize)
    }

    pub(super) fn bytes(&self, id: u32) -> Option<&[u8]> {
        self.bytes.get(id)
    }

    pub(super) fn id(&self, text: &str) -> Option<u32> {
        self.index.find(text, &self.texts)
    }

    /// The id of the token that is spelled as `left` and then `right`; `guess` is looked at first.
    pub(super) fn id_of_both(&self, left: &str, right: &str, guess: u32) -> Option<u32> {
        let guessed = self.text(guess).and_then(|text| text.strip_prefix(left));
        if guessed == Some(right) && self.index.is_first(guess) {
            return Some(guess);
        }
        self.id(&[left, right].concat())
    }

    /// The bytes of `id`, or the error that says it is beyond the vocabulary.
    pub(super) fn bytes_or_err(&self, id: u32) -> Result<&[u8], TokenizerError> {
        self.bytes(id).ok_or(TokenizerError::UnknownId { id, n_vocab: self.len() })
    }
}

/// The bytes that each token stands for.
fn bytes(tokens: &Strings, kinds: &[TokenKind], spelling: Spelling) -> Result<Slices, TokenizerError> {
    // Letters take as many bytes as they stand for, or more.
    let mut bytes = Slices::with_capacity(tokens.len(), tokens.n_bytes());
    for (index, (text, kind)) in tokens.iter().zip(kinds).enumerate() {
        match (spelling, kind) {
            (Spelling::SentencePiece, TokenKind::Byte) => {
                let byte = byte_in(text);
                bytes.push(&[byte.ok_or_else(|| TokenizerError::ByteToken { index, text: text.into() })?]);
            }
            (Spelling::SentencePiece, TokenKind::Normal | TokenKind::UserDefined) => {
                bytes.push(text.replace('▁', " ").as_bytes());
            }
            (Spelling::ByteLetters, TokenKind::Normal | TokenKind::Byte) => bytes.push_spelled(text),
            _ => bytes.push(text.as_bytes()),
        }
    }
    Ok(bytes)
}

fn kinds(meta: &Metadata, tokens: &Strings, spelling: Spelling) -> Result<Vec<TokenKind>, TokenizerError> {
    const KEY: &str = "tokenizer.ggml.token_type";
    let Some(types) = meta.opt_i32s(KEY)? else { return Ok(guessed_kinds(tokens, spelling)) };
    if types.len() != tokens.len() {
        return Err(TokenizerError::Length { key: KEY, found: types.len(), n_vocab: tokens.len() });
    }
    let kind = |(index, &value)| TokenKind::from_id(value).ok_or(TokenizerError::TokenType { index, value });
    types.iter().enumerate().map(kind).collect()
}

/// Without types every token is ordinary text, except what a SentencePiece vocabulary must have: byte tokens.
fn guessed_kinds(tokens: &Strings, spelling: Spelling) -> Vec<TokenKind> {
    let is_byte = |text: &str| spelling == Spelling::SentencePiece && byte_in(text).is_some();
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
    fn with_capacity(n: usize, n_bytes: usize) -> Self {
        Slices { data: Vec::with_capacity(n_bytes), ends: Vec::with_capacity(n) }
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
