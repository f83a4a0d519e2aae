//! The graph as text: one node a line, made to be compared with `diff` and searched with `grep`.
//!
//! The form is stable: fields keep their names and order, and a change of the form raises [`TEXT_VERSION`].

use std::fmt::Write;

use crate::fuse::FusionRecord;

use super::fields::{self, joined};
use super::view::View;

/// Raised when a field changes its name, meaning or place.
pub const TEXT_VERSION: u32 = 1;

/// The step, then every node, then what became of fusion candidates, then splits and memory.
pub fn text(view: &View<'_>) -> String {
    let mut text = format!("graph version={TEXT_VERSION} stage={}\n", view.stage().name());
    let _ = writeln!(text, "params {}", joined(&fields::step(view)));
    for node in &view.graph().nodes {
        let name = fields::one_word(&node.name);
        let _ = writeln!(text, "{} {name} {}", node.id.0, joined(&fields::node(view, node)));
    }
    let outputs: Vec<_> = view.graph().outputs.iter().map(|id| fields::name(view, *id)).collect();
    let _ = writeln!(text, "outputs {}", if outputs.is_empty() { "none".into() } else { outputs.join(",") });
    for record in view.fusions() {
        let _ = writeln!(text, "{}", fusion(view, record));
    }
    memory(view, &mut text);
    text
}

/// `fusion swiglu at 0.ffn_inner: taken`.
fn fusion(view: &View<'_>, record: &FusionRecord) -> String {
    let at = fields::name(view, record.node);
    match record.refused {
        None => format!("fusion {} at {at}: taken", record.rule),
        Some(reason) => format!("fusion {} at {at}: refused, {reason}", record.rule),
    }
}

fn memory(view: &View<'_>, text: &mut String) {
    for (i, split) in view.splits().iter().enumerate() {
        let (first, last) = (split.nodes[0], split.nodes[split.nodes.len() - 1]);
        let (first, last) = (fields::name(view, first), fields::name(view, last));
        let copies: Vec<_> = split.copies.iter().map(|id| fields::name(view, *id)).collect();
        let (backend, n) = (split.backend.name(), split.nodes.len());
        let _ = write!(text, "split {i} backend={backend} nodes={n} first={first} last={last}");
        let _ = match copies.is_empty() {
            true => writeln!(text),
            false => writeln!(text, " copies={}", copies.join(",")),
        };
    }
    let buffers = view.buffers();
    for backend in view.params().cparams.backends.iter() {
        let n = buffers.iter().filter(|b| b.backend == backend).count();
        if n > 0 {
            let _ =
                writeln!(text, "memory backend={} buffers={n} bytes={}", backend.name(), view.bytes(backend));
        }
    }
}
