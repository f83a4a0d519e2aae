//! What of a grammar is regular: rules that lead back to no rule are put in where they are named.
//!
//! Before that, what derives no text at all is taken out: an alternative that can never end would be entered and never left.

use super::class::Class;
use super::parse::{Expr, Rules};

/// Larger and deeper than this, a rule is not put in but stays a rule.
const MAX_SIZE: usize = 1000;
const MAX_DEPTH: usize = 40;

/// A part of a rule, in which what is regular is put together.
#[derive(Clone, Debug, PartialEq, Eq, Hash)]
pub(super) enum Node {
    Chars(Class),
    Seq(Vec<Node>),
    Alt(Vec<Node>),
    Repeat(Box<Node>, u32, Option<u32>),
    Rule(usize),
}

/// Rules whose regular parts are in place.
pub(super) struct Grammar {
    pub(super) bodies: Vec<Node>,
    pub(super) root: usize,
}

impl Node {
    pub(super) fn empty() -> Node {
        Node::Seq(Vec::new())
    }

    /// Parts one after the other, flat.
    pub(super) fn seq(parts: impl IntoIterator<Item = Node>) -> Node {
        let mut flat = Vec::new();
        for part in parts {
            match part {
                Node::Seq(inner) => flat.extend(inner),
                other => flat.push(other),
            }
        }
        if flat.len() == 1 { flat.remove(0) } else { Node::Seq(flat) }
    }

    /// One of several parts, flat.
    pub(super) fn alt(parts: impl IntoIterator<Item = Node>) -> Node {
        let mut flat = Vec::new();
        for part in parts {
            match part {
                Node::Alt(inner) => flat.extend(inner),
                other => flat.push(other),
            }
        }
        if flat.len() == 1 { flat.remove(0) } else { Node::Alt(flat) }
    }

    pub(super) fn is_regular(&self) -> bool {
        match self {
            Node::Chars(_) => true,
            Node::Rule(_) => false,
            Node::Seq(all) | Node::Alt(all) => all.iter().all(Node::is_regular),
            Node::Repeat(inner, ..) => inner.is_regular(),
        }
    }

    /// Whether it can be nothing, given which rules can.
    pub(super) fn is_nullable(&self, rules: &[bool]) -> bool {
        match self {
            Node::Chars(_) => false,
            Node::Rule(rule) => rules[*rule],
            Node::Seq(all) => all.iter().all(|n| n.is_nullable(rules)),
            Node::Alt(all) => all.iter().any(|n| n.is_nullable(rules)),
            Node::Repeat(inner, min, _) => *min == 0 || inner.is_nullable(rules),
        }
    }

    fn size(&self) -> usize {
        match self {
            Node::Chars(_) | Node::Rule(_) => 1,
            Node::Seq(all) | Node::Alt(all) => 1 + all.iter().map(Node::size).sum::<usize>(),
            Node::Repeat(inner, ..) => 1 + inner.size(),
        }
    }

    fn depth(&self) -> usize {
        match self {
            Node::Chars(_) | Node::Rule(_) => 1,
            Node::Seq(all) | Node::Alt(all) => 1 + all.iter().map(Node::depth).max().unwrap_or(0),
            Node::Repeat(inner, ..) => 1 + inner.depth(),
        }
    }
}

