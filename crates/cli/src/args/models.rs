//! `minfer models`.

use clap::Args;

/// List the models that can be named: short names, and the files in the model folder
#[derive(Args, Debug)]
#[command(after_long_help = "\
Examples:
  minfer models
  MINFER_MODELS=/data/models minfer models --json")]
pub(crate) struct ModelsArgs {
    /// Write JSON
    #[arg(long)]
    pub(crate) json: bool,
}
