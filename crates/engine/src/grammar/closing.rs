//! How an answer can be closed from where it stands, and when it must be.
//!
//! A constraint that knows how many tokens are left keeps a way to a valid end open: a token after which no end would be in
//! reach is refused. The way is found by trying bytes, those that close something first; it is not always the shortest,
//! and for a grammar whose ends cannot be found like this (or a limit below any end) the answer ends with the limit.

use llguidance::TokenParser;
use llguidance::toktrie::{Recognizer, TokTrie};

use super::digits::JsonPlace;

/// Longer ends are not looked for.
const MAX_BYTES: usize = 1024;

/// So many tokens more than the end needs, and every token is checked.
const MARGIN: usize = 32;

/// A byte that closes nothing gives way to others when it has been taken this often.
const PATIENCE: u16 = 8;

/// Bytes by preference: what closes, what separates, the shortest values.
const OUTSIDE: &[u8] = b"}])>,:;.01\"'ntf[{( \n";
const IN_STRING: &[u8] = b"\"0a.- ";
const CLOSERS: &[u8] = b"}])>\"";

/// The text that closes an answer; `None` if none is found. The parser is the caller's copy.
pub(super) fn close(mut parser: TokenParser, mut place: JsonPlace) -> Option<Vec<u8>> {
    let parser = &mut parser.parser;
    let mut counts = [0_u16; 256];
    let mut text = Vec::new();
    while text.len() < MAX_BYTES {
        let mut next = parser.currently_forced_bytes().to_vec();
        if next.is_empty() {
            if parser.is_accepting() {
                return Some(text);
            }
            next.push(next_byte(parser, place, &counts)?);
            counts[usize::from(next[0])] += 1;
        }
        if next.contains(&TokTrie::SPECIAL_TOKEN_MARKER) {
            return None;
        }
        parser.apply_token(&next, u32::MAX).ok().filter(|n| *n == 0)?;
        next.iter().for_each(|byte| place.push(*byte));
        text.extend(next);
    }
    None
}

fn next_byte(parser: &mut llguidance::earley::Parser, place: JsonPlace, counts: &[u16; 256]) -> Option<u8> {
    let preferred = if place.in_string { IN_STRING } else { OUTSIDE };
    let rank = |byte: u8| preferred.iter().position(|p| *p == byte).unwrap_or(preferred.len());
    let tired = |byte: u8| if CLOSERS.contains(&byte) { 0 } else { counts[usize::from(byte)] / PATIENCE };
    let mut order: Vec<u8> = (0..TokTrie::SPECIAL_TOKEN_MARKER).collect();
    order.sort_by_key(|byte| (tired(*byte), rank(*byte)));
    parser.with_recognizer(|recognizer| {
        recognizer.trie_started("closing");
        let found = order.into_iter().find(|byte| recognizer.byte_allowed(*byte));
        recognizer.trie_finished();
        found
    })
}

/// When to look for an end, and what was found.
#[derive(Clone, Debug, Default)]
pub(super) struct Closing {
    /// The tokens that close the answer from here, if that was looked for here.
    plan: Option<Vec<u32>>,
    /// With so many tokens left, it is looked for again.
    check_at: Option<usize>,
    /// Whether an end was in reach when it was last looked for.
    has_end: bool,
}

impl Closing {
    /// Whether an end is to be looked for when `n_left` tokens may follow.
    pub(super) fn is_due(&self, n_left: usize) -> bool {
        n_left != usize::MAX && self.check_at.is_none_or(|at| n_left <= at)
    }

    /// Whether there is an end to lose.
    pub(super) fn has_end(&self) -> bool {
        self.has_end
    }

    /// Whether `plan`, found with `n_left` tokens left, is in reach.
    pub(super) fn fits(plan: Option<&Vec<u32>>, n_left: usize) -> bool {
        plan.is_some_and(|plan| plan.len() <= n_left)
    }

    /// Keeps the plan of a state that was entered. Without one that fits there may be one later.
    ///
    /// Behind the end that was found something may begin whose own end is as far away as ends are looked for. Where that may
    /// be too far, the next look comes no later than that end.
    pub(super) fn keep(&mut self, plan: Option<Vec<u32>>, n_left: usize) {
        self.has_end = Self::fits(plan.as_ref(), n_left);
        self.plan = plan.filter(|_| self.has_end);
        let n_plan = self.plan.as_ref().map(Vec::len);
        let spare = n_left - n_plan.unwrap_or(0);
        let step = spare.saturating_sub(MARGIN).div_ceil(4);
        let n_most = match n_plan {
            Some(n_plan) if n_left <= MAX_BYTES => n_plan,
            Some(_) => n_left - MAX_BYTES,
            None => step,
        };
        self.check_at = Some(n_left.saturating_sub(step.min(n_most).max(1)));
    }

    /// Forgets the plan of a state that was left.
    pub(super) fn leave(&mut self) {
        self.plan = None;
    }

    /// What remains of the way to an end after `token`, if that is its next.
    pub(super) fn rest_after(&self, token: u32) -> Option<Vec<u32>> {
        let (first, rest) = self.plan.as_ref()?.split_first()?;
        (*first == token).then(|| rest.to_vec())
    }

    /// The next token of the way to an end.
    pub(super) fn next(&self) -> Option<u32> {
        self.plan.as_ref()?.first().copied()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn checks_come_closer_as_the_end_does() {
        let mut closing = Closing::default();
        assert!(closing.is_due(1000) && !closing.is_due(usize::MAX));
        let mut n_checks = 0;
        for n_left in (0..1000).rev() {
            if closing.is_due(n_left) {
                n_checks += 1;
                closing.keep(Some(vec![0; 10.min(n_left)]), n_left);
            }
        }
        assert!((100..150).contains(&n_checks), "{n_checks}");
        // Far from the limit, one look is enough for long.
        closing.keep(Some(vec![0; 10]), 9000);
        assert!(!closing.is_due(6761) && closing.is_due(6760));
        closing.keep(Some(Vec::new()), 1000);
        assert!(closing.is_due(999));
        closing.keep(None, 200);
        assert!(!closing.has_end() && !closing.is_due(199) && closing.is_due(158));
    }
}
