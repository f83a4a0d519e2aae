//! Sequences and the blocks under them: who holds which part of the KV cache. Pure bookkeeping; nothing here touches memory.
//!
//! A block is `block_len` positions in every layer. A sequence is a list of blocks in the order of its positions. Sequences
//! share blocks: a fork shares all of its parent's, and a prompt starts from the longest cached text it begins with. A block
//! is written by one holder only: whoever appends to one that another holds, or that the cache knows, gets a copy first.
//!
//! The **prefix cache** is a tree of blocks by their tokens ([`tree`]). Full blocks enter it as soon as somebody looks for a
//! prefix, the last part of a sequence when the sequence ends. What no sequence holds stays there until its memory is
//! needed; then the least recently used goes first, the end of a text before its beginning.

mod pool;
#[cfg(test)]
mod tests;
mod tree;

use pool::Pool;

/// Why a sequence got no block to write to.
#[derive(Debug, PartialEq)]
pub(crate) enum ReserveError<E> {
    /// None is left, not even a cached one that could go.
    OutOfBlocks,
    /// Copying failed.
    Copy(E),
}

/// Where a prompt first differs from the cached text that it is nearest to.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Divergence {
    /// Its place in the prompt.
    pub position: usize,
    /// The token that the cached text has there.
    pub cached: u32,
}

/// What the cache had of a prompt.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct PrefixMatch {
    /// Tokens that need not be read.
    pub n_cached: usize,
    /// Where the nearest cached text goes on otherwise, if one begins as the prompt does.
    pub divergence: Option<Divergence>,
}

/// How the blocks are spread.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct BlockCounts {
    /// Held by sequences.
    pub in_use: usize,
    /// Held by nobody, kept for prompts to come.
    pub cached: usize,
    /// Empty.
    pub free: usize,
}

#[derive(Clone, Debug)]
struct Sequence {
    tokens: Vec<u32>,
    blocks: Vec<u32>,
    /// How many of its blocks, from the first, are in the cache's tree.
    n_registered: usize,
}

/// Sequences over one pool of blocks.
pub(crate) struct KvTable {
    block_len: usize,
    pool: Pool,
    sequences: Vec<Option<Sequence>>,
}

impl KvTable {
    pub(crate) fn new(block_len: usize, n_blocks: usize, n_seq_max: usize) -> Self {
        KvTable { block_len, pool: Pool::new(n_blocks), sequences: vec![None; n_seq_max] }
    }

    /// A new, empty sequence, if there is one left.
    pub(crate) fn create(&mut self) -> Option<usize> {
        let id = self.sequences.iter().position(Option::is_none)?;
        // Room for all that the pool holds: a sequence that grows token by token never waits for memory.
        let n_blocks = self.pool.n_blocks();
        self.sequences[id] = Some(Sequence {
            tokens: Vec::with_capacity(n_blocks * self.block_len),
            blocks: Vec::with_capacity(n_blocks),
            n_registered: 0,
        });
        Some(id)
    }

    /// A sequence that holds what `seq` holds, in the same blocks.
    pub(crate) fn fork(&mut self, seq: usize) -> Option<usize> {
        let copy = self.sequences.get(seq)?.clone()?;
        let id = self.sequences.iter().position(Option::is_none)?;
        copy.blocks.iter().for_each(|block| self.pool.hold(*block));
        self.sequences[id] = Some(copy);
        Some(id)
    }

    /// Ends a sequence; its blocks are cached.
    pub(crate) fn end(&mut self, seq: usize) {
        self.shelve(seq);
        if let Some(slot) = self.sequences.get_mut(seq) {
            *slot = None;
        }
    }

    /// Empties a sequence and begins it anew with the longest cached prefix of `prompt`, at most `limit` tokens. A part of
    /// a block is copied; if that fails, or no block is left for it, only whole blocks are taken.
    pub(crate) fn restart<E>(
        &mut self,
        seq: usize,
        prompt: &[u32],
        limit: usize,
        copy: &mut dyn FnMut(u32, u32) -> Result<(), E>,
    ) -> Result<PrefixMatch, E> {
        self.shelve(seq);
        let Some(Some(s)) = self.sequences.get_mut(seq) else { return Ok(PrefixMatch::default()) };
        let (block_len, limit) = (self.block_len, limit.min(prompt.len()));
        let mut parent = None;
        while s.tokens.len() + block_len <= limit {
            let at = s.tokens.len();
            let Some(node) = self.pool.tree().find(parent, &prompt[at..at + block_len]) else { break };
            let block = self.pool.tree().block(node);
            self.pool.hold(block);
            s.blocks.push(block);
            s.tokens.extend_from_slice(&prompt[at..at + block_len]);
            parent = Some(node);
        }
        s.n_registered = s.blocks.len();
        let at = s.tokens.len();
        let near = self.pool.tree().nearest(parent, &prompt[at..]);
        let divergence = near.and_then(|near| {
            let position = at + near.n_common;
            let cached = near.next.filter(|_| position > 0 && position < prompt.len())?;
            Some(Divergence { position, cached })
        });
        let n_part = near.map_or(0, |near| near.n_common.min(limit - at));
        if let Some(near) = near.filter(|_| n_part > 0)
            && let Some(block) = self.pool.copy_of(near.block, copy)?
        {
            s.blocks.push(block);
            s.tokens.extend_from_slice(&prompt[at..at + n_part]);
        }
        Ok(PrefixMatch { n_cached: s.tokens.len(), divergence })
    }

