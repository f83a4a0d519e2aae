//! Prepared graphs by their params; the least recently used goes first.

use crate::params::GraphParams;

/// A small map with an order of use. Lookups compare params one by one: there are few, and equality is a handful of words.
pub struct ReuseCache<T> {
    entries: Vec<(GraphParams, T)>,
    capacity: usize,
}

impl<T> ReuseCache<T> {
    /// An empty cache of at most `capacity` graphs.
    pub fn new(capacity: usize) -> Self {
        ReuseCache { entries: Vec::with_capacity(capacity), capacity }
    }

    /// Whether a graph for `params` is ready.
    pub fn contains(&self, params: &GraphParams) -> bool {
        self.entries.iter().any(|(p, _)| p == params)
    }

    /// The graph for `params`, now the most recently used.
    pub fn get(&mut self, params: &GraphParams) -> Option<&mut T> {
        let i = self.entries.iter().position(|(p, _)| p == params)?;
        self.entries[i..].rotate_left(1);
        self.entries.last_mut().map(|(_, t)| t)
    }

    /// Adds a graph; drops the least recently used one if the cache is full.
    pub fn insert(&mut self, params: GraphParams, value: T) {
        if self.entries.len() >= self.capacity && !self.entries.is_empty() {
            self.entries.remove(0);
        }
        self.entries.push((params, value));
    }

    /// Drops every graph.
    pub fn clear(&mut self) {
        self.entries.clear();
    }
}
