//! What there is to say of a step and of a node, as fields: text prints them, the difference compares them.

use crate::graph::{Node, NodeId};
use crate::params::{CParams, GpuOffload, GraphParams, GraphType};

use super::payload::op_text;
use super::view::View;

/// A name and what it holds.
pub(super) type Field = (&'static str, String);

/// The size of the step and the settings of its context.
pub(super) fn step(view: &View<'_>) -> Vec<Field> {
    let GraphParams { n_tokens, n_out, head, gtype, cparams, weights_version: _ } = view.params();
    let CParams { n_ctx, n_seq_max, kv_block, n_kv_blocks, kv_type, backends, gpu, fuse_qkv, fuse_ffn } =
        cparams;
    let step = match gtype {
        GraphType::Prefill => "prefill",
        GraphType::Decode => "decode",
    };
    let backends: Vec<_> = backends.iter().map(|b| b.name()).collect();
    vec![
        ("step", step.into()),
        ("n_tokens", n_tokens.to_string()),
        ("n_seq_max", n_seq_max.to_string()),
        ("n_out", n_out.to_string()),
        ("head", head.name().into()),
        ("n_ctx", n_ctx.to_string()),
        ("kv_block", kv_block.to_string()),
        ("n_kv_blocks", n_kv_blocks.to_string()),
        ("kv_type", kv_type.dtype().name().into()),
        ("backends", backends.join("+")),
        ("gpu", gpu.as_ref().map_or("none".into(), offload)),
        ("fuse_qkv", fuse_qkv.to_string()),
        ("fuse_ffn", fuse_ffn.to_string()),
    ]
}

fn offload(gpu: &GpuOffload) -> String {
    let outside = if gpu.outside_layers { "+outside" } else { "" };
    format!("{}:{}{outside}", gpu.backend.name(), gpu.n_layers)
}

/// A node without its id and name. Sources are names, so that a node more or less changes no line but its own.
pub(super) fn node(view: &View<'_>, node: &Node) -> Vec<Field> {
    let mut fields = vec![("op", op_text(&node.op))];
    if !node.src.is_empty() {
        fields.push(("src", node.src.iter().map(|s| name(view, *s)).collect::<Vec<_>>().join(",")));
    }
    fields.push(("shape", shape(&node.out_shape)));
    fields.push(("dtype", node.out_dtype.name().into()));
    for w in &node.meta.weights {
        fields.push(("weight", format!("{}:{}:{}", one_word(&w.name), w.dtype.name(), shape(&w.shape))));
    }
    if let Some(backend) = node.backend {
        fields.push(("backend", backend.name().into()));
    }
    if let Some((buffer, offset)) = view.buffer(node) {
        fields.push(("buffer", format!("{}#{}+{offset}", buffer.bytes, buffer.ordinal)));
    }
    if let Some(source) = view.alias(node) {
        fields.push(("alias", one_word(&source.name)));
    }
    if view.is_live(node) == Some(false) {
        fields.push(("orphan", "true".into()));
    }
    if let Some(reason) = view.reason(node.id) {
        fields.push(("why", format!("\"{reason}\"")));
    }
    fields
}

/// The name of a node, on one line and without blanks.
pub(super) fn name(view: &View<'_>, id: NodeId) -> String {
    one_word(&view.graph().node(id).name)
}

/// Extents without the unused ones behind: `64x5`.
pub(super) fn shape(shape: &[usize; 4]) -> String {
    let used = shape.iter().rposition(|d| *d != 1).map_or(1, |last| last + 1);
    shape[..used].iter().map(usize::to_string).collect::<Vec<_>>().join("x")
}

/// Names come from a model file: what would break a line or a column is replaced.
pub(super) fn one_word(name: &str) -> String {
    name.chars().map(|c| if c.is_whitespace() || c.is_control() { '?' } else { c }).collect()
}

/// `key=value key=value`.
pub(super) fn joined(fields: &[Field]) -> String {
    fields.iter().map(|(key, value)| format!("{key}={value}")).collect::<Vec<_>>().join(" ")
}
