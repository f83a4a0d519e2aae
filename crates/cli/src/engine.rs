//! From a name and flags to a model that runs: the one place where flags, variables and defaults meet.

use std::path::PathBuf;
use std::sync::Arc;

use minfer_cpu::PackedCacheOptions;
use minfer_engine::{Context, ContextParams, Model, TraceSettings};
use minfer_graph::{Compiled, KernelUse, LoadNote, export};

use crate::args::{ComputeArgs, ContextArgs, OpenArgs, SpeculationArgs};
use crate::draft::Draft;
use crate::env::Env;
use crate::error::CliError;
use crate::progress::{Meter, Unit};
use crate::shell::Shell;
use crate::{dump, files, open, profile, report, units};

/// Most bytes of packed weights that are kept on disk when nobody says otherwise: some models of up to 7 B weights.
const DEFAULT_PACKED_CACHE: usize = 8 << 30;

/// Opens a model and checks that it can be run; the weights are read when a context needs them.
pub(crate) fn load(name: &str, args: &OpenArgs) -> anyhow::Result<Arc<Model>> {
    Ok(Model::from_file(open::open(name, args)?, &[])?)
}

/// A context with everything that flags and variables ask for, and memory for `n_outputs` rows of logits in one step. Its
/// weights are not loaded; [`load_weights`] brings them.
pub(crate) fn with_outputs(
    model: &Arc<Model>,
    args: &ContextArgs,
    n_outputs: usize,
    shell: &Shell,
) -> anyhow::Result<Context> {
    let settings = ContextParams { n_outputs_max: Some(n_outputs), ..planned(model, args, 1, shell)? };
    prepared(model, &settings, args, shell)
}

/// A context for `n_seq_max` requests at once, which may guess ahead. Its weights, and those of its draft model, are not
/// loaded.
pub(crate) fn for_requests(
    model: &Arc<Model>,
    args: &ContextArgs,
    guesses: (&SpeculationArgs, &OpenArgs),
    n_seq_max: usize,
    shell: &Shell,
) -> anyhow::Result<Context> {
    let (params, draft) = guessing(planned(model, args, n_seq_max, shell)?, guesses)?;
    let mut context = prepared(model, &params, args, shell)?;
    if let Some(draft) = draft {
        draft.give_to(&mut context)?;
    }
    Ok(context)
}

/// Settings with room for guesses, and the draft model if there is one.
pub(crate) fn guessing(
    params: ContextParams,
    (args, open): (&SpeculationArgs, &OpenArgs),
) -> anyhow::Result<(ContextParams, Option<Draft>)> {
    let draft = Draft::open(args, open, &params)?;
    let draft_bytes = draft.as_ref().map_or(Ok(0), Draft::bytes)?;
    // One stream alone finds room for all its guesses; many share it.
    let n_outputs_max = match args.mode().max() {
        0 => params.n_outputs_max,
        n => Some(params.n_seq_max + n),
    };
    Ok((ContextParams { n_outputs_max, draft_bytes, ..params }, draft))
}

fn prepared(
    model: &Arc<Model>,
    settings: &ContextParams,
    args: &ContextArgs,
    shell: &Shell,
) -> anyhow::Result<Context> {
    let context = set_up(model, settings, &args.compute, shell)?;
    warn_of_size(&context, shell);
    dump::write(&context, args.compute.n_ubatch(), &args.dump)?;
    Ok(context)
}

/// A context, its weights loaded, of a size that the command itself decides.
pub(crate) fn with_size(
    model: &Arc<Model>,
    n_ctx: usize,
    args: &ComputeArgs,
    shell: &Shell,
) -> anyhow::Result<Context> {
    let mut context = set_up(model, &params(n_ctx, args, shell)?, args, shell)?;
    load_weights(&mut context, shell)?;
    Ok(context)
}

/// The settings that [`with_outputs`] would use, for so many sequences.
pub(crate) fn planned(
    model: &Arc<Model>,
    args: &ContextArgs,
    n_seq_max: usize,
    shell: &Shell,
) -> anyhow::Result<ContextParams> {
    let n_ctx = args.ctx_size.unwrap_or_else(|| default_n_ctx(model));
    Ok(ContextParams { n_seq_max, ..params(n_ctx, &args.compute, shell)? })
}

/// Reads the weights of a context; a bar shows how far that is.
pub(crate) fn load_weights(context: &mut Context, shell: &Shell) -> anyhow::Result<()> {
    let mut meter = Meter::new("loading", Unit::Things("weights"));
    let mut progress = |done: usize, total: usize| meter.update(done as u64, Some(total as u64));
    context.load_weights(&mut progress)?;
    drop(meter);
    for note in context.take_load_notes() {
        match note {
            LoadNote::Warning(text) => shell.warn(&text),
            LoadNote::Info(text) if shell.verbose => report::note(text),
            LoadNote::Info(_) => {}
        }
    }
    if shell.verbose {
        describe(context);
    }
    Ok(())
}

/// Ends what flags and variables asked for: writes profile and timeline, finishes the trace.
pub(crate) fn finish(context: &mut Context, args: &ComputeArgs, shell: &Shell) -> anyhow::Result<()> {
    profile::write(context, args.profile.as_deref(), shell)?;
    Ok(context.finish_trace()?)
}

