//! `minfer logits`: the logits after a prompt, the best of them or all.

use std::io::Write;
use std::path::Path;

use minfer_engine::npz::{Elements, NpzError, write_npy};
use minfer_engine::{Context, EngineError, Row};
use minfer_text::tokenizer::Tokenizer;
use serde_json::{Value, json};

use crate::args::LogitsArgs;
use crate::error::CliError;
use crate::output::Out;
use crate::progress::{Meter, Unit};
use crate::shell::Shell;
use crate::table::{Align, Table};
use crate::{engine, escape, json, prompt};

/// Most rows of logits that a step gives, whatever the chunks: a row may have a megabyte.
const MAX_ROWS: usize = 64;

pub(super) fn run(args: &LogitsArgs, shell: &mut Shell) -> anyhow::Result<()> {
    let (name, argument) = args.model.require(args.prompt.argument.as_deref())?;
    let model = engine::load(&name, &args.model.open)?;
    let ids = prompt::raw_ids(&model, argument, &args.prompt, &args.tokens, shell)?;
    let mut context = engine::context(&model, &args.context, shell)?;
    match &args.out {
        Some(path) => write_array(&mut context, &ids, args, path)?,
        None => show(&mut context, &ids, args, model.tokenizer(), &mut shell.out)?,
    }
    engine::finish(&mut context)
}

/// The logits after one token of the prompt, reduced to what is shown.
struct Position {
    /// Index of the token.
    at: usize,
    mean: f64,
    /// Standard deviation.
    std: f64,
    /// The best tokens with their logits.
    top: Vec<(u32, f32)>,
}

impl Position {
    fn of(at: usize, row: &[f32], n_top: usize) -> Self {
        let n = row.len() as f64;
        let mean = row.iter().map(|x| f64::from(*x)).sum::<f64>() / n;
        let variance = row.iter().map(|x| (f64::from(*x) - mean).powi(2)).sum::<f64>() / n;
        Self { at, mean, std: variance.sqrt(), top: best(row, n_top) }
    }
}

/// The `n` greatest logits, the greatest first, equal ones by id.
fn best(row: &[f32], n: usize) -> Vec<(u32, f32)> {
    let mut all: Vec<(u32, f32)> = (0..).zip(row.iter().copied()).collect();
    let order = |a: &(u32, f32), b: &(u32, f32)| b.1.total_cmp(&a.1).then(a.0.cmp(&b.0));
    if 0 < n && n < all.len() {
        all.select_nth_unstable_by(n - 1, order);
    }
    all.truncate(n);
    all.sort_unstable_by(order);
    all
}

fn show(
    context: &mut Context,
    ids: &[u32],
    args: &LogitsArgs,
    tokenizer: &Tokenizer,
    out: &mut Out,
) -> anyhow::Result<()> {
    let mut positions = Vec::new();
    each_row(context, ids, args, &mut |at, row| positions.push(Position::of(at, row, args.top)))?;
    if args.json {
        let positions: Vec<_> = positions.iter().map(|it| as_json(it, ids, tokenizer)).collect();
        return out.json(&json!({ "tokens": ids, "n_vocab": tokenizer.n_vocab(), "positions": positions }));
    }
    for (i, position) in positions.iter().enumerate() {
        if i > 0 {
            writeln!(out)?;
        }
        write_position(position, ids, tokenizer, out)?;
    }
    Ok(())
}

fn as_json(position: &Position, ids: &[u32], tokenizer: &Tokenizer) -> Value {
    let token = |&(id, logit): &(u32, f32)| {
        let text = String::from_utf8_lossy(tokenizer.token_bytes(id).unwrap_or_default());
        json!({ "id": id, "logit": json::f32(logit), "text": text })
    };
    json!({
        "position": position.at,
        "token": ids[position.at],
        "mean": json::f64(position.mean),
        "std": json::f64(position.std),
        "top": position.top.iter().map(token).collect::<Vec<_>>(),
    })
}

fn write_position(
    position: &Position,
    ids: &[u32],
    tokenizer: &Tokenizer,
    out: &mut Out,
) -> std::io::Result<()> {
    let text = |id| escape::quoted(tokenizer.token_bytes(id).unwrap_or_default());
    let id = ids[position.at];
    let Position { at, mean, std, .. } = position;
    writeln!(out, "after token {at} ({id} {}): mean {mean:.4}, deviation {std:.4}", text(id))?;
    let mut table = Table::new([("logit", Align::Right), ("id", Align::Right), ("text", Align::Left)]);
    for &(id, logit) in &position.top {
        table.push([format!("{logit:.4}"), id.to_string(), text(id)]);
    }
    table.write(out, 2)
}

fn write_array(context: &mut Context, ids: &[u32], args: &LogitsArgs, path: &Path) -> anyhow::Result<()> {
    let mut all = Vec::new();
    each_row(context, ids, args, &mut |_, row| all.extend_from_slice(row))?;
    let n_vocab = context.model().n_vocab();
    let written = write_npy(path, &[n_vocab, all.len() / n_vocab], Elements::F32(&all));
    let failed = |error: NpzError| CliError::Setup { action: "write the logits", reason: error.to_string() };
    Ok(written.map_err(failed)?)
}

/// Runs the prompt and calls `visit` with every wanted row and the index of its token.
fn each_row(
    context: &mut Context,
    ids: &[u32],
    args: &LogitsArgs,
    visit: &mut dyn FnMut(usize, &[f32]),
) -> anyhow::Result<()> {
    if ids.len() > context.n_ctx() {
        return Err(
            EngineError::ContextFull { n_tokens: ids.len(), n_past: 0, n_ctx: context.n_ctx() }.into()
        );
    }
    let (seq, n_vocab) = (context.new_sequence()?, context.model().n_vocab());
    let n_ubatch = args.context.compute.n_ubatch();
    let n_chunk = if args.all_positions { n_ubatch.min(MAX_ROWS) } else { n_ubatch };
    let mut meter = Meter::new("reading", Unit::Things("tokens"));
    for (chunk, start) in ids.chunks(n_chunk).zip((0..).step_by(n_chunk)) {
        let is_wanted = |at: usize| args.all_positions || at + 1 == ids.len();
        let row = |(i, &token)| Row { seq, token, wants_logits: is_wanted(start + i) };
        let rows: Vec<_> = chunk.iter().enumerate().map(row).collect();
        let wanted = (start..start + chunk.len()).filter(|at| is_wanted(*at));
        let logits = context.step(&rows)?;
        wanted.zip(logits.chunks_exact(n_vocab)).for_each(|(at, row)| visit(at, row));
        meter.update((start + chunk.len()) as u64, Some(ids.len() as u64));
    }
    Ok(())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_best_come_first_and_equal_ones_by_id() {
        let row = [1.0, 3.0, -2.0, 3.0, 0.5];
        assert_eq!(best(&row, 3), [(1, 3.0), (3, 3.0), (0, 1.0)]);
        assert_eq!(best(&row, 9).len(), 5);
        assert_eq!(best(&row, 0), []);
    }

    #[test]
    fn mean_and_deviation() {
        let position = Position::of(0, &[1.0, 3.0], 1);
        assert_eq!((position.mean, position.std), (2.0, 1.0));
    }
}
