//! What each token sees.

use std::ops::Range;

use crate::error::KernelError;

/// Which positions the tokens see, and in which blocks they lie.
#[derive(Clone, Copy, Debug)]
pub struct Sight<'a> {
    /// Block numbers, a row per sequence: `[row_len, n_sequences]`. Entries beyond what is seen are never read.
    pub block_table: &'a [i32],
    /// Entries of a row.
    pub row_len: usize,
    /// The table row of each token.
    pub rows: &'a [i32],
    /// How many positions each token sees, itself included: positions `0..kv_len` of its sequence. At least 1.
    pub kv_len: &'a [i32],
}

impl<'a> Sight<'a> {
    pub(super) fn n_tokens(&self) -> usize {
        self.rows.len()
    }

    /// The blocks of a token's sequence.
    pub(super) fn blocks(&self, token: usize) -> &'a [i32] {
        &self.block_table[self.rows[token] as usize * self.row_len..][..self.row_len]
    }

    /// Replaces `tiles` by runs of at most `max_tokens` tokens of one sequence.
    pub(super) fn tiles(&self, max_tokens: usize, tiles: &mut Vec<Range<usize>>) {
        tiles.clear();
        for token in 0..self.n_tokens() {
            match tiles.last_mut() {
                Some(tile) if tile.len() < max_tokens && self.rows[tile.start] == self.rows[token] => {
                    tile.end = token + 1;
                }
                _ => tiles.push(token..token + 1),
            }
        }
    }

    /// Every row, length and block that a kernel will read is inside.
    pub(super) fn check(&self, block_size: usize, n_blocks: usize) -> Result<(), KernelError> {
        let n_rows = KernelError::check_rows("block table", self.block_table.len(), self.row_len)?;
        KernelError::check_len("kv_len", self.kv_len.len(), self.rows.len())?;
        let max_len = self.row_len.saturating_mul(block_size);
        // Tokens of one sequence mostly follow each other: its blocks are checked once, as far as they are seen.
        let mut checked = (usize::MAX, 0);
        for (token, (&row, &kv_len)) in self.rows.iter().zip(self.kv_len).enumerate() {
            let row = KernelError::check_index("block table row", row, token, n_rows)?;
            if kv_len < 1 || kv_len as usize > max_len {
                let limit = max_len + 1;
                return Err(KernelError::Index {
                    what: "kv_len",
                    index: i64::from(kv_len),
                    at: token,
                    limit,
                });
            }
            let seen = (kv_len as usize).div_ceil(block_size);
            let start = if checked.0 == row { checked.1.min(seen) } else { 0 };
            for (i, &block) in self.blocks(token)[..seen].iter().enumerate().skip(start) {
                KernelError::check_index("KV block", block, row * self.row_len + i, n_blocks)?;
            }
            checked = (row, if checked.0 == row { checked.1.max(seen) } else { seen });
        }
        Ok(())
    }
}
