//! What differs between two graphs. Nodes are matched by name, so that one node more does not make all later ones differ.
//!
//! Layers mostly differ in the same way; their lines are written once, with `*` in place of the layer.

use std::collections::{HashMap, HashSet};
use std::fmt::Write;

use crate::graph::Node;

use super::fields::{self, Field, joined};
use super::view::View;

/// One way in which two graphs differ.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Change {
    /// Only the first graph has the node.
    OnlyA {
        /// Its name.
        node: String,
        /// Its fields, as in the text.
        fields: String,
    },
    /// Only the second graph has the node.
    OnlyB {
        /// Its name.
        node: String,
        /// Its fields, as in the text.
        fields: String,
    },
    /// Both have it, and fields differ.
    Changed {
        /// Its name.
        node: String,
        /// Name of the field, what it is in the first graph, what in the second.
        fields: Vec<(&'static str, String, String)>,
    },
}

impl Change {
    fn line(&self) -> String {
        match self {
            Change::OnlyA { node, fields } => format!("- {node} {fields}"),
            Change::OnlyB { node, fields } => format!("+ {node} {fields}"),
            Change::Changed { node, fields } => {
                let fields: Vec<_> = fields.iter().map(|(key, a, b)| format!("{key}: {a} -> {b}")).collect();
                format!("~ {node} {}", fields.join("; "))
            }
        }
    }
}

/// The difference between two graphs.
#[derive(Clone, Debug, Default)]
pub struct GraphDiff {
    /// Fields of the step and its context that differ.
    pub params: Vec<(&'static str, String, String)>,
    /// Nodes, each with the layer it belongs to, in the order of execution.
    pub nodes: Vec<(Option<usize>, Change)>,
    /// Nodes that both graphs have and that are equal.
    pub n_equal: usize,
    /// What is said of fusion candidates, splits and memory on one side only: `- ` or `+ ` and the line.
    pub rest: Vec<String>,
}

/// The first and the last of the layers, if it is about layers, and what is said of each.
type LayerLines = (Option<(usize, usize)>, Vec<String>);

impl GraphDiff {
    /// Whether nothing differs.
    pub fn is_empty(&self) -> bool {
        self.params.is_empty() && self.nodes.is_empty() && self.rest.is_empty()
    }

    /// Lines that start with `-`, `+` or `~`, and a summary.
    pub fn text(&self) -> String {
        let mut text = String::new();
        for (key, a, b) in &self.params {
            let _ = writeln!(text, "~ params {key}: {a} -> {b}");
        }
        for (layers, lines) in self.by_layer() {
            if let Some((first, last)) = layers {
                let _ = match first == last {
                    true => writeln!(text, "layer {first}"),
                    false => writeln!(text, "layers {first}..={last}, each"),
                };
            }
            lines.iter().for_each(|line| {
                let _ = writeln!(text, "{line}");
            });
        }
        for line in collapsed(&self.rest) {
            let _ = writeln!(text, "{line}");
        }
        let count = |f: fn(&Change) -> bool| self.nodes.iter().filter(|(_, c)| f(c)).count();
        let _ = writeln!(
            text,
            "{} nodes equal, {} changed, {} only in a, {} only in b",
            self.n_equal,
            count(|c| matches!(c, Change::Changed { .. })),
            count(|c| matches!(c, Change::OnlyA { .. })),
            count(|c| matches!(c, Change::OnlyB { .. })),
        );
        text
    }

