//! JSON with a versioned schema: parameters, nodes with every decision, splits, memory, fusion records.

use serde_json::{Value, json};

use crate::assign::Reason;
use crate::compile::Compiled;
use crate::graph::Node;

/// Raised when a field changes its meaning or goes away; new fields do not raise it.
pub const JSON_SCHEMA_VERSION: u32 = 1;

/// The graph as a JSON document.
pub fn json(compiled: &Compiled) -> Value {
    let p = &compiled.params;
    let c = &p.cparams;
    json!({
        "schema": "minfer.graph",
        "version": JSON_SCHEMA_VERSION,
        "params": {
            "n_tokens": p.n_tokens,
            "n_out": p.n_out,
            "type": format!("{:?}", p.gtype).to_lowercase(),
            "n_ctx": c.n_ctx,
            "n_seq_max": c.n_seq_max,
            "kv_block": c.kv_block,
            "n_kv_blocks": c.n_kv_blocks,
            "kv_type": c.kv_type.tensor_type().name(),
            "backends": c.backends.iter().map(|b| b.name()).collect::<Vec<_>>(),
            "gpu": c.gpu.map(|g| json!({
                "backend": g.backend.name(), "n_layers": g.n_layers, "outside_layers": g.outside_layers,
            })),
            "fuse_qkv": c.fuse_qkv,
            "fuse_ffn": c.fuse_ffn,
            "weights_version": p.weights_version,
        },
        "nodes": compiled.graph.nodes.iter().map(|n| node(compiled, n)).collect::<Vec<_>>(),
        "inputs": compiled.graph.inputs.iter().map(|i| i.0).collect::<Vec<_>>(),
        "outputs": compiled.graph.outputs.iter().map(|i| i.0).collect::<Vec<_>>(),
        "splits": compiled.splits.iter().map(|s| json!({
            "backend": s.backend.name(),
            "nodes": s.nodes.iter().map(|i| i.0).collect::<Vec<_>>(),
            "copies": s.copies.iter().map(|i| i.0).collect::<Vec<_>>(),
        })).collect::<Vec<_>>(),
        "buffers": compiled.plan.buffers().iter().map(|b| json!({
            "backend": b.backend.name(), "bytes": b.bytes, "ordinal": b.ordinal,
        })).collect::<Vec<_>>(),
        "fusions": compiled.fusions.iter().map(|f| json!({
            "rule": f.rule, "node": f.node.0, "refused": f.refused,
        })).collect::<Vec<_>>(),
    })
}

fn node(compiled: &Compiled, n: &Node) -> Value {
    let buffer = n
        .backend
        .and_then(|b| compiled.plan.buffer(n.id, b))
        .map(|(key, offset)| json!({ "bytes": key.bytes, "ordinal": key.ordinal, "offset": offset }));
    json!({
        "id": n.id.0,
        "name": &*n.name,
        "op": n.op.kind().name(),
        "payload": format!("{:?}", n.op),
        "src": n.src.iter().map(|s| s.0).collect::<Vec<_>>(),
        "shape": n.out_shape,
        "dtype": n.out_dtype.name(),
        "layer": n.layer,
        "backend": n.backend.map(|b| b.name()),
        "reason": compiled.reasons.get(n.id.index()).map(reason),
        "live": compiled.live[n.id.index()],
        "buffer": buffer,
        "weights": n.meta.weights.iter().map(|w| json!({
            "name": &*w.name, "type": w.dtype.name(), "shape": w.shape,
        })).collect::<Vec<_>>(),
    })
}

fn reason(reason: &Reason) -> String {
    match reason {
        Reason::Explicit => "explicit".into(),
        Reason::FollowsSource => "follows its source".into(),
        Reason::Chosen(refusals) if refusals.is_empty() => "first in priority order".into(),
        Reason::Chosen(refusals) => {
            let refusals: Vec<_> = refusals.iter().map(|(b, r)| format!("{}: {r}", b.name())).collect();
            format!("refused by {}", refusals.join("; "))
        }
    }
}
