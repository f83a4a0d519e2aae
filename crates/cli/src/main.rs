//! The `minfer` command.
//!
//! One run is three steps, each of which can be read alone: [`args`] records what was typed, [`commands`] acts on it, and
//! [`fault`] turns an error into an exit code by whose fault it is. Standard output belongs to the answer ([`output`]);
//! everything else that a person should read goes to standard error ([`report`], [`progress`]).

mod args;
mod commands;
mod env;
mod error;
mod escape;
mod fault;
mod hint;
mod input;
mod open;
mod output;
mod override_kv;
mod progress;
mod report;
mod shell;
mod table;
mod units;

use std::panic::{AssertUnwindSafe, catch_unwind};
use std::process::ExitCode;

use crate::args::Cli;
use crate::fault::Fault;
use crate::shell::Shell;

fn main() -> ExitCode {
    report::shorten_panics();
    let cli = match args::parse(std::env::args_os()) {
        Ok(cli) => cli,
        Err(answer) => return report::parser_answer(&answer),
    };
    let verbose = cli.verbose;
    let code = match catch_unwind(AssertUnwindSafe(|| run(cli))) {
        Ok(Ok(())) => 0,
        Ok(Err(error)) if output::is_closed_pipe(&error) => output::CLOSED_PIPE_EXIT_CODE,
        Ok(Err(error)) => {
            report::error(&error, verbose);
            Fault::of(&error).exit_code()
        }
        Err(_) => Fault::Bug.exit_code(),
    };
    ExitCode::from(code)
}

fn run(cli: Cli) -> anyhow::Result<()> {
    let mut shell = Shell::new(env::Env::read(|name| std::env::var_os(name))?);
    commands::run(cli.command, &mut shell)?;
    shell.out.finish()
}
