//! Cuts a grammar into terminals that may be read by the longest match.
//!
//! At first every regular part, as large as it is, becomes one. Those that would take something away from others are cut
//! into their parts, until none does; single characters never do. Large terminals are what makes masks fast: the parser has
//! an automaton for each. So a sequence loses its first part only, at first: a comma that is taken away from others is no
//! reason to cut the text behind it as well, whose pieces would then be taken away from by others.

use std::collections::HashMap;

use super::class::Bytes;
use super::overlap::Places;
use super::regular::{Grammar, Node};

/// Work for finding out what overlaps; when it is spent, terminals are cut without asking.
const BUDGET: usize = 4_000_000;
const MAX_TERMINALS: usize = 400;
/// So often sequences lose their first part only; then, and where they are longer than this, they are cut into all parts.
const MAX_ROUNDS: usize = 24;
const MAX_STEPWISE: usize = 64;

/// A part of a rule of terminals.
#[derive(Clone, Debug)]
pub(super) enum Part {
    /// By number; it may be absent if its node may be nothing.
    Terminal(usize),
    Rule(usize),
    Seq(Vec<Part>),
    Alt(Vec<Part>),
    Repeat(Box<Part>, u32, Option<u32>),
}

#[derive(Default)]
pub(super) struct Terminals {
    pub(super) nodes: Vec<Node>,
    numbers: HashMap<Node, usize>,
}

impl Terminals {
    fn number(&mut self, node: &Node) -> usize {
        *self.numbers.entry(node.clone()).or_insert_with(|| {
            self.nodes.push(node.clone());
            self.nodes.len() - 1
        })
    }
}

/// The rules in terms of terminals.
pub(super) struct Cut {
    pub(super) bodies: Vec<Part>,
    pub(super) terminals: Terminals,
}

pub(super) fn cut(grammar: &Grammar) -> Cut {
    let mut all_small = false;
    let mut small: std::collections::HashSet<Node> = std::collections::HashSet::new();
    let mut budget = BUDGET;
    let mut n_rounds = 0;
    loop {
        let mut terminals = Terminals::default();
        let is_small = |node: &Node| all_small || small.contains(node);
        let how = How { is_small: &is_small, is_stepwise: !all_small && n_rounds < MAX_ROUNDS };
        let mut cutter = |node: &Node| part(node, &mut terminals, &how);
        let bodies: Vec<Part> = grammar.bodies.iter().map(&mut cutter).collect();
        let cut = Cut { bodies, terminals };
        let found = overlapping(&cut, &mut budget);
        if all_small || found.is_empty() {
            return cut;
        }
        all_small = budget == 0 || cut.terminals.nodes.len() > MAX_TERMINALS;
        small.extend(found.into_iter().map(|t| cut.terminals.nodes[t].clone()));
        n_rounds += 1;
    }
}

/// What is cut, and how.
struct How<'a> {
    is_small: &'a dyn Fn(&Node) -> bool,
    is_stepwise: bool,
}

/// A node's terminals; one that is small is cut into its parts.
fn part(node: &Node, terminals: &mut Terminals, how: &How<'_>) -> Part {
    let is_one = matches!(node, Node::Chars(_)) || node.is_regular() && !(how.is_small)(node);
    if is_one && *node != Node::empty() {
        return Part::Terminal(terminals.number(node));
    }
    match node {
        Node::Rule(rule) => Part::Rule(*rule),
        Node::Seq(all) if node.is_regular() && how.is_stepwise && (2..=MAX_STEPWISE).contains(&all.len()) => {
            let rest = Node::seq(all[1..].iter().cloned());
            Part::Seq(vec![part(&all[0], terminals, how), part(&rest, terminals, how)])
        }
        Node::Seq(all) if node.is_regular() => {
            Part::Seq(all.iter().map(|n| part(n, terminals, how)).collect())
        }
        Node::Seq(all) => {
            // Neighbours that are regular are one terminal.
            let runs = all.chunk_by(|a, b| a.is_regular() && b.is_regular());
            let runs = runs.map(|run| Node::seq(run.iter().cloned()));
            Part::Seq(runs.map(|n| part(&n, terminals, how)).collect())
        }
        Node::Alt(all) if node.is_regular() => {
            Part::Alt(all.iter().map(|n| part(n, terminals, how)).collect())
        }
        Node::Alt(all) => {
            let (regular, other): (Vec<&Node>, Vec<&Node>) = all.iter().partition(|n| n.is_regular());
            let joined = (!regular.is_empty()).then(|| Node::alt(regular.into_iter().cloned()));
            let all = joined.iter().chain(other);
            Part::Alt(all.map(|n| part(n, terminals, how)).collect())
        }
        Node::Repeat(inner, min, max) => Part::Repeat(Box::new(part(inner, terminals, how)), *min, *max),
        Node::Chars(_) => Part::Terminal(terminals.number(node)),
    }
}

