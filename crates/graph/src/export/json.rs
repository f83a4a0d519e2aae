//! JSON with a versioned schema: parameters, nodes with every decision made so far, splits, memory, fusion records.
//!
//! `docs/schemas/graph.schema.json` describes it, and a test holds the two together.

use serde_json::{Map, Value, json};

use crate::graph::Node;

use super::payload::payload;
use super::view::View;

/// Raised when a field changes its meaning or goes away; new fields do not raise it.
pub const JSON_SCHEMA_VERSION: u32 = 1;

/// The graph as a JSON document.
pub fn json(view: &View<'_>) -> Value {
    let graph = view.graph();
    json!({
        "schema": "minfer.graph",
        "version": JSON_SCHEMA_VERSION,
        "stage": view.stage().name(),
        "params": params(view),
        "nodes": graph.nodes.iter().map(|n| node(view, n)).collect::<Vec<_>>(),
        "inputs": graph.inputs.iter().map(|i| i.0).collect::<Vec<_>>(),
        "outputs": graph.outputs.iter().map(|i| i.0).collect::<Vec<_>>(),
        "splits": view.splits().iter().map(|s| json!({
            "backend": s.backend.name(),
            "nodes": s.nodes.iter().map(|i| i.0).collect::<Vec<_>>(),
            "copies": s.copies.iter().map(|i| i.0).collect::<Vec<_>>(),
        })).collect::<Vec<_>>(),
        "buffers": view.buffers().iter().map(|b| json!({
            "backend": b.backend.name(), "bytes": b.bytes, "ordinal": b.ordinal,
        })).collect::<Vec<_>>(),
        "fusions": view.fusions().iter().map(|f| json!({
            "rule": f.rule, "node": f.node.0, "refused": f.refused,
        })).collect::<Vec<_>>(),
    })
}

fn params(view: &View<'_>) -> Value {
    let p = view.params();
    let c = &p.cparams;
    json!({
        "n_tokens": p.n_tokens,
        "n_out": p.n_out,
        "head": p.head.name(),
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
    })
}

fn node(view: &View<'_>, n: &Node) -> Value {
    let buffer = view
        .buffer(n)
        .map(|(key, offset)| json!({ "bytes": key.bytes, "ordinal": key.ordinal, "offset": offset }));
    let attributes: Map<_, _> =
        payload(&n.op).into_iter().map(|(name, value)| (name.to_owned(), Value::String(value))).collect();
    json!({
        "id": n.id.0,
        "name": &*n.name,
        "op": n.op.kind().name(),
        "attributes": attributes,
        "payload": format!("{:?}", n.op),
        "src": n.src.iter().map(|s| s.0).collect::<Vec<_>>(),
        "shape": n.out_shape,
        "dtype": n.out_dtype.name(),
        "layer": n.layer,
        "backend": n.backend.map(|b| b.name()),
        "reason": view.reason(n.id).map(ToString::to_string),
        "live": view.is_live(n),
        "buffer": buffer,
        "alias": view.alias(n).map(|source| source.id.0),
        "weights": n.meta.weights.iter().map(|w| json!({
            "name": &*w.name, "type": w.dtype.name(), "shape": w.shape,
        })).collect::<Vec<_>>(),
    })
}
