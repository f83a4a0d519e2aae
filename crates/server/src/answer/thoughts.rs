//! How many tokens of an answer are thoughts.
//!
//! A token is one if the reader was among thoughts before its text or is after it, so that the tags count, too. Text that is
//! held back, as it may be the beginning of a stop string, decides for all the tokens that it is made of.

use minfer_engine::{Generated, Model};
use minfer_text::tokenizer::StreamDecoder;

use super::Delta;
use crate::reader::Reader;

/// Counts the tokens of one answer while its text is read.
#[derive(Clone, Copy, Debug, Default)]
pub(super) struct Thoughts {
    /// Tokens whose text has not come yet.
    n_pending: usize,
    n_tokens: usize,
}

/// What came of a piece of text.
pub(super) struct Read {
    pub(super) deltas: Vec<Delta>,
    pub(super) is_thought: bool,
}

impl Thoughts {
    /// A token was generated.
    pub(super) fn token(&mut self) {
        self.n_pending += 1;
    }

    /// Reads the text of the tokens so far.
    pub(super) fn read(&mut self, reader: &mut Reader, text: &str) -> Read {
        let was_thinking = reader.is_thinking();
        let deltas = reader.push(text);
        let is_thought = was_thinking || reader.is_thinking();
        self.settle(is_thought);
        Read { deltas, is_thought }
    }

    /// Reads what was held back; gives how many tokens were thoughts.
    pub(super) fn finish(&mut self, reader: &mut Reader) -> (Read, usize) {
        let is_thought = reader.is_thinking();
        let deltas = reader.finish();
        self.settle(is_thought);
        (Read { deltas, is_thought }, self.n_tokens)
    }

    fn settle(&mut self, is_thought: bool) {
        let n_pending = std::mem::take(&mut self.n_pending);
        self.n_tokens += if is_thought { n_pending } else { 0 };
    }
}

/// The deltas of an answer that is complete, and how many of its tokens were thoughts.
pub(super) fn of(model: &Model, generated: &Generated, reader: &mut Reader) -> (Vec<Delta>, usize) {
    let mut decoder = StreamDecoder::continuing(false).showing(reader.shown());
    let (mut thoughts, mut deltas, mut rest) = (Thoughts::default(), Vec::new(), generated.text.as_str());
    let mut piece = String::new();
    for id in &generated.tokens {
        thoughts.token();
        piece.clear();
        // The engine has shown this token already, so it is one of the vocabulary.
        let _ = decoder.push(model.tokenizer(), *id, &mut piece);
        // A stop string has cut the text, or what is left of a token is not shown.
        let n_bytes = if rest.starts_with(&piece) { piece.len() } else { 0 };
        if n_bytes > 0 {
            let (text, later) = rest.split_at(n_bytes);
            rest = later;
            deltas.extend(thoughts.read(reader, text).deltas);
        }
    }
    deltas.extend(thoughts.read(reader, rest).deltas);
    let (last, n_tokens) = thoughts.finish(reader);
    deltas.extend(last.deltas);
    (deltas, n_tokens)
}
