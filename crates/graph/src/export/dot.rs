//! Graphviz: one box a node, grouped by layer, coloured by backend; orphans are dashed.

use std::fmt::Write;

use crate::backend::Backend;
use crate::graph::Node;

use super::view::View;

/// The graph in the DOT language.
pub fn dot(view: &View<'_>) -> String {
    let graph = view.graph();
    let mut text = String::from(
        "digraph minfer {\n  rankdir=TB;\n  node [shape=box, style=filled, fontname=\"monospace\"];\n",
    );
    let n_layers = graph.nodes.iter().filter_map(|n| n.layer).max().map_or(0, |l| l + 1);
    for layer in 0..n_layers {
        let _ = writeln!(text, "  subgraph cluster_{layer} {{\n    label=\"layer {layer}\";");
        for node in graph.nodes.iter().filter(|n| n.layer == Some(layer)) {
            write_node(&mut text, view, node);
        }
        text.push_str("  }\n");
    }
    for node in graph.nodes.iter().filter(|n| n.layer.is_none()) {
        write_node(&mut text, view, node);
    }
    for node in &graph.nodes {
        for src in &node.src {
            let _ = writeln!(text, "  n{} -> n{};", src.0, node.id.0);
        }
    }
    text.push_str("}\n");
    text
}

fn write_node(text: &mut String, view: &View<'_>, node: &Node) {
    let mut label =
        format!("{} {}\\n{} {:?}", node.id.0, escape(&node.name), node.op.kind().name(), node.out_shape);
    for w in &node.meta.weights {
        let _ = write!(label, "\\n{} {}", escape(&w.name), w.dtype);
    }
    let style = if view.is_live(node) == Some(false) { "dashed" } else { "filled" };
    let _ = writeln!(
        text,
        "    n{} [label=\"{label}\", style={style}, fillcolor={}];",
        node.id.0,
        colour(node.backend)
    );
}

fn colour(backend: Option<Backend>) -> &'static str {
    match backend {
        Some(Backend::CPU) => "lightblue",
        Some(Backend::METAL) => "lightgrey",
        Some(Backend::CUDA) => "palegreen",
        Some(_) => "salmon",
        None => "white",
    }
}

/// Names come from a model file, so quotes and backslashes must not end the label.
fn escape(name: &str) -> String {
    let mut out = String::with_capacity(name.len());
    for c in name.chars() {
        match c {
            '"' | '\\' => out.extend(['\\', c]),
            c if c.is_control() => out.push('?'),
            c => out.push(c),
        }
    }
    out
}
