//! What the commands do, one file each.

mod completions;
mod detokenize;
mod info;
mod models;
mod reference;
mod render;
mod tokenize;

use crate::args::Command;
use crate::shell::Shell;

/// Does what was asked.
pub(crate) fn run(command: Command, shell: &mut Shell) -> anyhow::Result<()> {
    match command {
        Command::Info(args) => info::run(&args, shell),
        Command::Tokenize(args) => tokenize::run(args, shell),
        Command::Detokenize(args) => detokenize::run(args, shell),
        Command::Render(args) => render::run(args, shell),
        Command::Models(args) => models::run(&args, shell),
        Command::Completions { shell: kind } => completions::run(kind, shell),
        Command::Reference => reference::run(shell),
    }
}
