//! Tokenizers from GGUF metadata: text to token ids and back.
//!
//! Encoding runs in four steps, each in its own file:
//! 1. special and user-defined tokens are found in the text (`added`);
//! 2. what lies between is normalized and split as the row of `tokenizer.ggml.pre` in the table says (`pre`, `split`);
//! 3. every piece is a chain of symbols, joined pair by pair (`merge`), by the merge list (`byte_bpe`) or by the
//!    scores of the tokens (`sentencepiece`; there step 2 only writes spaces as `▁`);
//! 4. begin and end tokens go around the whole.
//!
//! The reference is Hugging Face `tokenizers` with the models' published files. What a GGUF file cannot say (the pattern,
//! normal form C) is in the table. Model files are hostile input: every array is checked against the vocabulary, and
//! encoding takes time `O(n log n)` for any text of `n` bytes.
//!
//! Trap: bytes that the vocabulary has no token for vanish from the ids, as they do in the reference. [`Encoding::dropped`]
//! says which they were.

mod added;
mod both;
mod byte_bpe;
mod byte_letters;
mod error;
mod index;
mod merge;
mod pre;
mod sentencepiece;
mod special;
mod split;
mod stream;
mod vocab;

use std::borrow::Cow;

use minfer_gguf::Metadata;
use unicode_normalization::UnicodeNormalization;

use added::{AddedTokens, Part};
use both::both;
use byte_bpe::ByteBpe;
pub use error::TokenizerError;
use merge::Chain;
use sentencepiece::SentencePiece;
pub use special::SpecialIds;
use split::Splitter;
pub use stream::StreamDecoder;
pub use vocab::TokenKind;
use vocab::{Spelling, Vocab};

/// A model's tokenizer.
///
/// ```
/// use minfer_gguf::{Array, Metadata, Value};
/// use minfer_text::tokenizer::{EncodeOptions, Tokenizer};
///
/// let strings = |all: &[&str]| Value::Array(Array::String(all.iter().collect()));
/// let mut meta = Metadata::new();
/// meta.set("tokenizer.ggml.model", Value::String("gpt2".into()));
/// meta.set("tokenizer.ggml.pre", Value::String("gpt-2".into()));
/// meta.set("tokenizer.ggml.tokens", strings(&["a", "b", "Ġ", "ab", "Ġab"]));
/// meta.set("tokenizer.ggml.merges", strings(&["a b", "Ġ ab"]));
///
/// let tokenizer = Tokenizer::from_metadata(&meta)?;
/// let encoding = tokenizer.encode("ab ab!", EncodeOptions::default())?;
/// assert_eq!(encoding.ids, [3, 4]);
/// assert_eq!((encoding.dropped[0].offset, encoding.dropped[0].byte), (5, b'!'));
/// assert_eq!(tokenizer.decode(&encoding.ids, true)?, "ab ab");
/// # Ok::<(), minfer_text::tokenizer::TokenizerError>(())
/// ```
#[derive(Debug)]
pub struct Tokenizer {
    vocab: Vocab,
    added: AddedTokens,
    algorithm: Algorithm,
    special: SpecialIds,
    end_ids: Vec<u32>,
    /// What goes before and after a whole text.
    add_bos: Option<u32>,
    add_eos: Option<u32>,
}

#[derive(Debug)]
enum Algorithm {
    ByteLevel { nfc: bool, splitter: Splitter, bpe: ByteBpe },
    SentencePiece(SentencePiece),
}

/// How a text is to be read.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct EncodeOptions {
    /// Put the model's begin and end tokens around the text, where its file says so.
    pub add_special: bool,
    /// Read the spelling of a control token as that token. Leave it off for text from strangers. User-defined tokens
    /// (`<think>`) are recognised either way.
    pub parse_special: bool,
}

/// The tokens of a text.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Encoding {
    /// Token ids, in order.
    pub ids: Vec<u32>,
    /// The bytes that no token stands for: they are missing from `ids`.
    pub dropped: Vec<Dropped>,
}

/// A byte of a text that the vocabulary cannot express.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Dropped {
    /// Where in the text, in bytes; where normalization changed the text before it, where it would be in the normalized.
    pub offset: usize,
    /// The byte.
    pub byte: u8,
}

