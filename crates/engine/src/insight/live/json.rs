//! Events and values of a run as JSON.

use serde_json::{Value, json};

use super::{Choice, LiveEvent, NodeReport, NodeValues, StepKind, StepReport, StepStart, Stopped, TopToken};
use crate::json;

impl LiveEvent {
    /// The name of the event.
    pub fn name(&self) -> &'static str {
        match self {
            LiveEvent::Step(_) => "step",
            LiveEvent::Nodes(_) => "nodes",
            LiveEvent::Done(_) => "done",
        }
    }

    /// What it says. Times are in microseconds.
    pub fn to_json(&self) -> Value {
        match self {
            LiveEvent::Step(start) => step(start),
            LiveEvent::Nodes(nodes) => json!({ "nodes": nodes.iter().map(node).collect::<Vec<_>>() }),
            LiveEvent::Done(report) => done(report),
        }
    }
}

fn step(start: &StepStart) -> Value {
    let StepStart { step, kind, n_tokens, n_out, first } = start;
    let kind = match kind {
        StepKind::Prefill => "prefill",
        StepKind::Decode => "decode",
    };
    json!({ "step": step, "kind": kind, "n_tokens": n_tokens, "n_out": n_out, "first": first })
}

fn node(node: &NodeReport) -> Value {
    let us = node.time.as_secs_f64() * 1e6;
    json!({ "name": &*node.name, "us": json::f32(us as f32), "stats": node.stats.map(|s| s.to_json()) })
}

fn done(report: &StepReport) -> Value {
    let StepReport { step, time, top, choice, kv, stopped } = report;
    json!({
        "step": step,
        "us": json::f32((time.as_secs_f64() * 1e6) as f32),
        "top": top.iter().map(token).collect::<Vec<_>>(),
        "choice": choice.as_ref().map(|Choice { id, text, adds }| json!({ "id": id, "text": text, "adds": adds })),
        "kv": {
            "n_tokens": kv.n_tokens, "n_ctx": kv.n_ctx, "n_blocks": kv.n_blocks, "n_blocks_max": kv.n_blocks_max,
        },
        "stopped": stopped.map(|s| match s {
            Stopped::Length => "length",
            Stopped::EndOfText => "end of text",
        }),
    })
}

fn token(token: &TopToken) -> Value {
    let TopToken { id, text, logit, p } = token;
    json!({ "id": id, "text": text, "logit": json::f32(*logit), "p": json::f32(*p as f32) })
}

impl NodeValues {
    /// As JSON.
    pub fn to_json(&self) -> Value {
        json!({
            "shape": self.shape,
            "stats": self.stats.to_json(),
            "histogram": self.histogram.counts,
            "heat": self.heat.to_json(),
        })
    }
}
