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
    let available = Available::now(params.memory);
    if args.json {
        shell.out.json(&Json::of(&model, &plan, available.as_ref()))?;
    } else {
        write(&plan, available.as_ref(), &mut shell.out)?;
    }
    // The table comes first, then what would fit.
    shell.out.flush()?;
    Ok(plan.check(&model, &params)?)
}

fn write(plan: &Plan, available: Option<&Available>, out: &mut Out) -> anyhow::Result<()> {
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
    if let Some(available) = available {
        let verdict = if plan.missing() <= available.bytes { "fits" } else { "does not fit" };
        writeln!(out, "{verdict}: {} has {} left", available.source, units::memory(available.bytes))?;
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
    fits: bool,
    gpu: Option<GpuJson>,
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
            kv: gpu.kv,
            activations: gpu.activations,
            scratch: gpu.scratch,
            own_memory: gpu.own_memory,
        }
    }
}

impl Json {
    fn of(model: &Arc<Model>, plan: &Plan, available: Option<&Available>) -> Self {
        let available = available.map(|a| a.bytes);
        Self {
            n_ctx: plan.n_ctx,
            n_ctx_train: model.description().hparams().n_ctx_train,
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
            available,
            gpu: plan.gpu().map(GpuJson::of),
            fits: available.is_none_or(|available| plan.missing() <= available),
        }
    }
}
