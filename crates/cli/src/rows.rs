//! Runs a prompt and hands out rows of logits.

use minfer_engine::{Context, Row, SeqId};

use crate::error::CliError;
use crate::interrupt::Interrupt;
use crate::progress::{Meter, Unit};

/// Most bytes of logits that are held at once, unless one row is larger.
const MAX_LOGITS_BYTES: usize = 64 << 20;

/// Which rows, and how many tokens are run at a time.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct Wanted {
    every: bool,
    n_chunk: usize,
}

impl Wanted {
    /// The row after the last token.
    pub(crate) fn last(n_ubatch: usize) -> Self {
        // A chunk size of 0 is refused by the context.
        Self { every: false, n_chunk: n_ubatch.max(1) }
    }

    /// The row after every token.
    pub(crate) fn every(n_ubatch: usize, n_vocab: usize) -> Self {
        let n_fitting = MAX_LOGITS_BYTES / (n_vocab.max(1) * size_of::<f32>());
        Self { every: true, n_chunk: n_ubatch.min(n_fitting).max(1) }
    }

    /// Rows of one step.
    pub(crate) fn n_outputs(self) -> usize {
        if self.every { self.n_chunk } else { 1 }
    }
}

/// Runs `tokens` in pieces of `n_piece` (at least 1), each in an empty sequence; `visit` gets the index of a token and the
/// row of logits after it, in order.
pub(crate) fn for_each(
    context: &mut Context,
    tokens: &[u32],
    n_piece: usize,
    wanted: Wanted,
    visit: &mut dyn FnMut(usize, &[f32]) -> anyhow::Result<()>,
) -> anyhow::Result<()> {
    let (seq, interrupt) = (context.new_sequence()?, Interrupt::listen());
    let mut run = Run { context, seq, wanted, last: tokens.len().saturating_sub(1) };
    let mut meter = Meter::new("reading", Unit::Things("tokens"));
    for (piece, start) in tokens.chunks(n_piece).zip((0..).step_by(n_piece)) {
        run.context.truncate(seq, 0);
        for (chunk, first) in piece.chunks(wanted.n_chunk).zip((start..).step_by(wanted.n_chunk)) {
            run.chunk(chunk, first, visit)?;
            meter.update((first + chunk.len()) as u64, Some(tokens.len() as u64));
            if interrupt.is_set() {
                return Err(CliError::Interrupted.into());
            }
        }
    }
    Ok(())
}

struct Run<'a> {
    context: &'a mut Context,
    seq: SeqId,
    wanted: Wanted,
    /// Index of the last token of all.
    last: usize,
}

impl Run<'_> {
    /// Runs some tokens, the first of which has the index `first`.
    fn chunk(
        &mut self,
        tokens: &[u32],
        first: usize,
        visit: &mut dyn FnMut(usize, &[f32]) -> anyhow::Result<()>,
    ) -> anyhow::Result<()> {
        let (every, last, seq) = (self.wanted.every, self.last, self.seq);
        let wants = |at: usize| every || at == last;
        let row = |(i, &token)| Row { seq, token, wants_logits: wants(first + i) };
        let rows: Vec<_> = tokens.iter().enumerate().map(row).collect();
        let n_vocab = self.context.model().n_vocab();
        let logits = self.context.step(&rows)?;
        let wanted = (first..first + tokens.len()).filter(|&at| wants(at));
        wanted.zip(logits.chunks_exact(n_vocab)).try_for_each(|(at, row)| visit(at, row))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn all_positions_of_a_large_vocabulary_go_in_smaller_chunks() {
        assert_eq!(Wanted::last(512).n_chunk, 512);
        assert_eq!(Wanted::every(512, 151_936).n_chunk, 110);
        assert_eq!(Wanted::every(64, 151_936).n_chunk, 64);
        assert_eq!(Wanted::every(512, usize::MAX / 8).n_chunk, 1);
        assert_eq!(Wanted::every(0, 0).n_chunk, 1);
    }
}
