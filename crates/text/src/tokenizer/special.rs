//! The tokens with a role of their own: begin and end of text, of a turn, of a message.

use minfer_gguf::Metadata;

use super::TokenizerError;
use super::vocab::{TokenKind, Vocab};

/// Ids of the tokens with a role, where the model has them.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct SpecialIds {
    /// Begin of text.
    pub bos: Option<u32>,
    /// End of text.
    pub eos: Option<u32>,
    /// End of turn.
    pub eot: Option<u32>,
    /// End of message (the model waits for a tool).
    pub eom: Option<u32>,
    /// Stands for what the vocabulary cannot express.
    pub unknown: Option<u32>,
}

impl SpecialIds {
    /// Reads `tokenizer.ggml.*_token_id`.
    pub(super) fn from_metadata(meta: &Metadata, vocab: &Vocab) -> Result<Self, TokenizerError> {
        let id = |key: &'static str| match meta.opt_u32(key)? {
            Some(id) if id as usize >= vocab.len() => {
                Err(TokenizerError::SpecialId { key, id, n_vocab: vocab.len() })
            }
            id => Ok(id),
        };
        Ok(SpecialIds {
            bos: id(BOS)?,
            eos: id(EOS)?,
            eot: id("tokenizer.ggml.eot_token_id")?,
            eom: id("tokenizer.ggml.eom_token_id")?,
            unknown: id("tokenizer.ggml.unknown_token_id")?,
        })
    }
}

pub(super) const BOS: &str = "tokenizer.ggml.bos_token_id";
pub(super) const EOS: &str = "tokenizer.ggml.eos_token_id";

/// Special tokens that end what a model has to say, by their text: files often name only one of those a model uses.
const END_TEXTS: &[&str] = &[
    "<|endoftext|>",
    "<|im_end|>",
    "<|eot_id|>",
    "<|eom_id|>",
    "<|end_of_text|>",
    "<|end|>",
    "<|return|>",
    "<|call|>",
    "<end_of_turn>",
    "<end_of_utterance>",
    "<EOT>",
    "<|EOT|>",
    "<|END_OF_TURN_TOKEN|>",
    "<｜end▁of▁sentence｜>",
];

/// The ids that end generation, sorted.
pub(super) fn end_ids(vocab: &Vocab, special: &SpecialIds) -> Vec<u32> {
    let by_text = |text: &&str| {
        let is_whole =
            |&id: &u32| matches!(vocab.kind(id), Some(TokenKind::Control | TokenKind::UserDefined));
        vocab.id(text).filter(is_whole)
    };
    let texts = END_TEXTS.iter().filter(|text| !(**text == "<|end|>" && has_channels(vocab)));
    let mut ids: Vec<u32> =
        texts.filter_map(by_text).chain(special.eos).chain(special.eot).chain(special.eom).collect();
    ids.sort_unstable();
    ids.dedup();
    ids
}

/// In gpt-oss's format `<|end|>` closes one channel of an answer that goes on in the next; `<|return|>` closes it all.
fn has_channels(vocab: &Vocab) -> bool {
    vocab.id("<|return|>").is_some() && vocab.id("<|channel|>").is_some()
}