/// Notes the files that a run writes as it goes.
pub(crate) fn claim_outputs(args: &ComputeArgs, shell: &Shell) -> Result<(), CliError> {
    if let Some(path) = args.trace.as_ref().or(shell.env.trace.as_ref()) {
        files::writes(path, "the trace")?;
    }
    args.profile.as_deref().map_or(Ok(()), |path| files::writes(path, "the profile"))
}

fn set_up(
    model: &Arc<Model>,
    settings: &ContextParams,
    args: &ComputeArgs,
    shell: &Shell,
) -> anyhow::Result<Context> {
    claim_outputs(args, shell)?;
    let mut context = Context::without_weights(model, settings)?;
    if let Some(path) = &args.profile {
        // Found out before the work, not after it.
        profile::check(path)?;
        context.scheduler_mut().enable_timeline();
    }
    if shell.env.graph_trace {
        context.scheduler_mut().on_compiled(Box::new(trace_graph));
        context.scheduler_mut().on_prepared(Box::new(trace_kernels));
        if let Some(reason) = context.gpu_left_out() {
            report::note(format_args!("no layers on a GPU: {reason}"));
        }
    }
    if shell.env.op_profile {
        context.scheduler_mut().enable_profile();
    }
    Ok(context)
}

/// What flags and variables say about a context; a flag beats its variable.
fn params(n_ctx: usize, args: &ComputeArgs, shell: &Shell) -> Result<ContextParams, CliError> {
    let env = &shell.env;
    let trace = args.trace.as_ref().or(env.trace.as_ref());
    if trace.is_none() && !args.trace_nodes.is_empty() {
        return Err(CliError::NoTrace);
    }
    Ok(ContextParams {
        n_ctx,
        n_seq_max: 1,
        n_ubatch: args.n_ubatch(),
        n_threads: args.threads.or(env.n_threads),
        n_threads_batch: args.threads_batch.or(env.n_threads_batch),
        isa: env.isa.clone(),
        kv_type: args.kv_type()?,
        backends: args.backend.clone().or_else(|| env.backends.clone()),
        disabled: env.disabled.clone(),
        gpu_layers: args.gpu.gpu_layers,
        device: args.gpu.device.clone(),
        device_cache: kept_in("devices"),
        packed_cache: packed_cache(args, env),
        gpu_import: !env.no_gpu_import,
        fuse_qkv: !env.no_fuse_qkv,
        fuse_ffn: !env.no_fuse_ffn,
        n_outputs_max: None,
        memory: args.memory,
        trace: trace.map(|path| TraceSettings { path: path.clone(), nodes: args.trace_nodes.clone() }),
        ..ContextParams::default()
    })
}

/// A folder for what is kept from one run to the next: with the models.
fn kept_in(folder: &str) -> Option<PathBuf> {
    Some(minfer_hub::Options::default().cache_folder().ok()?.join(folder))
}

fn packed_cache(args: &ComputeArgs, env: &Env) -> Option<PackedCacheOptions> {
    Some(PackedCacheOptions {
        folder: kept_in("packed")?,
        max_bytes: args.packed_cache.or(env.packed_cache).unwrap_or(DEFAULT_PACKED_CACHE) as u64,
        min_bytes: PackedCacheOptions::MIN_BYTES,
    })
}

/// What variables and defaults say about a context.
pub(crate) fn default_params(model: &Model, shell: &Shell) -> ContextParams {
    let env = &shell.env;
    ContextParams {
        n_ctx: default_n_ctx(model),
        n_threads: env.n_threads,
        n_threads_batch: env.n_threads_batch,
        isa: env.isa.clone(),
        backends: env.backends.clone(),
        disabled: env.disabled.clone(),
        gpu_import: !env.no_gpu_import,
        fuse_qkv: !env.no_fuse_qkv,
        fuse_ffn: !env.no_fuse_ffn,
        ..ContextParams::default()
    }
}

/// The engine's default, or less for a model that was trained for less.
fn default_n_ctx(model: &Model) -> usize {
    let default = ContextParams::default().n_ctx;
    match model.description().hparams().n_ctx_train {
        0 => default,
        trained => default.min(trained),
    }
}

fn warn_of_size(context: &Context, shell: &Shell) {
    let (n_ctx, trained) = (context.n_ctx(), context.model().description().hparams().n_ctx_train);
    if trained != 0 && n_ctx > trained {
        shell.warn(&format!(
            "a context of {n_ctx} is longer than the {trained} tokens that the model was trained for; \
             beyond them its answers may make no sense"
        ));
    }
}

fn describe(context: &Context) {
    let registry = context.scheduler().registry();
    let engines: Vec<_> =
        registry.drivers().iter().map(|it| format!("{}: {}", it.backend().name(), it.describe())).collect();
    let (n_ctx, kv) = (context.n_ctx(), units::memory(context.kv_bytes()));
    report::note(format_args!("context of {n_ctx} tokens, cache of {kv}; {}", engines.join("; ")));
    if let Some(gpu) = context.gpu() {
        report::note(gpu);
    }
    if let Some(reason) = context.gpu_left_out() {
        report::note(format_args!("no layers on a GPU: {reason}"));
    }
}

/// `MINFER_GRAPH_TRACE`.
fn trace_graph(compiled: &Compiled) {
    report::lines(&export::split_map(compiled));
    report::lines(&export::census(compiled));
}

/// The kernels that a graph got, for backends that choose among several.
fn trace_kernels(uses: &[KernelUse]) {
    let line = |u: &KernelUse| format!("kernel {} backend {} x{}\n", u.kernel, u.backend, u.count);
    report::lines(&uses.iter().map(line).collect::<String>());
}
