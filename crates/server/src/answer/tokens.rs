//! Which tokens a piece of text is made of, for log-probabilities.
//!
//! A token is reported with the text that it begins in. Those that begin at or behind the end of the answer, in a stop
//! string or as the token that ends it, are no part of it.

use std::collections::VecDeque;

use minfer_engine::{FinishReason, GenerateParams, Generated, Model, StepLogprobs};
use minfer_text::tokenizer::StreamDecoder;

use super::event::TokenReport;

/// The tokens of an answer that is complete; `shown` are the control tokens that its text has.
pub(super) fn of(model: &Model, generated: &Generated, shown: &[u32]) -> Vec<TokenReport> {
    let mut tokens = Tokens::new(&GenerateParams { shown: shown.to_vec(), ..GenerateParams::default() });
    for (id, logprobs) in generated.tokens.iter().zip(&generated.logprobs) {
        tokens.push(model, *id, logprobs.clone());
    }
    let mut all = tokens.shown(generated.text.len());
    if generated.reason != FinishReason::StopString {
        all.extend(tokens.rest(generated.reason == FinishReason::EndOfGeneration));
    }
    all
}

/// Follows the tokens of one answer.
pub(super) struct Tokens {
    decoder: StreamDecoder,
    piece: String,
    n_bytes: usize,
    n_chars: usize,
    /// Reports with the byte that their token begins at.
    waiting: VecDeque<(usize, TokenReport)>,
    n_shown: usize,
}

impl Tokens {
    pub(super) fn new(params: &GenerateParams) -> Self {
        Self {
            decoder: StreamDecoder::continuing(params.special).showing(&params.shown),
            piece: String::new(),
            n_bytes: 0,
            n_chars: 0,
            waiting: VecDeque::new(),
            n_shown: 0,
        }
    }

    /// Notes a token.
    pub(super) fn push(&mut self, model: &Model, id: u32, logprobs: StepLogprobs) {
        self.waiting
            .push_back((self.n_bytes, TokenReport { id, offset: self.n_chars, is_thought: false, logprobs }));
        self.piece.clear();
        // The engine has shown this token already, so it is one of the vocabulary.
        if self.decoder.push(model.tokenizer(), id, &mut self.piece).is_ok() {
            self.n_bytes += self.piece.len();
            self.n_chars += self.piece.chars().count();
        }
    }

    /// The tokens that begin in the next `n_bytes` bytes of text.
    pub(super) fn shown(&mut self, n_bytes: usize) -> Vec<TokenReport> {
        self.n_shown += n_bytes;
        let n = self.waiting.partition_point(|(start, _)| *start < self.n_shown);
        self.waiting.drain(..n).map(|(_, report)| report).collect()
    }

    /// What is left at the end of an answer that no stop string has cut, less the token that ended it.
    pub(super) fn rest(&mut self, ended_by_token: bool) -> Vec<TokenReport> {
        if ended_by_token {
            self.waiting.pop_back();
        }
        self.waiting.drain(..).map(|(_, report)| report).collect()
    }
}
