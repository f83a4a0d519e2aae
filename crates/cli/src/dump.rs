//! `--dump-graph` and `--dump-graph-json`: a graph with every decision made, without a weight being read.

use std::io::{BufWriter, Write};
use std::path::Path;

use minfer_engine::{Context, EngineError};
use minfer_gguf::create_atomically;
use minfer_graph::export::{self, View};
use minfer_graph::{Compiled, GraphParams, GraphType, StepError, compile};

use crate::args::{DumpArgs, DumpStep};
use crate::error::CliError;
use crate::files;

/// Writes what is asked for; `n_ubatch` is the size of a chunk of a prompt.
pub(crate) fn write(context: &Context, n_ubatch: usize, args: &DumpArgs) -> anyhow::Result<()> {
    if !args.is_wanted() {
        return Ok(());
    }
    for (path, role) in [(&args.dump_graph, "the graph as DOT"), (&args.dump_graph_json, "the graph as JSON")]
    {
        path.as_deref().map_or(Ok(()), |path| files::writes(path, role))?;
    }
    let compiled = compiled(context, &params(context, n_ubatch, args.dump_graph_step))?;
    if let Some(path) = &args.dump_graph {
        write_text(path, &export::dot(&View::planned(&compiled)))?;
    }
    if let Some(path) = &args.dump_graph_json {
        write_text(path, &format!("{:#}\n", export::json(&View::planned(&compiled))))?;
    }
    Ok(())
}

fn params(context: &Context, n_ubatch: usize, step: DumpStep) -> GraphParams {
    match step {
        DumpStep::Decode => context.params(1, 1, GraphType::Decode),
        DumpStep::Prefill => context.params(n_ubatch.min(context.n_ctx()), 1, GraphType::Prefill),
    }
}

/// The passes that a step of these params goes through before it is prepared.
fn compiled(context: &Context, params: &GraphParams) -> anyhow::Result<Compiled> {
    let registry = context.scheduler().registry();
    let compiled = compile(context.model().description(), params, registry, &mut |_, _| {});
    Ok(compiled.map_err(|error| EngineError::from(StepError::from(error)))?)
}

fn write_text(path: &Path, text: &str) -> Result<(), CliError> {
    let fill = |file: &mut BufWriter<_>| file.write_all(text.as_bytes());
    create_atomically(path, fill).map_err(CliError::write_file(path))
}