/// The terminals that take the end of another, or of themselves.
fn overlapping(cut: &Cut, budget: &mut usize) -> Vec<usize> {
    let nodes = &cut.terminals.nodes;
    let places: Vec<Option<Places>> = nodes.iter().map(Places::new).collect();
    let follow = Follow::new(cut, &places);
    let is_single = |t: usize| matches!(nodes[t], Node::Chars(_));
    let swallows = |long: usize, budget: &mut usize| {
        let Some(others) = &places[long] else { return true };
        (0..nodes.len()).any(|short| match &places[short] {
            Some(own) => own.is_swallowed_by(others, follow.after[short], budget),
            // It is cut anyway.
            None => false,
        })
    };
    (0..nodes.len()).filter(|&long| !is_single(long) && swallows(long, budget)).collect()
}

/// The bytes that can come after each terminal.
struct Follow {
    after: Vec<Bytes>,
}

/// What a part can begin with, and whether it can be nothing.
#[derive(Clone, Copy, Default, PartialEq)]
struct Start {
    bytes: Bytes,
    is_nullable: bool,
}

struct Tables<'a> {
    terminals: Vec<Start>,
    rules: Vec<Start>,
    after_rules: Vec<Bytes>,
    after_terminals: Vec<Bytes>,
    bodies: &'a [Part],
}

impl Follow {
    fn new(cut: &Cut, places: &[Option<Places>]) -> Follow {
        let every = super::class::Class::any().first_bytes();
        let start = |(node, places): (&Node, &Option<Places>)| Start {
            bytes: places.as_ref().map_or(every, Places::first_bytes),
            is_nullable: node.is_nullable(&[]),
        };
        let mut tables = Tables {
            terminals: cut.terminals.nodes.iter().zip(places).map(start).collect(),
            rules: vec![Start::default(); cut.bodies.len()],
            after_rules: vec![Bytes::default(); cut.bodies.len()],
            after_terminals: vec![Bytes::default(); cut.terminals.nodes.len()],
            bodies: &cut.bodies,
        };
        tables.fill();
        Follow { after: tables.after_terminals }
    }
}

impl Tables<'_> {
    fn fill(&mut self) {
        let bodies = self.bodies;
        loop {
            let before = self.rules.clone();
            for (rule, body) in bodies.iter().enumerate() {
                self.rules[rule] = self.start(body);
            }
            if self.rules == before {
                break;
            }
        }
        loop {
            let mut is_new = false;
            for (rule, body) in bodies.iter().enumerate() {
                is_new |= self.follow(body, self.after_rules[rule]);
            }
            if !is_new {
                return;
            }
        }
    }

    fn start(&self, part: &Part) -> Start {
        match part {
            Part::Terminal(t) => self.terminals[*t],
            Part::Rule(rule) => self.rules[*rule],
            Part::Seq(all) => {
                let mut whole = Start { bytes: Bytes::default(), is_nullable: true };
                for part in all {
                    let start = self.start(part);
                    whole.bytes.extend(start.bytes);
                    if !start.is_nullable {
                        whole.is_nullable = false;
                        break;
                    }
                }
                whole
            }
            Part::Alt(all) => {
                let mut whole = Start::default();
                for part in all {
                    let start = self.start(part);
                    whole.bytes.extend(start.bytes);
                    whole.is_nullable |= start.is_nullable;
                }
                whole
            }
            Part::Repeat(inner, min, _) => {
                let start = self.start(inner);
                Start { is_nullable: start.is_nullable || *min == 0, ..start }
            }
        }
    }

    /// Notes that `after` can come behind `part`; says whether something was new.
    fn follow(&mut self, part: &Part, after: Bytes) -> bool {
        match part {
            Part::Terminal(t) => self.after_terminals[*t].extend(after),
            Part::Rule(rule) => self.after_rules[*rule].extend(after),
            Part::Seq(all) => {
                let (mut is_new, mut after) = (false, after);
                for part in all.iter().rev() {
                    is_new |= self.follow(part, after);
                    let start = self.start(part);
                    if !start.is_nullable {
                        after = Bytes::default();
                    }
                    after.extend(start.bytes);
                }
                is_new
            }
            Part::Alt(all) => all.iter().fold(false, |is_new, part| self.follow(part, after) | is_new),
            Part::Repeat(inner, _, Some(1)) => self.follow(inner, after),
            Part::Repeat(inner, ..) => {
                let mut after = after;
                after.extend(self.start(inner).bytes);
                self.follow(inner, after)
            }
        }
    }
}
