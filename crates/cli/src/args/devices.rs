//! `minfer devices`.

use clap::Args;

/// List the engines and the devices that they run on, and why one cannot be used
///
/// With -v also what each device allows. A software adapter is used only if --device names it.
#[derive(Args, Debug)]
#[command(after_long_help = "\
Examples:
  minfer devices
  minfer devices -v
  minfer devices --json")]
pub(crate) struct DevicesArgs {
    /// Write JSON
    #[arg(long)]
    pub(crate) json: bool,
}