/// The longest text that is encoded in one go: places are numbered with 32 bits, and a space may take three bytes.
const MAX_TEXT_BYTES: usize = 1 << 30;

impl Tokenizer {
    /// Builds the tokenizer that `tokenizer.ggml.*` describes. Errors name the key and, for arrays, the index.
    pub fn from_metadata(meta: &Metadata) -> Result<Self, TokenizerError> {
        match meta.str("tokenizer.ggml.model")? {
            "gpt2" => Self::byte_level(meta),
            "llama" => Self::sentence_piece(meta),
            model => Err(TokenizerError::UnknownModel { model: model.into() }),
        }
    }

    fn byte_level(meta: &Metadata) -> Result<Self, TokenizerError> {
        let name = meta.opt_str("tokenizer.ggml.pre")?;
        let unknown = || TokenizerError::UnknownPre { pre: name.map(Into::into), known: pre::names() };
        let pre = name.and_then(pre::by_name).ok_or_else(unknown)?;
        let pattern = |source| TokenizerError::Pattern { pre: pre.names[0].into(), source };
        let (vocab, splitter) =
            both(&|| Vocab::from_metadata(meta, Spelling::ByteLetters), || Splitter::new(pre));
        let (splitter, vocab) = (splitter.map_err(pattern)?, vocab?);
        let special = SpecialIds::from_metadata(meta, &vocab)?;
        let bpe = ByteBpe::from_metadata(meta, &vocab, pre.ignore_merges)?;
        let algorithm = Algorithm::ByteLevel { nfc: pre.nfc, splitter, bpe };
        Self::assemble(meta, vocab, special, algorithm, pre.add_bos)
    }

    fn sentence_piece(meta: &Metadata) -> Result<Self, TokenizerError> {
        let vocab = Vocab::from_metadata(meta, Spelling::SentencePiece)?;
        let mut special = SpecialIds::from_metadata(meta, &vocab)?;
        let first_unknown =
            || vocab.kinds().iter().position(|kind| *kind == TokenKind::Unknown).map(|id| id as u32);
        special.unknown = special.unknown.or_else(first_unknown);
        let algorithm =
            Algorithm::SentencePiece(SentencePiece::from_metadata(meta, &vocab, special.unknown)?);
        Self::assemble(meta, vocab, special, algorithm, true)
    }

    fn assemble(
        meta: &Metadata,
        vocab: Vocab,
        special: SpecialIds,
        algorithm: Algorithm,
        bos_by_default: bool,
    ) -> Result<Self, TokenizerError> {
        let wanted = |flag: &'static str, default: bool, id: Option<u32>, key: &'static str| match (
            meta.opt_bool(flag)?,
            id,
        ) {
            (Some(true), None) => Err(TokenizerError::NoSuchSpecial { flag, key }),
            (said, id) => Ok(id.filter(|_| said.unwrap_or(default))),
        };
        Ok(Tokenizer {
            add_bos: wanted("tokenizer.ggml.add_bos_token", bos_by_default, special.bos, special::BOS)?,
            add_eos: wanted("tokenizer.ggml.add_eos_token", false, special.eos, special::EOS)?,
            added: AddedTokens::new(&vocab),
            end_ids: special::end_ids(&vocab, &special),
            vocab,
            algorithm,
            special,
        })
    }

    /// The tokens of `text`. Errors only if the text is longer than 1 GiB.
    pub fn encode(&self, text: &str, options: EncodeOptions) -> Result<Encoding, TokenizerError> {
        if text.len() > MAX_TEXT_BYTES {
            return Err(TokenizerError::TextTooLong { bytes: text.len() });
        }
        let mut out = Encoding::default();
        let mut scratch = Scratch::default();
        out.ids.extend(self.add_bos.filter(|_| options.add_special));
        self.added.split(text, options.parse_special, |part| match part {
            Part::Token(id) => out.ids.push(id),
            Part::Text(start, text) => self.encode_plain(start, text, &mut scratch, &mut out),
        });
        out.ids.extend(self.add_eos.filter(|_| options.add_special));
        Ok(out)
    }

