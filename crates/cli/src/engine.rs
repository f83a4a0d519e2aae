//! From a name and flags to a model that runs: the one place where flags, variables and defaults meet.

use std::path::Path;
use std::sync::Arc;

use minfer_engine::{Context, ContextParams, Model, TraceSettings};
use minfer_gguf::create_atomically;
use minfer_graph::{Compiled, GraphType, export};

use crate::args::{ComputeArgs, ContextArgs, OpenArgs};
use crate::error::CliError;
use crate::progress::{Meter, Unit};
use crate::shell::Shell;
use crate::{open, report};

/// Opens a model and checks that it can be run; the weights are read when a context is made.
pub(crate) fn load(name: &str, args: &OpenArgs) -> anyhow::Result<Arc<Model>> {
    Ok(Model::from_file(open::open(name, args)?, &[])?)
}

/// A context with everything that the flags and variables ask for, its weights loaded.
pub(crate) fn context(model: &Arc<Model>, args: &ContextArgs, shell: &Shell) -> anyhow::Result<Context> {
    let n_ctx = args.ctx_size.unwrap_or_else(|| default_n_ctx(model));
    let mut context = with_size(model, n_ctx, &args.compute, shell)?;
    dump_graphs(&mut context, args)?;
    Ok(context)
}

/// The same for a context of a size that the command itself decides.
pub(crate) fn with_size(
    model: &Arc<Model>,
    n_ctx: usize,
    args: &ComputeArgs,
    shell: &Shell,
) -> anyhow::Result<Context> {
    let env = &shell.env;
    let params = ContextParams {
        n_ctx,
        n_ubatch: args.n_ubatch(),
        n_threads: args.threads.or(env.n_threads),
        isa: env.isa.clone(),
        kv_type: args.kv_type()?,
        backends: args.backend.clone().or_else(|| env.backends.clone()),
        fuse_qkv: !env.no_fuse_qkv,
        fuse_ffn: !env.no_fuse_ffn,
        trace: env.trace.clone().map(|path| TraceSettings { path, nodes: Vec::new() }),
        ..ContextParams::default()
    };
    let mut context = Context::without_weights(model, &params)?;
    if env.graph_trace {
        context.scheduler_mut().on_compiled(Box::new(trace_graph));
    }
    if env.op_profile {
        context.scheduler_mut().enable_profile();
    }
    load_weights(model, &mut context)?;
    Ok(context)
}

/// Ends what the variables asked for: writes the profile and finishes the trace.
pub(crate) fn finish(context: &mut Context) -> anyhow::Result<()> {
    if let Some(profile) = context.scheduler().profile() {
        report::lines(&profile.table());
    }
    Ok(context.finish_trace()?)
}

/// The engine's default, or less for a model that was trained for less.
fn default_n_ctx(model: &Model) -> usize {
    let default = ContextParams::default().n_ctx;
    match model.description().hparams().n_ctx_train {
        0 => default,
        trained => default.min(trained),
    }
}

fn load_weights(model: &Arc<Model>, context: &mut Context) -> anyhow::Result<()> {
    let mut meter = Meter::new("loading", Unit::Things("weights"));
    let mut progress = |done: usize, total: usize| meter.update(done as u64, Some(total as u64));
    let decode = context.params(1, 1, GraphType::Decode);
    let loaded = context.scheduler_mut().warm(model.description(), &decode, &mut progress);
    Ok(loaded.map_err(minfer_engine::EngineError::from)?)
}

fn trace_graph(compiled: &Compiled) {
    report::lines(&export::split_map(compiled));
    report::lines(&export::census(compiled));
}

/// Writes the graph of a decode step, the very one that will run.
fn dump_graphs(context: &mut Context, args: &ContextArgs) -> anyhow::Result<()> {
    let decode = context.params(1, 1, GraphType::Decode);
    let Some(compiled) = context.scheduler_mut().compiled(&decode) else { return Ok(()) };
    if let Some(path) = &args.dump_graph {
        write_text(path, &export::dot(compiled))?;
    }
    if let Some(path) = &args.dump_graph_json {
        write_text(path, &format!("{:#}\n", export::json(compiled)))?;
    }
    Ok(())
}

fn write_text(path: &Path, text: &str) -> Result<(), CliError> {
    let fill = |file: &mut std::io::BufWriter<_>| std::io::Write::write_all(file, text.as_bytes());
    create_atomically(path, fill).map_err(CliError::write_file(path))
}
