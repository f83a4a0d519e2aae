//! The merging loop that both kinds of BPE share.
//!
//! A text is a chain of symbols. Of all neighbouring pairs that may be joined, the one with the lowest rank is joined,
//! the leftmost first among equals, until none is left. A heap of candidate pairs makes this `O(n log n)` in the number
//! of symbols, whatever the text: a megabyte of one letter is one chain.
//!
//! Trap: a candidate goes stale when either side has been joined with something else in the meantime. Entries are not
//! removed from the heap; they are checked when they come up.

use std::cmp::Reverse;
use std::collections::BinaryHeap;

/// Marks the end of a chain, and a symbol without a token.
pub(super) const NONE: u32 = u32::MAX;

/// A stretch `start..end` of the text (bytes) and its token, [`NONE`] if it has none.
#[derive(Clone, Copy, Debug)]
pub(super) struct Symbol {
    pub(super) id: u32,
    pub(super) start: u32,
    pub(super) end: u32,
    prev: u32,
    next: u32,
}

/// What joining a pair gives.
#[derive(Clone, Copy, Debug)]
pub(super) struct Join {
    /// The lower, the sooner.
    pub(super) rank: u32,
    /// The token that the pair becomes.
    pub(super) id: u32,
}

/// A chain of symbols; reused from text to text to save allocations.
#[derive(Debug, Default)]
pub(super) struct Chain {
    symbols: Vec<Symbol>,
    heap: BinaryHeap<Reverse<Candidate>>,
}

/// A pair that may be joined; ordered by rank, then by place.
#[derive(Debug, PartialEq, Eq, PartialOrd, Ord)]
struct Candidate {
    rank: u32,
    left: u32,
    right: u32,
    end: u32,
    id: u32,
}

impl Chain {
    /// Empties the chain.
    pub(super) fn clear(&mut self) {
        self.symbols.clear();
        self.heap.clear();
    }

    /// Appends a symbol. A chain holds fewer than 2^32 - 1 of them: callers bound the text's length.
    pub(super) fn push(&mut self, id: u32, start: u32, end: u32) {
        let n = self.symbols.len() as u32;
        if let Some(last) = self.symbols.last_mut() {
            last.next = n;
        }
        let prev = n.checked_sub(1).unwrap_or(NONE);
        self.symbols.push(Symbol { id, start, end, prev, next: NONE });
    }

    /// Joins pairs until `join` has an answer for none that is left.
    pub(super) fn merge(&mut self, join: impl Fn(&Symbol, &Symbol) -> Option<Join>) {
        for left in 1..self.symbols.len() as u32 {
            self.offer(left - 1, left, &join);
        }
        while let Some(Reverse(pair)) = self.heap.pop() {
            if self.is_current(&pair) {
                self.apply(&pair);
                let Symbol { prev, next, .. } = self.symbols[pair.left as usize];
                self.offer(prev, pair.left, &join);
                self.offer(pair.left, next, &join);
            }
        }
    }

    /// The symbols that are left, in order.
    pub(super) fn iter(&self) -> impl Iterator<Item = &Symbol> {
        let follow = |symbol: &&Symbol| self.symbols.get(symbol.next as usize);
        std::iter::successors(self.symbols.first(), follow)
    }

    fn offer(&mut self, left: u32, right: u32, join: &impl Fn(&Symbol, &Symbol) -> Option<Join>) {
        let (Some(l), Some(r)) = (self.symbols.get(left as usize), self.symbols.get(right as usize)) else {
            return;
        };
        if let Some(Join { rank, id }) = join(l, r) {
            self.heap.push(Reverse(Candidate { rank, left, right, end: r.end, id }));
        }
    }

    /// Whether both sides are still what they were when the pair was offered: `left` grows only by taking its right
    /// neighbour, and a symbol that was taken has no successor.
    fn is_current(&self, pair: &Candidate) -> bool {
        self.symbols[pair.left as usize].next == pair.right
            && self.symbols[pair.right as usize].end == pair.end
    }

    fn apply(&mut self, pair: &Candidate) {
        let right = &mut self.symbols[pair.right as usize];
        let (end, next) = (right.end, std::mem::replace(&mut right.next, NONE));
        let left = &mut self.symbols[pair.left as usize];
        (left.id, left.end, left.next) = (pair.id, end, next);
        if let Some(after) = self.symbols.get_mut(next as usize) {
            after.prev = pair.left;
        }
    }
}