    /// Gives a sequence the blocks for `n_new` more tokens, its own copy of the last one if others know it. On failure the
    /// sequence is as it was.
    pub(crate) fn reserve<E>(
        &mut self,
        seq: usize,
        n_new: usize,
        copy: &mut dyn FnMut(u32, u32) -> Result<(), E>,
    ) -> Result<(), ReserveError<E>> {
        let Some(Some(s)) = self.sequences.get_mut(seq) else { return Ok(()) };
        if n_new == 0 {
            return Ok(());
        }
        let len = s.tokens.len();
        if !len.is_multiple_of(self.block_len)
            && let Some(tail) = s.blocks.get_mut(len / self.block_len)
        {
            self.pool.make_writable(tail, copy)?;
        }
        while s.blocks.len() < (len + n_new).div_ceil(self.block_len) {
            match self.pool.take() {
                Some(block) => s.blocks.push(block),
                None => {
                    self.trim(seq);
                    return Err(ReserveError::OutOfBlocks);
                }
            }
        }
        Ok(())
    }

    /// Notes that a token was stored; its block was reserved.
    pub(crate) fn push(&mut self, seq: usize, token: u32) {
        if let Some(Some(s)) = self.sequences.get_mut(seq) {
            debug_assert!(s.tokens.len() < s.blocks.len() * self.block_len, "no block for the token");
            s.tokens.push(token);
        }
    }

    /// Forgets everything after the first `len` tokens; what is in the cache already stays there.
    pub(crate) fn truncate(&mut self, seq: usize, len: usize) {
        if let Some(Some(s)) = self.sequences.get_mut(seq) {
            s.tokens.truncate(len);
            s.n_registered = s.n_registered.min(s.tokens.len() / self.block_len);
            self.trim(seq);
        }
    }

    pub(crate) fn contains(&self, seq: usize) -> bool {
        matches!(self.sequences.get(seq), Some(Some(_)))
    }

    pub(crate) fn n_seq_max(&self) -> usize {
        self.sequences.len()
    }

    /// Tokens of a sequence; none if there is no such sequence.
    pub(crate) fn tokens(&self, seq: usize) -> &[u32] {
        self.sequences.get(seq).and_then(Option::as_ref).map_or(&[], |s| &s.tokens)
    }

    /// Blocks of a sequence, in the order of its positions.
    pub(crate) fn blocks(&self, seq: usize) -> &[u32] {
        self.sequences.get(seq).and_then(Option::as_ref).map_or(&[], |s| &s.blocks)
    }

    pub(crate) fn counts(&self) -> BlockCounts {
        self.pool.counts()
    }

    /// Drops everything that no sequence holds.
    pub(crate) fn clear_cache(&mut self) {
        self.pool.clear_cache();
    }

    /// Gives back blocks beyond those that the tokens need.
    fn trim(&mut self, seq: usize) {
        let Some(Some(s)) = self.sequences.get_mut(seq) else { return };
        let n_needed = s.tokens.len().div_ceil(self.block_len);
        while s.blocks.len() > n_needed {
            if let Some(block) = s.blocks.pop() {
                self.pool.release(block);
            }
        }
    }

    /// Moves all that a sequence holds into the cache, and empties it. All sequences are made known first: a fork must hold
    /// the very blocks that lead to those it shares.
    fn shelve(&mut self, seq: usize) {
        self.trim(seq);
        for each in 0..self.sequences.len() {
            self.register(each);
        }
        let Some(Some(s)) = self.sequences.get_mut(seq) else { return };
        let at = s.n_registered * self.block_len;
        if let Some(&tail) = s.blocks.get(s.n_registered) {
            let parent = s.n_registered.checked_sub(1).and_then(|last| self.pool.node_of(s.blocks[last]));
            self.pool.register_part(parent, &s.tokens[at..], tail);
        }
        // From the end: so the end of a text is older than its beginning, and goes first.
        while let Some(block) = s.blocks.pop() {
            self.pool.release(block);
        }
        s.tokens.clear();
        s.n_registered = 0;
    }

    /// Makes a sequence's full blocks known to the cache. Where the cache has the same tokens in another block, the
    /// sequence takes that one: equal tokens behind equal tokens have equal keys and values, to the bit.
    fn register(&mut self, seq: usize) {
        let Some(Some(s)) = self.sequences.get_mut(seq) else { return };
        let n_full = s.tokens.len() / self.block_len;
        let mut parent = s.n_registered.checked_sub(1).and_then(|last| self.pool.node_of(s.blocks[last]));
        for i in s.n_registered..n_full {
            let tokens = &s.tokens[i * self.block_len..(i + 1) * self.block_len];
            let node = self.pool.register_full(parent, tokens, &mut s.blocks[i]);
            parent = Some(node);
        }
        s.n_registered = n_full.max(s.n_registered);
    }
}
