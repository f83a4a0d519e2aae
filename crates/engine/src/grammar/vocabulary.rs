//! The model's tokens, as the parser wants them: bytes in a trie.
//!
//! Tokens that are no text (control tokens, gaps in the numbering) never match a grammar's text. Where a grammar leaves no
//! choice, the text is tokenized as the model's own tokenizer does it, so that the model sees what it was trained with;
//! vocabularies that put a space before every text cannot tokenize from the middle, and choose their tokens themselves.

use std::sync::Arc;

use llguidance::toktrie::{TokRxInfo, TokTrie, TokenId, TokenizerEnv};
use minfer_text::tokenizer::{EncodeOptions, TokenKind, Tokenizer};

/// Longer tokens than any text needs (runs of a thousand spaces) are left out.
const MAX_TOKEN_BYTES: usize = 512;

/// Ids have 24 bits in the trie.
pub(super) const MAX_TOKENS: usize = 1 << 23;

pub(super) struct Vocabulary {
    trie: TokTrie,
    tokenizer: Arc<Tokenizer>,
    is_canonical: bool,
}

impl Vocabulary {
    /// `None` if the model has no token that ends an answer, or more tokens than fit.
    pub(super) fn new(tokenizer: Arc<Tokenizer>) -> Option<Vocabulary> {
        let n_vocab = Some(tokenizer.n_vocab()).filter(|n| *n <= MAX_TOKENS)?;
        let ends = tokenizer.eog_ids();
        let info = TokRxInfo::new(n_vocab as u32, *ends.first()?);
        let words: Vec<Vec<u8>> = (0..n_vocab as u32).map(|id| word(&tokenizer, id)).collect();
        let trie = TokTrie::from(&info, &words).with_eos_tokens(ends);
        let is_canonical = continues(&tokenizer, "\": [");
        Some(Vocabulary { trie, tokenizer, is_canonical })
    }
}

/// What a token stands for; nothing for one that is no text.
fn word(tokenizer: &Tokenizer, id: u32) -> Vec<u8> {
    let bytes = tokenizer.token_bytes(id).unwrap_or_default();
    match tokenizer.kind(id) {
        Some(TokenKind::Control) => [&[TokTrie::SPECIAL_TOKEN_MARKER], bytes].concat(),
        Some(TokenKind::Normal | TokenKind::UserDefined | TokenKind::Byte)
            // No UTF-8 text has this byte.
            if bytes.len() <= MAX_TOKEN_BYTES && bytes.first() != Some(&TokTrie::SPECIAL_TOKEN_MARKER) =>
        {
            bytes.to_vec()
        }
        _ => Vec::new(),
    }
}

/// Whether a text is tokenized to just its own bytes.
fn continues(tokenizer: &Tokenizer, text: &str) -> bool {
    encode(tokenizer, text).is_some()
}

/// The tokens of a text, if they spell it.
fn encode(tokenizer: &Tokenizer, text: &str) -> Option<Vec<u32>> {
    let ids = tokenizer.encode(text, EncodeOptions::default()).ok()?.ids;
    let bytes = ids.iter().flat_map(|id| word(tokenizer, *id));
    bytes.eq(text.bytes()).then_some(ids)
}

impl TokenizerEnv for Vocabulary {
    fn tok_trie(&self) -> &TokTrie {
        &self.trie
    }

    fn tokenize_bytes(&self, bytes: &[u8]) -> Vec<TokenId> {
        let text = std::str::from_utf8(bytes).ok();
        let ids = text.and_then(|text| encode(&self.tokenizer, text));
        ids.unwrap_or_else(|| self.trie.greedy_tokenize(bytes))
    }

    fn tokenize_is_canonical(&self) -> bool {
        self.is_canonical
    }
}