    /// Lines by runs of layers that differ in the same way; what belongs to no layer stands alone.
    fn by_layer(&self) -> Vec<LayerLines> {
        let mut groups: Vec<LayerLines> = Vec::new();
        let mut rest = self.nodes.as_slice();
        while let Some((layer, _)) = rest.first() {
            let n = rest.iter().take_while(|(l, _)| l == layer).count();
            let lines: Vec<_> = rest[..n].iter().map(|(_, c)| without_layer(&c.line(), *layer)).collect();
            rest = &rest[n..];
            match (layer, groups.last_mut()) {
                (Some(l), Some((Some((_, last)), same))) if *last + 1 == *l && *same == lines => *last = *l,
                _ => groups.push((layer.map(|l| (l, l)), lines)),
            }
        }
        groups
    }
}

/// `3.q` as `*.q`, `blk.3.` as `blk.*.`, `layer=3` as `layer=*`; `3.125` is a number and stays.
fn without_layer(line: &str, layer: Option<usize>) -> String {
    let Some(layer) = layer else { return line.into() };
    let mut line = line.replace(&format!("blk.{layer}."), "blk.*.");
    for before in [" ", "=", ","] {
        line = without_name_prefix(&line, &format!("{before}{layer}."), before);
    }
    line.replace(&format!("layer={layer} "), "layer=* ").replace(&format!("layer={layer}}}"), "layer=*}")
}

/// `prefix`, where a name and no digit follows, as `before` and `*.`.
fn without_name_prefix(line: &str, prefix: &str, before: &str) -> String {
    let mut parts = line.split(prefix);
    let mut out = parts.next().unwrap_or_default().to_owned();
    for part in parts {
        match part.starts_with(|c: char| c.is_ascii_digit()) {
            true => out.push_str(prefix),
            false => out.extend([before, "*."]),
        }
        out.push_str(part);
    }
    out
}

/// Lines that differ in the layer only, as one with their number.
fn collapsed(lines: &[String]) -> Vec<String> {
    let mut seen: Vec<(String, usize, &String)> = Vec::new();
    for line in lines {
        let key = match line.split_once(" at ").and_then(|(_, at)| at.split('.').next()?.parse().ok()) {
            Some(layer) => without_layer(line, Some(layer)),
            None => line.clone(),
        };
        match seen.iter_mut().find(|(k, _, _)| *k == key) {
            Some((_, n, _)) => *n += 1,
            None => seen.push((key, 1, line)),
        }
    }
    seen.into_iter()
        .map(|(key, n, line)| if n == 1 { line.clone() } else { format!("{key} (x{n})") })
        .collect()
}

/// Compares two graphs.
pub fn diff(a: &View<'_>, b: &View<'_>) -> GraphDiff {
    let b_nodes: HashMap<&str, &Node> = b.graph().nodes.iter().map(|n| (&*n.name, n)).collect();
    let a_names: HashSet<&str> = a.graph().nodes.iter().map(|n| &*n.name).collect();
    let mut diff = GraphDiff { params: changed(&fields::step(a), &fields::step(b)), ..Default::default() };
    // Nodes of `b` alone stand behind the last node before them that both have.
    let mut b_rest = b.graph().nodes.iter().peekable();
    for node in &a.graph().nodes {
        match b_nodes.get(&*node.name) {
            None => diff.nodes.push((node.layer, only_a(a, node))),
            Some(other) => {
                while let Some(extra) = b_rest.next_if(|n| n.id < other.id) {
                    if !a_names.contains(&*extra.name) {
                        diff.nodes.push((extra.layer, only_b(b, extra)));
                    }
                }
                let fields = changed(&fields::node(a, node), &fields::node(b, other));
                match fields.is_empty() {
                    true => diff.n_equal += 1,
                    false => diff
                        .nodes
                        .push((node.layer, Change::Changed { node: fields::one_word(&node.name), fields })),
                }
            }
        }
    }
    for extra in b_rest.filter(|n| !a_names.contains(&*n.name)) {
        diff.nodes.push((extra.layer, only_b(b, extra)));
    }
    diff.rest = rest(a, b);
    diff
}

fn only_a(view: &View<'_>, node: &Node) -> Change {
    Change::OnlyA { node: fields::one_word(&node.name), fields: joined(&fields::node(view, node)) }
}

fn only_b(view: &View<'_>, node: &Node) -> Change {
    Change::OnlyB { node: fields::one_word(&node.name), fields: joined(&fields::node(view, node)) }
}

/// Fields that are not the same on both sides; a field may stand several times, as weights do.
fn changed(a: &[Field], b: &[Field]) -> Vec<(&'static str, String, String)> {
    let (a, b) = (grouped(a), grouped(b));
    let only_b = b.iter().filter(|(key, _)| a.iter().all(|f| f.0 != *key));
    let keys: Vec<_> = a.iter().chain(only_b).map(|(key, _)| *key).collect();
    let side = |fields: &[(&'static str, String)], key| {
        fields.iter().find(|f| f.0 == key).map_or_else(|| "none".to_owned(), |f| f.1.clone())
    };
    let sides = keys.into_iter().map(|key| (key, side(&a, key), side(&b, key)));
    sides.filter(|(_, a, b)| a != b).collect()
}

/// Each field once, its values joined.
fn grouped(fields: &[Field]) -> Vec<Field> {
    let mut groups: Vec<Field> = Vec::new();
    for (key, value) in fields {
        match groups.iter_mut().find(|g| g.0 == *key) {
            Some(group) => group.1.extend([" ", value]),
            None => groups.push((key, value.clone())),
        }
    }
    groups
}

/// Lines of the text behind the nodes that only one side has.
fn rest(a: &View<'_>, b: &View<'_>) -> Vec<String> {
    let tail = |view: &View<'_>| -> Vec<String> {
        let text = super::text(view);
        text.lines().skip(2 + view.graph().nodes.len()).map(Into::into).collect()
    };
    let (a, b) = (tail(a), tail(b));
    let missing = |from: &[String], other: &[String], mark: &str| -> Vec<String> {
        from.iter().filter(|line| !other.contains(line)).map(|line| format!("{mark} {line}")).collect()
    };
    [missing(&a, &b, "-"), missing(&b, &a, "+")].concat()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_layer_is_left_out_of_names_and_numbers_stay_whole() {
        let line = "~ 0.attn Attn src=0.q,0.k w=blk.0.x layer=0 scale=0.125 eps=0.00001 [0.5,0.25]: 0 -> 0.q";
        let want = "~ *.attn Attn src=*.q,*.k w=blk.*.x layer=* scale=0.125 eps=0.00001 [0.5,0.25]: 0 -> *.q";
        assert_eq!(without_layer(line, Some(0)), want);
        assert_eq!(without_layer(line, Some(1)), line);
        assert_eq!(without_layer("+ 1.q 11.q 1.1.q", Some(1)), "+ *.q 11.q 1.1.q");
    }

    #[test]
    fn layers_that_differ_in_the_same_way_are_one_group() {
        let change = |layer: usize| Change::OnlyA {
            node: format!("{layer}.attn"),
            fields: format!("Attn layer={layer} scale=0.125"),
        };
        let nodes = (0..3).map(|layer| (Some(layer), change(layer))).collect();
        let text = GraphDiff { nodes, ..GraphDiff::default() }.text();
        assert!(
            text.starts_with("layers 0..=2, each\n- *.attn Attn layer=* scale=0.125\n0 nodes equal"),
            "{text}"
        );
    }
}
