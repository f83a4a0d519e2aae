//! Whether the longest match of one terminal takes away the end of another.
//!
//! The parser reads terminals by the longest match. A grammar of characters knows no such thing, so a terminal may be taken
//! whole only if nothing depends on where it ends: there must be no word of a terminal after which the grammar goes on with
//! a byte that some terminal that began at the same place would go on with as well.

use std::collections::HashSet;

use super::class::{Bytes, Class};
use super::regular::Node;

/// Places in a terminal, repetitions counted.
const MAX_PLACES: usize = 600;

/// A terminal as an automaton: its characters are the states, and each knows which may come next.
pub(super) struct Places {
    classes: Vec<Class>,
    next: Vec<Vec<u32>>,
    first: Vec<u32>,
    last: Vec<bool>,
}

/// What a part begins and ends with.
struct Part {
    first: Vec<u32>,
    last: Vec<u32>,
    is_nullable: bool,
}

impl Places {
    /// `None` if it has too many places.
    pub(super) fn new(node: &Node) -> Option<Places> {
        let mut places =
            Places { classes: Vec::new(), next: Vec::new(), first: Vec::new(), last: Vec::new() };
        let whole = places.add(node)?;
        places.last = vec![false; places.classes.len()];
        whole.last.iter().for_each(|place| places.last[*place as usize] = true);
        places.first = whole.first;
        Some(places)
    }

    fn add(&mut self, node: &Node) -> Option<Part> {
        match node {
            Node::Rule(_) => None,
            Node::Chars(class) => {
                let place = self.classes.len() as u32;
                self.classes.push(class.clone());
                self.next.push(Vec::new());
                let part = Part { first: vec![place], last: vec![place], is_nullable: false };
                (self.classes.len() <= MAX_PLACES).then_some(part)
            }
            Node::Seq(all) => {
                let mut whole = Part { first: Vec::new(), last: Vec::new(), is_nullable: true };
                for node in all {
                    let part = self.add(node)?;
                    whole = self.join(whole, part);
                }
                Some(whole)
            }
            Node::Alt(all) => {
                let mut whole = Part { first: Vec::new(), last: Vec::new(), is_nullable: false };
                for node in all {
                    let part = self.add(node)?;
                    whole.first.extend(part.first);
                    whole.last.extend(part.last);
                    whole.is_nullable |= part.is_nullable;
                }
                Some(whole)
            }
            Node::Repeat(inner, min, max) => self.repeat(inner, *min, *max),
        }
    }

    /// `x{1,3}` as `x(x(x)?)?`: a copy leads to the next one only, or the links would be as many as the square of the copies.
    fn repeat(&mut self, inner: &Node, min: u32, max: Option<u32>) -> Option<Part> {
        let n_copies = max.unwrap_or(min.max(1));
        let mut whole = Part { first: Vec::new(), last: Vec::new(), is_nullable: min == 0 };
        let mut before: Vec<u32> = Vec::new();
        for copy in 0..n_copies {
            let part = self.add(inner)?;
            whole.is_nullable |= part.is_nullable;
            if part.first.is_empty() {
                break;
            }
            if max.is_none() && copy + 1 == n_copies {
                self.link(&part.last, &part.first);
            }
            self.link(&before, &part.first);
            if copy == 0 {
                whole.first = part.first;
            }
            if copy < min && !part.is_nullable {
                whole.last.clear();
            }
            whole.last.extend(&part.last);
            before = part.last;
        }
        Some(whole)
    }

    fn join(&mut self, before: Part, after: Part) -> Part {
        self.link(&before.last, &after.first);
        let mut first = before.first;
        if before.is_nullable {
            first.extend(&after.first);
        }
        let mut last = after.last;
        if after.is_nullable {
            last.extend(before.last);
        }
        Part { first, last, is_nullable: before.is_nullable && after.is_nullable }
    }

    fn link(&mut self, from: &[u32], to: &[u32]) {
        from.iter().for_each(|place| self.next[*place as usize].extend(to));
    }

    /// The first bytes of its words.
    pub(super) fn first_bytes(&self) -> Bytes {
        self.bytes_of(&self.first)
    }

    fn bytes_of(&self, places: &[u32]) -> Bytes {
        let mut bytes = Bytes::default();
        for place in places {
            bytes.extend(self.classes[*place as usize].first_bytes());
        }
        bytes
    }

    /// Whether some word of this terminal, followed by one of `follow`, begins something that `other` goes on with. Counts
    /// its work down in `budget`; with nothing left, the answer is yes.
    pub(super) fn is_swallowed_by(&self, other: &Places, follow: Bytes, budget: &mut usize) -> bool {
        let pairs = |a: &[u32], b: &[u32]| -> Vec<(u32, u32)> {
            let meets = |(a, b): &(u32, u32)| self.classes[*a as usize].meets(&other.classes[*b as usize]);
            a.iter().flat_map(|a| b.iter().map(|b| (*a, *b))).filter(meets).collect()
        };
        let mut open = pairs(&self.first, &other.first);
        let mut seen: HashSet<(u32, u32)> = open.iter().copied().collect();
        while let Some((own, others)) = open.pop() {
            let (own_next, others_next) = (&self.next[own as usize], &other.next[others as usize]);
            if self.last[own as usize] && other.bytes_of(others_next).meets(follow) {
                return true;
            }
            let cost = 1 + own_next.len() * others_next.len();
            if *budget < cost {
                return true;
            }
            *budget -= cost;
            open.extend(pairs(own_next, others_next).into_iter().filter(|pair| seen.insert(*pair)));
        }
        false
    }
}
