//! `minfer logits`: what the model expects after a prompt.
//!
//! [`crate::rows`] runs the model and hands out one row of logits after the other; [`position`] says what there is to say about
//! a row. Rows are written and summed up as they come, so that all positions of a long prompt need no more memory than a
//! few.

mod position;

use std::path::Path;

use minfer_engine::npz::NpyWriter;
use minfer_engine::{Context, EngineError};
use serde::Serialize;

use crate::args::LogitsArgs;
use crate::error::CliError;
use crate::rows::Wanted;
use crate::shell::Shell;
use crate::{engine, files, prompt, rows};

use position::Position;

pub(super) fn run(args: LogitsArgs, shell: &mut Shell) -> anyhow::Result<()> {
    let (name, argument) = args.model.require(args.prompt.argument.as_deref())?;
    let model = engine::load(&name, &args.model.open)?;
    if let Some(path) = &args.out {
        files::writes(path, "the logits")?;
    }
    let tokens = prompt::raw_ids(&model, argument, &args.prompt, &args.tokens, shell)?;
    let n_ubatch = args.context.compute.n_ubatch();
    let wanted =
        if args.all_positions { Wanted::every(n_ubatch, model.n_vocab()) } else { Wanted::last(n_ubatch) };
    let mut context = engine::with_outputs(&model, &args.context, wanted.n_outputs(), shell)?;
    check_room(&context, tokens.len())?;
    let mut file =
        args.out.as_deref().map(|path| begin(path, &args, tokens.len(), model.n_vocab())).transpose()?;
    engine::load_weights(&mut context, shell)?;

    let is_shown = args.json || file.is_none();
    let mut positions = Vec::new();
    rows::for_each(&mut context, &tokens, tokens.len(), wanted, &mut |at, logits| {
        if let Some(file) = &mut file {
            file.append(logits).map_err(CliError::WriteLogits)?;
        }
        if is_shown {
            positions.push(Position::of(at, logits, args.top).map_err(EngineError::from)?);
        }
        Ok(())
    })?;
    if let Some(file) = file {
        file.finish().map_err(CliError::WriteLogits)?;
    }
    show(&context, &tokens, &positions, &args, shell)?;
    engine::finish(&mut context, &args.context.compute, shell)
}

/// The whole prompt has to fit: found out before the weights are read.
fn check_room(context: &Context, n_tokens: usize) -> anyhow::Result<()> {
    let n_ctx = context.n_ctx();
    let full = EngineError::ContextFull { n_tokens, n_past: 0, n_ctx };
    if n_tokens > n_ctx { Err(full.into()) } else { Ok(()) }
}

fn begin(path: &Path, args: &LogitsArgs, n_tokens: usize, n_vocab: usize) -> Result<NpyWriter, CliError> {
    let dims: &[usize] = if args.all_positions { &[n_vocab, n_tokens] } else { &[n_vocab] };
    NpyWriter::create(path, dims).map_err(CliError::WriteLogits)
}

fn show(
    context: &Context,
    tokens: &[u32],
    positions: &[Position],
    args: &LogitsArgs,
    shell: &mut Shell,
) -> anyhow::Result<()> {
    let tokenizer = context.model().tokenizer();
    if !args.json {
        return Ok(positions.iter().try_for_each(|it| it.write(tokens, tokenizer, &mut shell.out))?);
    }
    let mut shown = positions.iter().map(|it| it.to_json(tokenizer));
    let n_vocab = context.model().n_vocab();
    if args.all_positions {
        return shell.out.json(&All { tokens, n_vocab, positions: shown.collect() });
    }
    match shown.next() {
        Some(last) => shell.out.json(&Last { tokens, n_vocab, last }),
        None => Ok(()),
    }
}

/// `--json`.
#[derive(Serialize)]
struct Last<'a> {
    tokens: &'a [u32],
    n_vocab: usize,
    #[serde(flatten)]
    last: position::Json<'a>,
}

/// `--json --all-positions`.
#[derive(Serialize)]
struct All<'a> {
    tokens: &'a [u32],
    n_vocab: usize,
    positions: Vec<position::Json<'a>>,
}
