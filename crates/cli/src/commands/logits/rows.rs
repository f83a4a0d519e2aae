//! Runs a prompt and hands out rows of logits.

use minfer_engine::{Context, Row};

use crate::args::LogitsArgs;
use crate::error::CliError;
use crate::interrupt::Interrupt;
use crate::progress::{Meter, Unit};

/// Most bytes of logits that are held at once, unless one row is larger.
const MAX_LOGITS_BYTES: usize = 64 << 20;

/// Which rows, and how many tokens are run at a time.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) struct Wanted {
    every: bool,
    n_chunk: usize,
}

impl Wanted {
    pub(super) fn new(args: &LogitsArgs, n_vocab: usize) -> Self {
        Self::with(args.all_positions, args.context.compute.n_ubatch(), n_vocab)
    }

    fn with(every: bool, n_ubatch: usize, n_vocab: usize) -> Self {
        let n_fitting = MAX_LOGITS_BYTES / (n_vocab.max(1) * size_of::<f32>());
        // A chunk size of 0 is refused by the context.
        let n_chunk = if every { n_ubatch.min(n_fitting) } else { n_ubatch };
        Self { every, n_chunk: n_chunk.max(1) }
    }
}

/// Runs `tokens` in a new sequence; `visit` gets a position and the row of logits after it, in order.
pub(super) fn for_each(
    context: &mut Context,
    tokens: &[u32],
    wanted: Wanted,
    visit: &mut dyn FnMut(usize, &[f32]) -> anyhow::Result<()>,
) -> anyhow::Result<()> {
    let (seq, interrupt) = (context.new_sequence()?, Interrupt::install()?);
    let (n_vocab, last) = (context.model().n_vocab(), tokens.len().saturating_sub(1));
    let mut meter = Meter::new("reading", Unit::Things("tokens"));
    for (i, chunk) in tokens.chunks(wanted.n_chunk).enumerate() {
        let first = i * wanted.n_chunk;
        let wants = |at| wanted.every || at == last;
        let row = |(i, &token)| Row { seq, token, wants_logits: wants(first + i) };
        let rows: Vec<_> = chunk.iter().enumerate().map(row).collect();
        let logits = context.step(&rows)?;
        let positions = (first..first + chunk.len()).filter(|&at| wants(at));
        for (at, row) in positions.zip(logits.chunks_exact(n_vocab)) {
            visit(at, row)?;
        }
        meter.update((first + chunk.len()) as u64, Some(tokens.len() as u64));
        if interrupt.is_set() {
            return Err(CliError::Interrupted.into());
        }
    }
    Ok(())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn all_positions_of_a_large_vocabulary_go_in_smaller_chunks() {
        assert_eq!(Wanted::with(false, 512, 151_936).n_chunk, 512);
        assert_eq!(Wanted::with(true, 512, 151_936).n_chunk, 110);
        assert_eq!(Wanted::with(true, 64, 151_936).n_chunk, 64);
        assert_eq!(Wanted::with(true, 512, usize::MAX / 8).n_chunk, 1);
        assert_eq!(Wanted::with(true, 0, 0).n_chunk, 1);
    }
}
