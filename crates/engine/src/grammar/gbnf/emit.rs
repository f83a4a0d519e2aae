//! Writes terminals and rules as Lark.

use std::collections::BTreeSet;
use std::fmt::Write as _;

use super::class::Class;
use super::regular::Node;
use super::terminals::{Cut, Part};

/// Parts that can all be nothing: with more of them, the empty text is taken out by an intersection.
const MAX_NULLABLE: usize = 8;

/// The Lark text of a grammar that is one regular expression.
pub(super) fn regular(node: &Node) -> String {
    let mut out = String::new();
    match terminal(node) {
        Some(regex) => {
            let or_nothing = if node.is_nullable(&[]) { "?" } else { "" };
            let _ = writeln!(out, "start: T0{or_nothing}\nT0: {regex}");
        }
        None => out.push_str("start: \"\"\n"),
    }
    out
}

/// The Lark text of rules over terminals, as far as the root reaches.
pub(super) fn rules(cut: &Cut, root: usize) -> String {
    let mut out = format!("start: r{root}\n");
    let nodes = &cut.terminals.nodes;
    let (mut seen, mut terminals, mut open) = (BTreeSet::from([root]), BTreeSet::new(), vec![root]);
    while let Some(rule) = open.pop() {
        let mut text = String::new();
        write_part(&cut.bodies[rule], nodes, &mut text);
        let _ = writeln!(out, "r{rule}: {text}");
        visit(&cut.bodies[rule], &mut |part| match part {
            Part::Rule(rule) => open.extend(seen.insert(*rule).then_some(*rule)),
            Part::Terminal(t) => _ = terminals.insert(*t),
            _ => {}
        });
    }
    for t in terminals {
        if let Some(regex) = terminal(&nodes[t]) {
            let _ = writeln!(out, "T{t}: {regex}");
        }
    }
    out
}

fn visit(part: &Part, f: &mut dyn FnMut(&Part)) {
    f(part);
    match part {
        Part::Seq(all) | Part::Alt(all) => all.iter().for_each(|p| visit(p, f)),
        Part::Repeat(inner, ..) => visit(inner, f),
        Part::Terminal(_) | Part::Rule(_) => {}
    }
}

fn write_part(part: &Part, nodes: &[Node], out: &mut String) {
    match part {
        Part::Terminal(t) if not_empty(&nodes[*t]).is_none() => out.push_str("\"\""),
        Part::Terminal(t) => {
            let or_nothing = if nodes[*t].is_nullable(&[]) { "?" } else { "" };
            let _ = write!(out, "T{t}{or_nothing}");
        }
        Part::Rule(rule) => _ = write!(out, "r{rule}"),
        Part::Seq(all) if all.is_empty() => out.push_str("\"\""),
        Part::Seq(all) => write_all(all, " ", nodes, out),
        Part::Alt(all) => {
            out.push('(');
            write_all(all, " | ", nodes, out);
            out.push(')');
        }
        Part::Repeat(inner, min, max) => {
            out.push('(');
            write_part(inner, nodes, out);
            out.push(')');
            out.push_str(&times(*min, *max));
        }
    }
}

fn write_all(all: &[Part], between: &str, nodes: &[Node], out: &mut String) {
    for (i, part) in all.iter().enumerate() {
        out.push_str(if i > 0 { between } else { "" });
        write_part(part, nodes, out);
    }
}

fn times(min: u32, max: Option<u32>) -> String {
    match (min, max) {
        (0, None) => "*".into(),
        (1, None) => "+".into(),
        (0, Some(1)) => "?".into(),
        (min, None) => format!("{{{min},}}"),
        (min, Some(max)) => format!("{{{min},{max}}}"),
    }
}

/// A terminal's regular expression without the empty text, which no terminal may be; `None` if nothing is left.
fn terminal(node: &Node) -> Option<String> {
    let long = matches!(node, Node::Seq(all) if all.len() > MAX_NULLABLE) && node.is_nullable(&[]);
    let mut out = String::from("/");
    if long {
        write_regex(node, &mut out);
    } else {
        write_regex(&not_empty(node)?, &mut out);
    }
    out.push('/');
    if long {
        out.push_str(" & /(.|\\n)+/");
    }
    Some(out)
}

/// What is left of a node without the empty text.
fn not_empty(node: &Node) -> Option<Node> {
    match node {
        Node::Chars(_) | Node::Rule(_) => Some(node.clone()),
        Node::Seq(all) if node.is_nullable(&[]) => {
            if all.len() > MAX_NULLABLE {
                return Some(node.clone());
            }
            // Whichever is the first that is something: those before it are nothing.
            let from = |(i, first)| Some(Node::seq([first?].into_iter().chain(all[i + 1..].iter().cloned())));
            let ways: Vec<Node> = all.iter().map(not_empty).enumerate().filter_map(from).collect();
            (!ways.is_empty()).then(|| Node::alt(ways))
        }
        Node::Seq(_) => Some(node.clone()),
        Node::Alt(all) => {
            let ways: Vec<Node> = all.iter().filter_map(not_empty).collect();
            (!ways.is_empty()).then(|| Node::alt(ways))
        }
        Node::Repeat(inner, min, max) => {
            let min = if inner.is_nullable(&[]) { 1 } else { (*min).max(1) };
            not_empty(inner).map(|inner| Node::Repeat(Box::new(inner), min, *max))
        }
    }
}

fn write_regex(node: &Node, out: &mut String) {
    match node {
        Node::Chars(class) => write_class(class, out),
        Node::Rule(_) => {}
        Node::Seq(all) => all.iter().for_each(|node| write_regex(node, out)),
        Node::Alt(all) => {
            out.push_str("(?:");
            for (i, node) in all.iter().enumerate() {
                out.push_str(if i > 0 { "|" } else { "" });
                write_regex(node, out);
            }
            out.push(')');
        }
        Node::Repeat(inner, min, max) => {
            out.push_str("(?:");
            write_regex(inner, out);
            out.push(')');
            out.push_str(&times(*min, *max));
        }
    }
}

fn write_class(class: &Class, out: &mut String) {
    match class.ranges() {
        [(first, last)] if first == last => write_char(*first, out),
        ranges => {
            out.push('[');
            for (first, last) in ranges {
                write_char(*first, out);
                if first < last {
                    out.push('-');
                    write_char(*last, out);
                }
            }
            out.push(']');
        }
    }
}

/// The regular expression that matches just this text.
pub(crate) fn regex_of_text(text: &str) -> String {
    let mut out = String::new();
    text.chars().for_each(|c| write_char(c.into(), &mut out));
    out
}

fn write_char(c: u32, out: &mut String) {
    match char::from_u32(c).filter(char::is_ascii_alphanumeric) {
        Some(c) => out.push(c),
        None => _ = write!(out, "\\x{{{c:X}}}"),
    }
}
