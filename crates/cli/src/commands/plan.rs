//! `minfer plan`: what running a model will take.

use std::io::Write;
use std::sync::Arc;

use minfer_engine::Model;
use minfer_engine::memory::{Available, GpuShare, Plan, PlanPart};
use serde::Serialize;

use crate::args::PlanArgs;
use crate::output::Out;
use crate::shell::Shell;
use crate::table::{Align, Table};
use crate::{engine, units};

pub(super) fn run(args: &PlanArgs, shell: &mut Shell) -> anyhow::Result<()> {
    let model = engine::load(args.model.name()?, &args.model.open)?;
    let params = engine::planned(&model, &args.context, args.parallel, shell)?;
    let (params, _) = engine::guessing(params, (&args.speculation, &args.model.open))?;
    let plan = Plan::new(&model, &params)?;
    let room = Available::now(params.memory).map(|available| {
        let largest_n_ctx = plan.largest_n_ctx(&model, &params, &available);
        Room { available, largest_n_ctx }
    });
    if args.json {
        shell.out.json(&Json::of(&model, &plan, room.as_ref()))?;
    } else {
        write(&plan, n_ctx_train(&model), room.as_ref(), &mut shell.out)?;
    }
    // The table comes first, then what would fit.
    shell.out.flush()?;
    Ok(plan.check(&model, &params)?)
}

/// What there is, and what would fit into it.
struct Room {
    available: Available,
    largest_n_ctx: usize,
}

impl Room {
    fn holds(&self, plan: &Plan) -> bool {
        plan.missing() <= self.available.bytes
    }
}

fn n_ctx_train(model: &Model) -> usize {
    model.description().hparams().n_ctx_train
}

fn write(plan: &Plan, n_ctx_train: usize, room: Option<&Room>, out: &mut Out) -> anyhow::Result<()> {
    let mut table = Table::new([("memory for", Align::Left), ("size", Align::Right)]);
    for (part, bytes) in plan.parts() {
        table.push([part.name().into(), units::memory(*bytes)]);
    }
    table.push(["all".into(), units::memory(plan.total())]);
    table.write(out, 0)?;
    let (n_ctx, n_seq) = (plan.n_ctx, plan.n_seq_max);
    writeln!(out, "\n{n_seq} x {n_ctx} tokens; {} beside what is there now", units::memory(plan.missing()))?;
    if let Some(gpu) = plan.gpu() {
        writeln!(out, "{gpu}")?;
    }
    if let Some(reason) = plan.gpu_left_out() {
        writeln!(out, "no layers on a GPU: {reason}")?;
    }
    let Some(room) = room else { return Ok(()) };
    let verdict = if room.holds(plan) { "fits" } else { "does not fit" };
    let Available { source, bytes } = &room.available;
    writeln!(out, "{verdict}: {source} has {} left", units::memory(*bytes))?;
    let trained = match n_ctx_train {
        0 => String::new(),
        n => format!("; the model was trained for {n}"),
    };
    match room.largest_n_ctx {
        0 => writeln!(out, "no context fits")?,
        n => writeln!(out, "the largest context that fits is {n}{trained}")?,
    }
    Ok(())
}

/// The plan, as `--json` shows it. Sizes in bytes.
#[derive(Serialize)]
struct Json {
    n_ctx: usize,
    n_ctx_train: usize,
    parallel: usize,
    program: usize,
    file: usize,
    weights: usize,
    kv: usize,
    activations: usize,
    scratch: usize,
    logits: usize,
    graphs: usize,
    draft: usize,
    total: usize,
    missing: usize,
    available: Option<usize>,
    /// 0 if none fits; null if nobody says how much there is.
    largest_ctx: Option<usize>,
    fits: bool,
    gpu: Option<GpuJson>,
    gpu_left_out: Option<String>,
}

/// What a device takes. Sizes in bytes.
#[derive(Serialize)]
struct GpuJson {
    engine: &'static str,
    device: String,
    layers: usize,
    of_layers: usize,
    outside_layers: bool,
    weights: usize,
    in_place: usize,
    uploaded_because: Option<String>,
    kv: usize,
    activations: usize,
    scratch: usize,
    own_memory: Option<usize>,
}

impl GpuJson {
    fn of(gpu: &GpuShare) -> Self {
        Self {
            engine: gpu.backend.name(),
            device: gpu.device.clone(),
            layers: gpu.n_layers,
            of_layers: gpu.of_layers,
            outside_layers: gpu.outside_layers,
            weights: gpu.weights,
            in_place: gpu.in_place,
            uploaded_because: gpu.uploaded_because.clone(),
            kv: gpu.kv,
            activations: gpu.activations,
            scratch: gpu.scratch,
            own_memory: gpu.own_memory,
        }
    }
}

impl Json {
    fn of(model: &Arc<Model>, plan: &Plan, room: Option<&Room>) -> Self {
        Self {
            n_ctx: plan.n_ctx,
            n_ctx_train: n_ctx_train(model),
            parallel: plan.n_seq_max,
            program: plan.bytes(PlanPart::Program),
            file: plan.bytes(PlanPart::File),
            weights: plan.bytes(PlanPart::Weights),
            kv: plan.bytes(PlanPart::Kv),
            activations: plan.bytes(PlanPart::Activations),
            scratch: plan.bytes(PlanPart::Scratch),
            logits: plan.bytes(PlanPart::Logits),
            graphs: plan.bytes(PlanPart::Graphs),
            draft: plan.bytes(PlanPart::Draft),
            total: plan.total(),
            missing: plan.missing(),
            available: room.map(|room| room.available.bytes),
            largest_ctx: room.map(|room| room.largest_n_ctx),
            gpu: plan.gpu().map(GpuJson::of),
            gpu_left_out: plan.gpu_left_out().map(str::to_owned),
            fits: room.is_none_or(|room| room.holds(plan)),
        }
    }
}
