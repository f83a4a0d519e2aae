//! Two settings compared: the same tokens through both, node by node, down to the bit.
//!
//! Each side runs alone, so neither needs the memory of the other's values: a first pass keeps a digest of every value of
//! every token, and where digests differ a second pass measures by how much. A value is a column of a node (what one token
//! has there), so the sides may cut the prompt differently; what a fused node computes is matched with the nodes that it
//! stands for (`values`).

mod cache;
mod difference;
mod json;
mod observe;
mod run;
#[cfg(test)]
mod tests;
mod values;

use std::collections::{HashMap, HashSet};
use std::ops::ControlFlow;

use minfer_graph::Backend;

pub use difference::{Difference, Worst};
use observe::{Digests, Keep, Measure, Seen};
use values::Interner;
pub use values::Part;

use crate::context::Context;
use crate::error::EngineError;

/// A node that has a value on both sides.
#[derive(Clone, Debug, PartialEq)]
pub struct NodePair {
    /// Its name and op on the first side.
    pub a: NodeOn,
    /// Its name and op on the second side.
    pub b: NodeOn,
    /// Which part of the node is compared, where one node stands for several values.
    pub part: Option<Part>,
}

/// A node of one side.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct NodeOn {
    /// Its name.
    pub name: String,
    /// Name of its op.
    pub op: &'static str,
    /// Who ran it.
    pub backend: Backend,
}

/// The same value on both sides, and how far apart it is.
#[derive(Clone, Debug, PartialEq)]
pub struct NodeDifference {
    /// The nodes.
    pub node: NodePair,
    /// Tokens at which the value differs, of those compared.
    pub n_tokens_differing: usize,
    /// Tokens compared.
    pub n_tokens: usize,
    /// Over all tokens that were measured.
    pub difference: Difference,
}

/// A node that has a value on both sides, and at how many tokens it differs.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct NodeVerdict {
    /// Its name on the first side.
    pub a: String,
    /// Its name on the second side.
    pub b: String,
    /// Values compared: tokens, times the parts that the node stands for.
    pub n_values: usize,
    /// Values that differ.
    pub n_differing: usize,
}

/// What each side would choose after a token.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Choice {
    /// Position of the token after which it is chosen.
    pub position: usize,
    /// The best token of the first side, which both go on with.
    pub a: u32,
    /// The best token of the second side.
    pub b: u32,
}

/// What was compared and how it came out.
#[derive(Clone, Debug)]
pub struct AbReport {
    /// Every token that was run.
    pub tokens: Vec<u32>,
    /// How many of them are the prompt.
    pub n_prompt: usize,
    /// Values compared: nodes times tokens.
    pub n_values: usize,
    /// Elements of all values compared.
    pub n_elems: u64,
    /// Values that differ.
    pub n_differing: usize,
    /// Values that both sides have with different sizes.
    pub n_misfits: usize,
    /// Every pair of nodes that were compared, in the first side's order of execution.
    pub nodes: Vec<NodeVerdict>,
    /// Nodes whose value only the first side has.
    pub only_a: Vec<NodeOn>,
    /// Nodes whose value only the second side has.
    pub only_b: Vec<NodeOn>,
    /// The first node, in the first side's order of execution, that differs; nothing when all bits are equal.
    pub first: Option<NodeDifference>,
    /// The difference at the end of each layer from there on, and at the logits.
    pub growth: Vec<NodeDifference>,
    /// What each side chooses after the prompt and after every generated token.
    pub choices: Vec<Choice>,
}

impl AbReport {
    /// Whether something was compared and every bit is equal.
    pub fn is_identical(&self) -> bool {
        self.n_values > 0 && self.n_differing == 0 && self.n_misfits == 0
    }
}

/// Runs `prompt` and `n_generate` tokens more, those that `a` finds most probable, on both sides. `progress` sees tokens
/// run and the least there will be, and may say that it is enough: that ends in [`EngineError::Stopped`].
pub fn compare(
    a: &mut Context,
    b: &mut Context,
    prompt: &[u32],
    n_generate: usize,
    progress: &mut dyn FnMut(usize, usize) -> ControlFlow<()>,
) -> Result<AbReport, EngineError> {
    let total = prompt.len().saturating_add(n_generate).saturating_mul(2);
    let mut done = 0;
    let mut ran = |n: usize| {
        done += n;
        match progress(done, total.max(done)) {
            ControlFlow::Continue(()) => Ok(()),
            ControlFlow::Break(()) => Err(EngineError::Stopped),
        }
    };
    let mut interner = Interner::default();
    let mut on_a = Digests::new(&mut interner);
    let (tokens, chosen_a) = run::greedy(a, prompt, n_generate, &mut on_a, &mut ran)?;
    let seen_a = on_a.into_seen();
    let mut on_b = Digests::new(&mut interner);
    let chosen_b = run::forced(b, &tokens, prompt.len(), &mut on_b, &mut ran)?;
    let seen_b = on_b.into_seen();
    let choices = chosen_a.into_iter().zip(chosen_b).enumerate();
    let mut report = digests_compared(&seen_a, &seen_b);
    report.choices = choices.map(|(i, (a, b))| Choice { position: prompt.len() - 1 + i, a, b }).collect();
    report.n_prompt = prompt.len();
    if report.n_differing > 0 {
        let wanted = Wanted::of(&seen_a, &seen_b);
        let mut keep = Keep::new(&mut interner, &wanted.keys, wanted.first_token);
        run::forced(a, &tokens, prompt.len(), &mut keep, &mut ran)?;
        let kept = keep.into_values();
        let mut measure = Measure::new(&mut interner, &kept);
        run::forced(b, &tokens, prompt.len(), &mut measure, &mut ran)?;
        let differences = measure.into_differences();
        wanted.fill(&mut report, &differences, &interner, [&seen_a, &seen_b]);
    }
    report.tokens = tokens;
    Ok(report)
}