    /// Appends the tokens of a stretch of ordinary text that starts at byte `start` of the whole.
    fn encode_plain(&self, start: usize, text: &str, scratch: &mut Scratch, out: &mut Encoding) {
        let Encoding { ids, dropped } = out;
        let Scratch { chain, pieces } = scratch;
        match &self.algorithm {
            Algorithm::SentencePiece(spm) => {
                spm.encode(text, &self.vocab, chain, ids, |at, byte| {
                    dropped.push(Dropped { offset: start + at, byte })
                });
            }
            Algorithm::ByteLevel { nfc, splitter, bpe } => {
                let text = if *nfc { normalized(text) } else { Cow::Borrowed(text) };
                splitter.split(&text, pieces);
                for piece in pieces.iter() {
                    let offset = start + piece.start;
                    let bytes = &text.as_bytes()[piece.clone()];
                    bpe.encode(bytes, &self.vocab, chain, ids, |at, byte| {
                        dropped.push(Dropped { offset: offset + at, byte });
                    });
                }
            }
        }
    }

    /// The text of `ids`; `special` keeps control tokens in it. What isn't UTF-8 becomes U+FFFD. A vocabulary that puts
    /// a space before every text has it taken off again. Errors if an id is beyond the vocabulary.
    pub fn decode(&self, ids: &[u32], special: bool) -> Result<String, TokenizerError> {
        let mut bytes = Vec::with_capacity(ids.len() * 4);
        for &id in ids {
            bytes.extend_from_slice(self.visible_bytes(id, special)?);
        }
        let skipped = usize::from(self.strips_first_space() && bytes.first() == Some(&b' '));
        Ok(String::from_utf8_lossy(&bytes[skipped..]).into_owned())
    }

    /// What `id` adds to decoded text.
    fn visible_bytes(&self, id: u32, special: bool) -> Result<&[u8], TokenizerError> {
        let bytes = self.vocab.bytes_or_err(id)?;
        let is_shown = special || !self.vocab.kind(id).is_some_and(TokenKind::is_hidden);
        Ok(if is_shown { bytes } else { &[] })
    }

    fn strips_first_space(&self) -> bool {
        matches!(&self.algorithm, Algorithm::SentencePiece(spm) if spm.add_space_prefix)
    }

    /// The number of tokens.
    pub fn n_vocab(&self) -> usize {
        self.vocab.len()
    }

    /// The bytes that token `id` stands for: of a control token its spelling; not always UTF-8.
    pub fn token_bytes(&self, id: u32) -> Option<&[u8]> {
        self.vocab.bytes(id)
    }

    /// The spelling of token `id` in the file (`Ġthe`, `▁the`, `<0x0A>`).
    pub fn token_text(&self, id: u32) -> Option<&str> {
        self.vocab.text(id)
    }

    /// The id of the token that the file spells `text`; the lowest, if there are several.
    pub fn token_id(&self, text: &str) -> Option<u32> {
        self.vocab.id(text)
    }

    /// What token `id` is.
    pub fn kind(&self, id: u32) -> Option<TokenKind> {
        self.vocab.kind(id)
    }

    /// The tokens with a role.
    pub fn special_ids(&self) -> SpecialIds {
        self.special
    }

    /// Whether token `id` ends generation: eos, end of turn, end of message, and control tokens known to mean the same.
    pub fn is_eog(&self, id: u32) -> bool {
        self.end_ids.binary_search(&id).is_ok()
    }

    /// All ids that end generation, sorted.
    pub fn eog_ids(&self) -> &[u32] {
        &self.end_ids
    }

    /// Whether [`EncodeOptions::add_special`] puts the begin token in front.
    pub fn add_bos(&self) -> bool {
        self.add_bos.is_some()
    }

    /// Whether [`EncodeOptions::add_special`] puts the end token after the text.
    pub fn add_eos(&self) -> bool {
        self.add_eos.is_some()
    }
}

/// Buffers that are reused from piece to piece.
#[derive(Debug, Default)]
struct Scratch {
    chain: Chain,
    pieces: Vec<std::ops::Range<usize>>,
}

/// `text` in Unicode normal form C.
fn normalized(text: &str) -> Cow<'_, str> {
    if unicode_normalization::is_nfc(text) { Cow::Borrowed(text) } else { Cow::Owned(text.nfc().collect()) }
}
