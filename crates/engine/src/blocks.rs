//! Blocks of the KV cache: who has which.
//!
//! A block is `kv_block` positions in every layer. A sequence owns a list of blocks in the order of its positions; the
//! lowest free block is given out first, so that a lone sequence reads memory in order.

use std::collections::BTreeSet;

/// The blocks that nobody has.
#[derive(Debug)]
pub(crate) struct BlockPool {
    free: BTreeSet<u32>,
}

impl BlockPool {
    pub(crate) fn new(n_blocks: usize) -> Self {
        BlockPool { free: (0..n_blocks as u32).collect() }
    }

    /// Takes a block, if there is one.
    pub(crate) fn take(&mut self) -> Option<u32> {
        self.free.pop_first()
    }

    /// Gives a block back.
    pub(crate) fn give(&mut self, block: u32) {
        let new = self.free.insert(block);
        debug_assert!(new, "block {block} was free already");
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn blocks_go_out_lowest_first_and_come_back() {
        let mut pool = BlockPool::new(3);
        assert_eq!([pool.take(), pool.take(), pool.take(), pool.take()], [Some(0), Some(1), Some(2), None]);
        pool.give(1);
        pool.give(0);
        assert_eq!([pool.take(), pool.take(), pool.take()], [Some(0), Some(1), None]);
    }
}
