//! What the commands do, one file each.

mod ab;
mod batch;
mod bench;
mod completions;
mod detokenize;
mod devices;
mod generate;
mod graph;
mod info;
mod logits;
mod models;
mod perplexity;
mod plan;
mod reference;
mod render;
mod run;
mod selftest;
mod serve;
mod tokenize;
mod verify;
mod viz;

use crate::args::Command;
use crate::shell::Shell;

/// Does what was asked.
pub(crate) fn run(command: Command, shell: &mut Shell) -> anyhow::Result<()> {
    match command {
        Command::Run(args) => run::run(*args, shell),
        Command::Serve(args) => serve::run(&args, shell),
        Command::Batch(args) => batch::run(&args, shell),
        Command::Bench(args) => bench::run(&args, shell),
        Command::Info(args) => info::run(&args, shell),
        Command::Tokenize(args) => tokenize::run(args, shell),
        Command::Detokenize(args) => detokenize::run(args, shell),
        Command::Render(args) => render::run(args, shell),
        Command::Logits(args) => logits::run(args, shell),
        Command::Generate(args) => generate::run(args, shell),
        Command::Perplexity(args) => perplexity::run(args, shell),
        Command::Plan(args) => plan::run(&args, shell),
        Command::Models(args) => models::run(&args, shell),
        Command::Devices(args) => devices::run(&args, shell),
        Command::Graph(args) => graph::run(&args, shell),
        Command::Viz(args) => viz::run(&args, shell),
        Command::Verify(args) => verify::run(&args, shell),
        Command::Ab(args) => ab::run(&args, shell),
        Command::Selftest(args) => selftest::run(&args, shell),
        Command::Completions { shell: kind } => completions::run(kind, shell),
        Command::Reference => reference::run(shell),
    }
}
