//! What `MINFER_GRAPH_TRACE=1` prints: the split map and the census of ops.

use std::collections::BTreeMap;
use std::fmt::Write;

use crate::backend::Backend;
use crate::compile::Compiled;
use crate::op::OpKind;

/// One line a split: `split 0 backend CPU nodes 12..=310 (281 run) copies in 0`.
pub fn split_map(compiled: &Compiled) -> String {
    let p = &compiled.params;
    let mut text = String::new();
    let _ = writeln!(
        text,
        "graph {} {:?} n_tokens {} n_out {} nodes {} live {}",
        compiled.graph.uid,
        p.gtype,
        p.n_tokens,
        p.n_out,
        compiled.graph.nodes.len(),
        compiled.live.iter().filter(|l| **l).count(),
    );
    for (i, split) in compiled.splits.iter().enumerate() {
        let (first, last) = (split.nodes[0], split.nodes[split.nodes.len() - 1]);
        let _ = writeln!(
            text,
            "split {i} backend {} nodes {}..={} ({} run) copies in {}",
            split.backend,
            first.0,
            last.0,
            split.nodes.len(),
            split.copies.len(),
        );
    }
    for backend in p.cparams.backends.iter() {
        let bytes = compiled.plan.bytes(backend);
        if bytes > 0 {
            let _ = writeln!(
                text,
                "memory backend {backend} {bytes} bytes in {} buffers",
                buffers(compiled, backend)
            );
        }
    }
    text
}

fn buffers(compiled: &Compiled, backend: Backend) -> usize {
    compiled.plan.buffers().iter().filter(|b| b.backend == backend).count()
}

/// One line for each op and backend, `op SwiGLU backend CPU x24`, then the nodes run in each layer.
pub fn census(compiled: &Compiled) -> String {
    let mut ops: BTreeMap<(OpKind, Backend), usize> = BTreeMap::new();
    let mut layers: BTreeMap<usize, usize> = BTreeMap::new();
    for id in compiled.splits.iter().flat_map(|s| &s.nodes) {
        let node = compiled.graph.node(*id);
        let Some(backend) = node.backend else { continue };
        *ops.entry((node.op.kind(), backend)).or_default() += 1;
        if let Some(layer) = node.layer {
            *layers.entry(layer).or_default() += 1;
        }
    }
    let mut text = String::new();
    for ((op, backend), count) in ops {
        let _ = writeln!(text, "op {} backend {backend} x{count}", op.name());
    }
    for (first, last, count) in runs(layers) {
        let _ = match first == last {
            true => writeln!(text, "layer {first}: {count} nodes run"),
            false => writeln!(text, "layers {first}..={last}: {count} nodes run in each"),
        };
    }
    text
}

/// Neighbouring layers with equal counts, together.
fn runs(layers: BTreeMap<usize, usize>) -> Vec<(usize, usize, usize)> {
    let mut runs: Vec<(usize, usize, usize)> = Vec::new();
    for (layer, count) in layers {
        match runs.last_mut() {
            Some((_, last, c)) if *c == count && *last + 1 == layer => *last = layer,
            _ => runs.push((layer, layer, count)),
        }
    }
    runs
}
