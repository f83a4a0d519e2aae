//! The `minfer` command.
//!
//! One run is three steps, each of which can be read alone: [`args`] records what was typed, [`commands`] acts on it, and
//! [`fault`] turns an error into an exit code by whose fault it is. Standard output belongs to the answer ([`output`]);
//! everything else that a person should read goes to standard error ([`report`], [`progress`]).

mod args;
mod commands;
mod draft;
mod dump;
mod engine;
mod env;
mod error;
mod escape;
mod fault;
mod files;
mod hint;
mod input;
mod interrupt;
mod machine;
mod open;
mod output;
mod override_kv;
mod printer;
mod profile;
mod progress;
mod prompt;
mod report;
mod rows;
mod shell;
mod table;
mod token;
mod units;

use std::panic::catch_unwind;
use std::process::ExitCode;

use crate::args::Cli;
use crate::fault::Fault;
use crate::shell::Shell;

fn main() -> ExitCode {
    report::shorten_panics();
    ExitCode::from(catch_unwind(exit_code).unwrap_or(Fault::Bug.exit_code()))
}

fn exit_code() -> u8 {
    let cli = match args::parse(std::env::args_os()) {
        Ok(cli) => cli,
        Err(answer) => return report::parser_answer(&answer),
    };
    let verbose = cli.verbose;
    match run(cli) {
        Ok(code) => code,
        Err(error) if output::is_closed_pipe(&error) => output::CLOSED_PIPE_EXIT_CODE,
        Err(error) => {
            let fault = Fault::of(&error);
            // Whoever pressed Ctrl-C knows.
            if fault != Fault::Interrupted {
                report::error(&error, verbose);
            }
            fault.exit_code()
        }
    }
}

fn run(cli: Cli) -> anyhow::Result<u8> {
    interrupt::take_over()?;
    let mut shell = Shell::new(env::Env::read(|name| std::env::var_os(name))?, cli.verbose);
    commands::run(cli.command, &mut shell)?;
    shell.out.finish()?;
    Ok(shell.exit_code)
}
