//! `minfer completions SHELL`: a script for the shell, for packagers and the curious.

use std::io::Write;

use crate::args;
use crate::shell::Shell;

pub(super) fn run(kind: clap_complete::Shell, shell: &mut Shell) -> anyhow::Result<()> {
    let mut script = Vec::new();
    // Into memory first: the generator panics when it cannot write.
    clap_complete::generate(kind, &mut args::definition(), "minfer", &mut script);
    Ok(shell.out.write_all(&script)?)
}
