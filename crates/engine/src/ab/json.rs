//! A report as JSON.

use serde_json::{Value, json};

use super::{AbReport, Difference, NodeDifference, NodeOn, NodeVerdict, Part, Worst};
use crate::json as number;
use crate::settings::Settings;

impl AbReport {
    /// As JSON; `a` and `b` are what each side was set to.
    pub fn to_json(&self, a: &Settings, b: &Settings) -> Value {
        let nodes = |nodes: &[NodeOn]| nodes.iter().map(node_on).collect::<Vec<_>>();
        json!({
            "schema": "minfer.ab",
            "version": 1,
            "a": a.to_string(),
            "b": b.to_string(),
            "identical": self.is_identical(),
            "tokens": self.tokens,
            "n_prompt": self.n_prompt,
            "n_values": self.n_values,
            "n_elems": self.n_elems,
            "n_differing": self.n_differing,
            "n_misfits": self.n_misfits,
            "nodes": self.nodes.iter().map(verdict).collect::<Vec<_>>(),
            "only_a": nodes(&self.only_a),
            "only_b": nodes(&self.only_b),
            "first": self.first.as_ref().map(node),
            "growth": self.growth.iter().map(node).collect::<Vec<_>>(),
            "choices": self.choices.iter().map(|c| json!({
                "position": c.position, "a": c.a, "b": c.b,
            })).collect::<Vec<_>>(),
        })
    }
}

fn verdict(n: &NodeVerdict) -> Value {
    json!({ "a": n.a, "b": n.b, "n_values": n.n_values, "n_differing": n.n_differing })
}

fn node_on(n: &NodeOn) -> Value {
    json!({ "name": n.name, "op": n.op, "backend": n.backend.name() })
}

fn node(n: &NodeDifference) -> Value {
    let Difference { n_elems, n_differing, absolute, relative, ulps } = &n.difference;
    let worst = |w: &Worst| {
        json!({
            "size": number::f64(w.size), "token": w.token, "index": w.index,
            "a": number::f32(w.a), "b": number::f32(w.b),
        })
    };
    json!({
        "a": node_on(&n.node.a),
        "b": node_on(&n.node.b),
        "part": n.node.part.as_ref().map(|part| match part {
            Part::Weight(name) => name.clone(),
            Part::Cached(_) => part.to_string(),
        }),
        "n_tokens": n.n_tokens,
        "n_tokens_differing": n.n_tokens_differing,
        "n_elems": n_elems,
        "n_elems_differing": n_differing,
        "absolute": worst(absolute),
        "relative": worst(relative),
        "ulps": worst(ulps),
    })
}