/// Where the second side has a value: by what it is and whose token.
fn by_place(seen: &[Seen]) -> HashMap<(u32, u32), &Seen> {
    seen.iter().map(|s| ((s.key, s.token), s)).collect()
}

fn digests_compared(a: &[Seen], b: &[Seen]) -> AbReport {
    let (in_a, in_b) = (by_place(a), by_place(b));
    let mut report = AbReport {
        tokens: Vec::new(),
        n_prompt: 0,
        n_values: 0,
        n_elems: 0,
        n_differing: 0,
        n_misfits: 0,
        nodes: Vec::new(),
        only_a: only(a, &in_b),
        only_b: only(b, &in_a),
        first: None,
        growth: Vec::new(),
        choices: Vec::new(),
    };
    let mut verdicts = Verdicts::default();
    for (value, other) in a.iter().filter_map(|s| Some((s, *in_b.get(&(s.key, s.token))?))) {
        match value.n_elems == other.n_elems {
            false => report.n_misfits += 1,
            true => {
                report.n_values += 1;
                report.n_elems += u64::from(value.n_elems);
                report.n_differing += usize::from(value.digest != other.digest);
                verdicts.add(value, other);
            }
        }
    }
    report.nodes = verdicts.nodes;
    report
}

/// Verdicts of pairs of nodes; a pair is found by its names.
#[derive(Default)]
struct Verdicts<'a> {
    nodes: Vec<NodeVerdict>,
    places: HashMap<(&'a str, &'a str), usize>,
}

impl<'a> Verdicts<'a> {
    fn add(&mut self, a: &'a Seen, b: &'a Seen) {
        let names = (a.node.name.as_str(), b.node.name.as_str());
        let nodes = &mut self.nodes;
        let at = *self.places.entry(names).or_insert_with(|| {
            let (a, b) = (names.0.to_owned(), names.1.to_owned());
            nodes.push(NodeVerdict { a, b, n_values: 0, n_differing: 0 });
            nodes.len() - 1
        });
        nodes[at].n_values += 1;
        nodes[at].n_differing += usize::from(a.digest != b.digest);
    }
}

/// Nodes with a value that the other side has for no token, each once, in the order of execution.
fn only(seen: &[Seen], other: &HashMap<(u32, u32), &Seen>) -> Vec<NodeOn> {
    let known: HashSet<u32> = other.keys().map(|(key, _)| *key).collect();
    let mut names = HashSet::new();
    // The cache of a backend that does not read it back has values all the same.
    let missing = seen.iter().filter(|s| !known.contains(&s.key) && !s.is_cached);
    missing.filter(|s| names.insert(&s.node.name)).map(|s| (*s.node).clone()).collect()
}

/// The values that the second pass measures.
struct Wanted {
    /// What differs first, in the order of execution of the first side.
    first: u32,
    first_token: u32,
    /// `first`, the end of every layer, the logits; in order.
    keys: Vec<u32>,
}

impl Wanted {
    fn of(a: &[Seen], b: &[Seen]) -> Wanted {
        let in_b = by_place(b);
        let differs = |s: &&Seen| in_b.get(&(s.key, s.token)).is_some_and(|o| o.digest != s.digest);
        let mut differing = a.iter().filter(differs);
        let first = differing.next().map_or((0, 0), |s| (s.key, s.token));
        let mut keys = vec![first.0];
        for s in a.iter().filter(|s| s.ends_layer && in_b.contains_key(&(s.key, s.token))) {
            if !keys.contains(&s.key) {
                keys.push(s.key);
            }
        }
        // The first token may come later than others that differ elsewhere: growth looks at all from the earliest.
        let earliest = a.iter().filter(differs).map(|s| s.token).min().unwrap_or(first.1);
        Wanted { first: first.0, first_token: earliest, keys }
    }

    fn fill(
        &self,
        report: &mut AbReport,
        measured: &HashMap<u32, Difference>,
        interner: &Interner,
        [a, b]: [&[Seen]; 2],
    ) {
        let in_b = by_place(b);
        let all = self.keys.iter().filter_map(|key| {
            let both: Vec<_> = a
                .iter()
                .filter(|s| s.key == *key)
                .filter_map(|s| Some((s, *in_b.get(&(s.key, s.token))?)))
                .collect();
            Some((*key, node_difference(&both, interner.part(*key), measured.get(key)?)?))
        });
        for (key, difference) in all {
            if key == self.first {
                report.first = Some(difference);
            } else if difference.n_tokens_differing > 0 {
                report.growth.push(difference);
            }
        }
    }
}

/// Sums up a value that both sides have, for every token; `part` tells it from other values of its node.
fn node_difference(
    both: &[(&Seen, &Seen)],
    part: Option<&Part>,
    measured: &Difference,
) -> Option<NodeDifference> {
    let (on_a, on_b) = both.first()?;
    // What a store leaves is no value of the graph, so it is always said where it lies.
    let is_cached = matches!(part, Some(Part::Cached(_)));
    let is_part = on_a.is_fused || on_b.is_fused || is_cached;
    Some(NodeDifference {
        node: NodePair {
            a: (*on_a.node).clone(),
            b: (*on_b.node).clone(),
            part: part.filter(|_| is_part).cloned(),
        },
        n_tokens_differing: both.iter().filter(|(a, b)| a.digest != b.digest).count(),
        n_tokens: both.len(),
        difference: measured.clone(),
    })
}
