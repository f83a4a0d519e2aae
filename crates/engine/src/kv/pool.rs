//! Blocks with counts of their holders, and the cached ones in the order of their last use.
//!
//! A block is *in use* (somebody holds it), *cached* (nobody does, the tree knows it) or *free*. A sequence that holds a
//! block holds all blocks before it in the tree, and lets go of the last one first; so a cached block is always older than
//! the one before it, and the oldest of all has no children.

use std::collections::{BTreeMap, BTreeSet};

use super::tree::{NodeId, Tree};
use super::{BlockCounts, ReserveError};

pub(super) struct Pool {
    n_holders: Vec<u32>,
    nodes: Vec<Option<NodeId>>,
    /// When a cached block was last let go.
    stamps: Vec<u64>,
    free: BTreeSet<u32>,
    cached: BTreeMap<u64, u32>,
    clock: u64,
    tree: Tree,
}

impl Pool {
    pub(super) fn new(n_blocks: usize) -> Self {
        Pool {
            n_holders: vec![0; n_blocks],
            nodes: vec![None; n_blocks],
            stamps: vec![0; n_blocks],
            free: (0..n_blocks as u32).collect(),
            cached: BTreeMap::new(),
            clock: 0,
            tree: Tree::default(),
        }
    }

    /// Blocks of all three kinds.
    pub(super) fn n_blocks(&self) -> usize {
        self.n_holders.len()
    }

    pub(super) fn tree(&self) -> &Tree {
        &self.tree
    }

    /// The place of a block in the tree.
    pub(super) fn node_of(&self, block: u32) -> Option<NodeId> {
        self.nodes[block as usize]
    }

    #[cfg(test)]
    pub(super) fn holders(&self) -> &[u32] {
        &self.n_holders
    }

    pub(super) fn counts(&self) -> BlockCounts {
        let (cached, free) = (self.cached.len(), self.free.len());
        BlockCounts { in_use: self.n_holders.len() - cached - free, cached, free }
    }

    /// A block for one holder: the lowest free one, so that a lone sequence reads memory in order, or the oldest cached.
    pub(super) fn take(&mut self) -> Option<u32> {
        if self.free.is_empty() {
            self.evict();
        }
        let block = self.free.pop_first()?;
        self.n_holders[block as usize] = 1;
        Some(block)
    }

    /// One more holder of a block that is in use or cached.
    pub(super) fn hold(&mut self, block: u32) {
        let b = block as usize;
        debug_assert!(!self.free.contains(&block), "block {block} is free");
        if self.n_holders[b] == 0 {
            self.cached.remove(&self.stamps[b]);
        }
        self.n_holders[b] += 1;
    }

    /// One holder less.
    pub(super) fn release(&mut self, block: u32) {
        let b = block as usize;
        debug_assert!(self.n_holders[b] > 0, "block {block} is released twice");
        self.n_holders[b] -= 1;
        if self.n_holders[b] > 0 {
            return;
        }
        if self.nodes[b].is_some() {
            self.clock += 1;
            self.stamps[b] = self.clock;
            self.cached.insert(self.clock, block);
        } else {
            self.free.insert(block);
        }
    }

    /// A copy of a cached block, for one holder; the block itself if no other is left. `None` if that one is in use.
    pub(super) fn copy_of<E>(
        &mut self,
        block: u32,
        copy: &mut dyn FnMut(u32, u32) -> Result<(), E>,
    ) -> Result<Option<u32>, E> {
        self.hold(block);
        let mut own = block;
        match self.make_writable(&mut own, copy) {
            Ok(()) => Ok(Some(own)),
            Err(ReserveError::OutOfBlocks) => {
                self.release(block);
                Ok(None)
            }
            Err(ReserveError::Copy(error)) => {
                self.release(block);
                Err(error)
            }
        }
    }

    /// Makes sure that nobody else knows the block that a holder will write to, by a copy if need be. When no block is left
    /// for one, a block that only the cache knows besides is taken from the cache.
    pub(super) fn make_writable<E>(
        &mut self,
        block: &mut u32,
        copy: &mut dyn FnMut(u32, u32) -> Result<(), E>,
    ) -> Result<(), ReserveError<E>> {
        let is_shared = self.n_holders[*block as usize] > 1;
        if !is_shared && self.nodes[*block as usize].is_none() {
            return Ok(());
        }
        let Some(own) = self.take() else {
            // Cached blocks behind this one would have been taken, so it is the end of its text.
            return if is_shared {
                Err(ReserveError::OutOfBlocks)
            } else {
                self.unregister(*block);
                Ok(())
            };
        };
        if let Err(error) = copy(*block, own) {
            self.release(own);
            return Err(ReserveError::Copy(error));
        }
        self.release(*block);
        *block = own;
        Ok(())
    }

    /// Makes a full block known. If the tree has its text already, `block` becomes the one that is there.
    pub(super) fn register_full(
        &mut self,
        parent: Option<NodeId>,
        tokens: &[u32],
        block: &mut u32,
    ) -> NodeId {
        if let Some(known) = self.tree.find(parent, tokens) {
            let other = self.tree.block(known);
            if other != *block {
                self.hold(other);
                self.release(*block);
                *block = other;
            }
            return known;
        }
        // A fork that was cut shorter may have entered the block with fewer tokens.
        self.unregister(*block);
        self.forget_shorter(parent, tokens);
        self.enter(parent, tokens, *block)
    }

    /// Makes the end of a text known, unless the tree has it.
    pub(super) fn register_part(&mut self, parent: Option<NodeId>, tokens: &[u32], block: u32) {
        let has_it = |child: &NodeId| self.tree.tokens(*child).starts_with(tokens);
        let is_known = self.nodes[block as usize].is_some();
        if tokens.is_empty() || is_known || self.tree.children(parent).iter().any(has_it) {
            return;
        }
        self.forget_shorter(parent, tokens);
        self.enter(parent, tokens, block);
    }

    pub(super) fn clear_cache(&mut self) {
        while self.evict() {}
    }

    fn enter(&mut self, parent: Option<NodeId>, tokens: &[u32], block: u32) -> NodeId {
        let node = self.tree.insert(parent, tokens, block);
        self.nodes[block as usize] = Some(node);
        node
    }

    /// Drops cached ends of texts that `tokens` begins with: they serve no prompt that the longer text does not.
    fn forget_shorter(&mut self, parent: Option<NodeId>, tokens: &[u32]) {
        let shorter = |child: &NodeId| tokens.starts_with(self.tree.tokens(*child));
        let children = self.tree.children(parent).iter().filter(|child| shorter(child));
        let blocks = children.map(|child| self.tree.block(*child));
        let idle: Vec<u32> = blocks.filter(|block| self.n_holders[*block as usize] == 0).collect();
        for block in idle {
            self.cached.remove(&self.stamps[block as usize]);
            self.unregister(block);
            self.free.insert(block);
        }
    }

    /// Frees the cached block that has been idle for longest.
    fn evict(&mut self) -> bool {
        let Some((_, block)) = self.cached.pop_first() else { return false };
        self.unregister(block);
        self.free.insert(block);
        true
    }

    fn unregister(&mut self, block: u32) {
        if let Some(node) = self.nodes[block as usize].take() {
            self.tree.remove(node);
        }
    }
}
