//! `minfer ab`: two settings compared, node by node.

use std::io::{self, Write};
use std::ops::ControlFlow;
use std::sync::Arc;

use minfer_engine::ab::{AbReport, NodeDifference, NodeOn, NodePair, Worst, compare};
use minfer_engine::settings::Settings;
use minfer_engine::{Context, Model};

use crate::args::AbArgs;
use crate::error::CliError;
use crate::progress::{Meter, Unit};
use crate::shell::Shell;
use crate::table::{Align, Table};
use crate::{engine, escape, prompt};

/// Most nodes of one side that are named.
const MAX_NAMED: usize = 12;

pub(super) fn run(args: &AbArgs, shell: &mut Shell) -> anyhow::Result<()> {
    for settings in [&args.a, &args.b] {
        if let Some(key) = settings.of_graphs_only() {
            return Err(CliError::GraphSetting { key }.into());
        }
    }
    if args.a.sets_same(&args.b) {
        return Err(CliError::SameSettings.into());
    }
    let (name, argument) = args.model.require(args.prompt.argument.as_deref())?;
    let model = engine::load(&name, &args.model.open)?;
    let tokens = prompt::raw_ids(&model, argument, &args.prompt, &args.tokens, shell)?;
    let mut a = side(&model, &args.a, tokens.len(), args, shell)?;
    let mut b = side(&model, &args.b, tokens.len(), args, shell)?;
    let mut meter = Meter::new("comparing", Unit::Things("tokens"));
    let report = compare(&mut a, &mut b, &tokens, args.n_generate, &mut |done, total| {
        meter.update(done as u64, Some(total as u64));
        ControlFlow::Continue(())
    })?;
    meter.clear();
    shell.exit_code = u8::from(!report.is_identical());
    match args.json {
        true => shell.out.json(&report.to_json(&args.a, &args.b)),
        false => Ok(write(&report, args, &model, &mut shell.out)?),
    }
}

/// One side, its weights loaded; the context is as long as it has to be, unless the settings say otherwise.
fn side(
    model: &Arc<Model>,
    settings: &Settings,
    n_prompt: usize,
    args: &AbArgs,
    shell: &Shell,
) -> anyhow::Result<Context> {
    let other = settings.model.as_deref().map(|name| engine::load(name, &args.model.open)).transpose()?;
    let model = other.as_ref().unwrap_or(model);
    let mut params = engine::default_params(model, shell);
    params.n_ctx = n_prompt.saturating_add(args.n_generate);
    let mut context = Context::without_weights(model, &settings.apply(params))?;
    engine::load_weights(&mut context, shell)?;
    Ok(context)
}

fn write(report: &AbReport, args: &AbArgs, model: &Model, out: &mut impl Write) -> io::Result<()> {
    writeln!(out, "a: {}", escape::one_line(&args.a.to_string()))?;
    writeln!(out, "b: {}", escape::one_line(&args.b.to_string()))?;
    let n_generated = report.tokens.len() - report.n_prompt;
    writeln!(
        out,
        "{} tokens of the prompt and {n_generated} generated; {} values of nodes compared, {} numbers",
        report.n_prompt, report.n_values, report.n_elems
    )?;
    alone("a", &report.only_a, out)?;
    alone("b", &report.only_b, out)?;
    if report.n_misfits > 0 {
        writeln!(out, "{} values differ in size: these are not two files of one model", report.n_misfits)?;
    }
    if report.n_values == 0 {
        writeln!(out, "nothing could be compared")?;
    }
    let Some(first) = &report.first else {
        return match report.is_identical() {
            true => writeln!(out, "\nidentical: every bit is equal, and so is every token chosen"),
            false => Ok(()),
        };
    };
    writeln!(out, "\n{} values differ; the first node that does:", report.n_differing)?;
    write_first(first, out)?;
    growth(first, &report.growth, out)?;
    choices(report, model, out)
}

fn alone(side: &str, nodes: &[NodeOn], out: &mut impl Write) -> io::Result<()> {
    if nodes.is_empty() {
        return Ok(());
    }
    let names: Vec<_> = nodes.iter().take(MAX_NAMED).map(|n| escape::one_line(&n.name)).collect();
    let more = if nodes.len() > MAX_NAMED { ", …" } else { "" };
    writeln!(out, "only {side} has the values of {} nodes: {}{more}", nodes.len(), names.join(", "))
}

fn write_first(first: &NodeDifference, out: &mut impl Write) -> io::Result<()> {
    let NodePair { a, b, part } = &first.node;
    let on = |n: &NodeOn| format!("{} ({} on {})", escape::one_line(&n.name), n.op, n.backend.name());
    let what = if a == b { on(a) } else { format!("{} in a, {} in b", on(a), on(b)) };
    writeln!(out, "  node       {what}")?;
    if let Some(part) = part {
        writeln!(out, "  part       {}", escape::one_line(&part.to_string()))?;
    }
    let d = &first.difference;
    writeln!(
        out,
        "  differing  {} of {} numbers, at {} of {} tokens",
        d.n_differing, d.n_elems, first.n_tokens_differing, first.n_tokens
    )?;
    let place = |w: &Worst| format!("a {:e}, b {:e}, element {} of token {}", w.a, w.b, w.index, w.token);
    writeln!(out, "  absolute   {:e}: {}", d.absolute.size, place(&d.absolute))?;
    writeln!(out, "  relative   {:e}: {}", d.relative.size, place(&d.relative))?;
    writeln!(out, "  ulp        {}: {}", d.ulps.size, place(&d.ulps))
}

fn growth(first: &NodeDifference, growth: &[NodeDifference], out: &mut impl Write) -> io::Result<()> {
    writeln!(out, "\nhow it grows")?;
    let right = |name| (name, Align::Right);
    let mut table = Table::new([
        ("node", Align::Left),
        right("tokens"),
        right("numbers"),
        right("absolute"),
        right("relative"),
        right("ulp"),
    ]);
    for n in std::iter::once(first).chain(growth) {
        let d = &n.difference;
        table.push([
            escape::one_line(&n.node.a.name),
            format!("{}/{}", n.n_tokens_differing, n.n_tokens),
            format!("{}/{}", d.n_differing, d.n_elems),
            format!("{:.2e}", d.absolute.size),
            format!("{:.2e}", d.relative.size),
            format!("{:.0}", d.ulps.size),
        ]);
    }
    table.write(out, 2)
}

fn choices(report: &AbReport, model: &Model, out: &mut impl Write) -> io::Result<()> {
    let text = |id: u32| escape::quoted(model.tokenizer().token_bytes(id).unwrap_or_default());
    let other: Vec<_> = report.choices.iter().filter(|c| c.a != c.b).collect();
    writeln!(out)?;
    match other.first() {
        None => writeln!(out, "the same token is chosen at each of {} places", report.choices.len()),
        Some(c) => writeln!(
            out,
            "another token is chosen at {} of {} places, first after token {}: {} {} in a, {} {} in b",
            other.len(),
            report.choices.len(),
            c.position,
            c.a,
            text(c.a),
            c.b,
            text(c.b)
        ),
    }
}
