//! `--profile` and `MINFER_OP_PROFILE`: where the time went.

use std::io::BufWriter;
use std::path::Path;

use minfer_cpu::isa::Isa;
use minfer_cpu::limits::Meter;
use minfer_engine::Context;
use minfer_gguf::create_atomically;
use minfer_graph::MachineLimits;

use crate::error::CliError;
use crate::report;
use crate::shell::Shell;

/// Writes the table of ops to standard error, if ops were timed, and the timeline to `path`.
pub(crate) fn write(context: &Context, path: Option<&Path>, shell: &Shell) -> Result<(), CliError> {
    if let Some(profile) = context.scheduler().profile() {
        report::lines(&profile.table(limits(context, shell).as_ref()));
    }
    if let (Some(path), Some(timeline)) = (path, context.scheduler().timeline()) {
        create_atomically(path, |file: &mut BufWriter<_>| timeline.write_chrome(file))
            .map_err(CliError::write_file(path))?;
        if timeline.n_dropped() > 0 {
            let n = timeline.n_dropped();
            report::note(format_args!("the profile holds the last events; {n} earlier ones were dropped"));
        }
    }
    Ok(())
}

/// Whether a file can be written at `path`.
pub(crate) fn check(path: &Path) -> Result<(), CliError> {
    let folder = path.parent().filter(|folder| !folder.as_os_str().is_empty());
    match folder {
        Some(folder) => std::fs::read_dir(folder).map(drop).map_err(CliError::write_file(path)),
        None => Ok(()),
    }
}

/// What the machine can do with all threads of the context, measured now; nothing if it cannot be measured.
fn limits(context: &Context, shell: &Shell) -> Option<MachineLimits> {
    let stated = shell.env.isa.as_deref().and_then(|name| Isa::from_name(name).ok());
    let isa = stated.unwrap_or_else(Isa::detect);
    let n_threads = context.n_threads().max(context.n_threads_batch());
    let limits = Meter::new(isa, n_threads).ok()?.measure();
    Some(MachineLimits { read_bytes: limits.read_bytes, int_ops: limits.dot_ops, float_ops: limits.fma_ops })
}
