//! `minfer graph`: the graph of a step at any stage, and the difference between two.

use std::io::Write;
use std::sync::Arc;

use minfer_engine::Model;
use minfer_engine::insight::{self, StepSize};
use minfer_engine::settings::Settings;
use minfer_graph::export::{self, Change, GraphDiff, Snapshot};
use serde_json::{Value, json};

use crate::args::{GraphArgs, GraphFormat, OpenArgs};
use crate::engine;
use crate::error::CliError;
use crate::shell::Shell;

pub(super) fn run(args: &GraphArgs, shell: &mut Shell) -> anyhow::Result<()> {
    let name = args.set.model.as_deref().map_or_else(|| args.model.name(), Ok)?;
    let model = engine::load(name, &args.model.open)?;
    let graph = snapshot(&model, args, &args.set, shell)?;
    let Some(other) = &args.diff else {
        return write(&graph, args.format, shell);
    };
    if args.format == GraphFormat::Dot {
        return Err(CliError::NoDotDiff.into());
    }
    let second = other_model(&model, other, &args.model.open)?;
    // What was set for both sides holds for the second one, too, unless it says otherwise.
    let both = other.clone().or(&args.set);
    let other_graph = snapshot(&second, args, &both, shell)?;
    let diff = export::diff(&graph.view(), &other_graph.view());
    shell.exit_code = u8::from(!diff.is_empty());
    match args.format {
        GraphFormat::Json => shell.out.json(&diff_json(&diff)),
        GraphFormat::Text | GraphFormat::Dot => Ok(write!(shell.out, "{}", diff.text())?),
    }
}

fn other_model(model: &Arc<Model>, other: &Settings, open: &OpenArgs) -> anyhow::Result<Arc<Model>> {
    other.model.as_deref().map_or_else(|| Ok(model.clone()), |name| engine::load(name, open))
}

/// The graph that a run with these settings would make for a step of this size.
fn snapshot(
    model: &Arc<Model>,
    args: &GraphArgs,
    settings: &Settings,
    shell: &Shell,
) -> anyhow::Result<Snapshot> {
    let n_sequences = settings.n_sequences.unwrap_or(args.sequences);
    let size =
        StepSize::new(n_sequences, settings.n_tokens.or(args.tokens), settings.n_out.or(args.out_rows))
            .map_err(CliError::from)?;
    let params = settings.apply(engine::default_params(model, shell));
    let stage = settings.stage.unwrap_or(args.stage.into());
    Ok(insight::snapshot(model, &params, size, stage)?)
}

fn write(graph: &Snapshot, format: GraphFormat, shell: &mut Shell) -> anyhow::Result<()> {
    match format {
        GraphFormat::Text => Ok(write!(shell.out, "{}", export::text(&graph.view()))?),
        GraphFormat::Dot => Ok(write!(shell.out, "{}", export::dot(&graph.view()))?),
        GraphFormat::Json => shell.out.json(&export::json(&graph.view())),
    }
}

fn diff_json(diff: &GraphDiff) -> Value {
    let fields = |fields: &[(&'static str, String, String)]| -> Vec<Value> {
        fields.iter().map(|(key, a, b)| json!({ "field": key, "a": a, "b": b })).collect()
    };
    let node = |(layer, change): &(Option<usize>, Change)| match change {
        Change::OnlyA { node, fields } => json!({ "node": node, "layer": layer, "only": "a", "is": fields }),
        Change::OnlyB { node, fields } => json!({ "node": node, "layer": layer, "only": "b", "is": fields }),
        Change::Changed { node, fields: changed } => {
            json!({ "node": node, "layer": layer, "changed": fields(changed) })
        }
    };
    json!({
        "schema": "minfer.graph-diff",
        "version": 1,
        "equal": diff.is_empty(),
        "params": fields(&diff.params),
        "nodes": diff.nodes.iter().map(node).collect::<Vec<_>>(),
        "n_equal": diff.n_equal,
        "rest": diff.rest,
    })
}
