//! A grammar's parser, following one answer.

use std::fmt::Display;
use std::panic::AssertUnwindSafe;
use std::sync::Arc;

use llguidance::toktrie::{SimpleVob, TokenizerEnv};
use llguidance::{TokenParser, panic_utils};

use super::closing::{self, Closing};
use super::digits::{DigitTokens, JsonPlace};
use super::vocabulary::Vocabulary;
use crate::constraint::{ConstraintError, TokenConstraint};
use crate::sampler::TokenMask;

/// So many tokens are refused for want of room, then the answer is closed.
const MAX_REFUSALS: usize = 8;

pub(super) struct GrammarConstraint {
    parser: TokenParser,
    vocabulary: Arc<Vocabulary>,
    /// For JSON: tokens that begin with digits.
    digits: Option<Arc<DigitTokens>>,
    place: JsonPlace,
    mask: Option<SimpleVob>,
    n_left: usize,
    n_refused: usize,
    closing: Closing,
    is_complete: bool,
    is_shortened: bool,
}

impl GrammarConstraint {
    pub(super) fn new(
        parser: TokenParser,
        vocabulary: Arc<Vocabulary>,
        digits: Option<Arc<DigitTokens>>,
    ) -> Self {
        GrammarConstraint {
            parser,
            vocabulary,
            digits,
            place: JsonPlace::default(),
            mask: None,
            n_left: usize::MAX,
            n_refused: 0,
            closing: Closing::default(),
            is_complete: false,
            is_shortened: false,
        }
    }

    /// What the grammar allows, less what would make a number endless.
    fn compute_mask(&mut self) -> Result<SimpleVob, ConstraintError> {
        let mut mask = guarded(|| self.parser.compute_mask())?;
        if let Some(digits) = &self.digits {
            let mut shorter = mask.clone();
            digits.beyond(self.place.n_digits_left()).for_each(|id| shorter.disallow_token(id));
            if !shorter.is_zero() {
                mask = shorter;
            }
        }
        Ok(mask)
    }

    /// The tokens that close the answer from here.
    fn plan(&self) -> Option<Vec<u32>> {
        let (parser, place) = (self.parser.clone(), self.place);
        let text = guarded(|| Ok::<_, ConstraintError>(closing::close(parser, place))).ok().flatten()?;
        let trie = self.vocabulary.tok_trie();
        // Bytes without a token are left out.
        Some(trie.greedy_tokenize(&text)).filter(|tokens| trie.decode_raw(tokens) == text)
    }

    fn advance(&mut self, token: u32) -> Result<(), ConstraintError> {
        let parser = &mut self.parser;
        guarded(|| {
            parser.consume_token(token)?;
            parser.check_stop()
        })?;
        let bytes = self.vocabulary.tok_trie().token(token);
        bytes.iter().for_each(|byte| self.place.push(*byte));
        Ok(())
    }

    /// Goes back to where the token was drawn, and forbids it.
    fn refuse(&mut self, token: u32, before: (TokenParser, JsonPlace), mut mask: SimpleVob) {
        (self.parser, self.place) = before;
        mask.disallow_token(token);
        self.n_refused += 1;
        self.is_shortened = true;
        if self.closing.next().is_none() {
            self.closing.keep(self.plan(), self.n_left);
        }
        if mask.is_zero() || self.n_refused >= MAX_REFUSALS {
            // There is a plan, or else there is no end to lose and nothing is refused any more.
            let next = self.closing.next().unwrap_or(token);
            mask = self.vocabulary.tok_trie().singleton_token_set(next);
        }
        self.mask = Some(mask);
    }

    fn enter(&mut self, n_left: usize) -> Result<(), ConstraintError> {
        (self.n_left, self.n_refused) = (n_left, 0);
        let parser = &mut self.parser;
        // With nothing left to come, a text that may end here has ended.
        let is_cut_well =
            !parser.stopped() && n_left == 0 && guarded(|| Ok::<_, ConstraintError>(parser.is_accepting()))?;
        self.is_complete = parser.stopped() || is_cut_well;
        self.is_shortened |= is_cut_well;
        Ok(())
    }
}

impl TokenConstraint for GrammarConstraint {
    fn mask(&mut self, n_left: usize) -> Result<Option<TokenMask<'_>>, ConstraintError> {
        if self.mask.is_none() {
            self.n_left = n_left;
            if self.closing.is_due(n_left) {
                self.closing.keep(self.plan(), n_left);
            }
            self.mask = Some(self.compute_mask()?);
        }
        Ok(self.mask.as_ref().map(|mask| TokenMask::new(mask.as_slice())))
    }

    fn accept(&mut self, token: u32) -> Result<bool, ConstraintError> {
        let n_left = self.n_left.saturating_sub(usize::from(self.n_left != usize::MAX));
        let is_due = self.closing.is_due(n_left);
        let before = is_due.then(|| (self.parser.clone(), self.place));
        self.advance(token)?;
        let mask = self.mask.take();
        if let Some(before) = before.filter(|_| !self.parser.stopped()) {
            let plan = self.plan().filter(|plan| plan.len() <= n_left);
            // The end that was known is as good as one that is found anew, and may be nearer.
            let plan = plan.or_else(|| self.closing.rest_after(token));
            if self.closing.has_end()
                && !Closing::fits(plan.as_ref(), n_left)
                && let Some(mask) = mask
            {
                self.refuse(token, before, mask);
                return Ok(false);
            }
            self.closing.keep(plan, n_left);
        } else {
            self.closing.leave();
        }
        self.enter(n_left)?;
        Ok(true)
    }

    fn is_complete(&self) -> bool {
        self.is_complete
    }

    fn is_shortened(&self) -> bool {
        self.is_shortened
    }
}

/// A panic of the parser, too, is an error of this one request.
fn guarded<T, E: Display>(f: impl FnOnce() -> Result<T, E>) -> Result<T, ConstraintError> {
    let outcome = panic_utils::catch_unwind(AssertUnwindSafe(|| Ok(f()))).map_err(failed)?;
    outcome.map_err(failed)
}

fn failed(error: impl Display) -> ConstraintError {
    let text = error.to_string();
    ConstraintError { reason: text.lines().next().unwrap_or("the grammar's parser failed").to_owned() }
}