/// Takes out what derives nothing, and puts regular rules in. `None` if the root derives nothing.
pub(super) fn arrange(rules: &Rules) -> Option<Grammar> {
    let n = rules.bodies.len();
    let named_in: Vec<Vec<usize>> = rules.bodies.iter().map(rules_of).collect();
    let ends = ending(rules, &named_in);
    let mut done: Vec<Option<Node>> = vec![None; n];
    let mut inlined = vec![false; n];
    // Rules whose own rules are all known come first; those that are left lead back to themselves.
    let mut users = vec![Vec::new(); n];
    let mut n_open: Vec<usize> = named_in.iter().map(Vec::len).collect();
    named_in.iter().enumerate().for_each(|(user, used)| used.iter().for_each(|u| users[*u].push(user)));
    let mut ready: Vec<usize> = (0..n).filter(|rule| n_open[*rule] == 0).collect();
    while let Some(rule) = ready.pop() {
        let node = place(&rules.bodies[rule], &ends, &done, &inlined).unwrap_or_else(Node::empty);
        inlined[rule] = node.is_regular() && node.size() <= MAX_SIZE && node.depth() <= MAX_DEPTH;
        done[rule] = Some(node);
        for user in &users[rule] {
            n_open[*user] -= 1;
            if n_open[*user] == 0 {
                ready.push(*user);
            }
        }
    }
    let body = |rule: usize| match &done[rule] {
        Some(node) => node.clone(),
        None => place(&rules.bodies[rule], &ends, &done, &inlined).unwrap_or_else(Node::empty),
    };
    ends[rules.root].then(|| Grammar { bodies: (0..n).map(body).collect(), root: rules.root })
}

/// The rules that a rule names, each as often as it does.
fn rules_of(body: &Expr) -> Vec<usize> {
    let (mut open, mut found) = (vec![body], Vec::new());
    while let Some(expr) = open.pop() {
        match expr {
            Expr::Chars(_) => {}
            Expr::Rule(rule) => found.push(*rule),
            Expr::Seq(all) | Expr::Alt(all) => open.extend(all),
            Expr::Repeat(inner, ..) => open.push(inner),
        }
    }
    found
}

/// Which rules derive a text.
fn ending(rules: &Rules, named_in: &[Vec<usize>]) -> Vec<bool> {
    let n = rules.bodies.len();
    let mut users = vec![Vec::new(); n];
    named_in.iter().enumerate().for_each(|(user, used)| used.iter().for_each(|u| users[*u].push(user)));
    let mut ends = vec![false; n];
    let mut open: Vec<usize> = (0..n).collect();
    while let Some(rule) = open.pop() {
        if !ends[rule] && ends_with(&rules.bodies[rule], &ends) {
            ends[rule] = true;
            open.extend(&users[rule]);
        }
    }
    ends
}

fn ends_with(expr: &Expr, rules: &[bool]) -> bool {
    match expr {
        Expr::Chars(class) => !class.is_empty(),
        Expr::Rule(rule) => rules[*rule],
        Expr::Seq(all) => all.iter().all(|e| ends_with(e, rules)),
        Expr::Alt(all) => all.iter().any(|e| ends_with(e, rules)),
        Expr::Repeat(inner, min, max) => *min == 0 || *max == Some(0) || ends_with(inner, rules),
    }
}

/// The node of a part; `None` if it derives nothing.
fn place(expr: &Expr, ends: &[bool], done: &[Option<Node>], inlined: &[bool]) -> Option<Node> {
    let inside = |expr: &Expr| place(expr, ends, done, inlined);
    match expr {
        Expr::Chars(class) => (!class.is_empty()).then(|| Node::Chars(class.clone())),
        Expr::Rule(rule) if !ends[*rule] => None,
        Expr::Rule(rule) => match &done[*rule] {
            Some(node) if inlined[*rule] => Some(node.clone()),
            _ => Some(Node::Rule(*rule)),
        },
        Expr::Seq(all) => all.iter().map(inside).collect::<Option<Vec<_>>>().map(Node::seq),
        Expr::Alt(all) => {
            let all: Vec<Node> = all.iter().filter_map(inside).collect();
            (!all.is_empty()).then(|| Node::alt(all))
        }
        Expr::Repeat(_, _, Some(0)) => Some(Node::empty()),
        Expr::Repeat(inner, min, max) => match inside(inner) {
            Some(node) => Some(Node::Repeat(Box::new(node), *min, *max)),
            None => (*min == 0).then(Node::empty),
        },
    }
}
