//! `minfer reference`: the text of docs/cli.md, from the same definition that parses the command line.
//!
//! A test compares the two; `minfer reference > docs/cli.md` brings the page up to date.

use std::io::Write;

use clap::Command;

use crate::args;
use crate::shell::Shell;

/// Columns of the help on the page, whatever the terminal of the one who writes it has.
const COLUMNS: usize = 100;

const INTRODUCTION: &str = "\
# The `minfer` command

Written by `minfer reference`; a test compares this page with the program. Answers go to standard output, everything else
(errors, warnings, progress) to standard error. An error is one line that says what is wrong, and mostly a second one,
`hint:`, that says what to do; `-v` adds the causes.
";

pub(super) fn run(shell: &mut Shell) -> anyhow::Result<()> {
    let mut definition = args::definition().term_width(COLUMNS);
    definition.build();
    write!(shell.out, "{INTRODUCTION}")?;
    section(&mut definition, shell)?;
    for command in definition.get_subcommands_mut() {
        if !command.is_hide_set() && command.get_name() != "help" {
            section(command, shell)?;
        }
    }
    Ok(())
}

fn section(command: &mut Command, shell: &mut Shell) -> anyhow::Result<()> {
    let title = command.get_bin_name().unwrap_or("minfer").to_owned();
    let help = command.clone().term_width(COLUMNS).render_long_help().to_string();
    writeln!(shell.out, "\n## {title}\n\n```text")?;
    for line in help.trim_end().lines() {
        writeln!(shell.out, "{}", line.trim_end())?;
    }
    Ok(writeln!(shell.out, "```")?)
}
