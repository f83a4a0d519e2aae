//! `minfer selftest`.

use clap::Args;

/// Test every kernel that this machine would use against its plain definition
///
/// Each operation runs alone, in the sizes and for the tensor types in which kernels differ, on every engine and
/// instruction set of this machine. What the cpu computes has to be equal bit by bit; other engines have to stay within a
/// tolerance. The report names versions, processor and system: attach it to a bug report. The exit code is 1 if a kernel
/// fails.
#[derive(Args, Debug)]
#[command(after_long_help = "\
Examples:
  minfer selftest
  minfer selftest --json > selftest.json")]
pub(crate) struct SelftestArgs {
    /// Test this device, too, named by a part of its name as `minfer devices` shows it [default: the best GPU]
    #[arg(long, value_name = "NAME")]
    pub(crate) device: Option<String>,
    /// Write JSON
    #[arg(long)]
    pub(crate) json: bool,
}
