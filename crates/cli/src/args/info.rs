//! `minfer info`.

use clap::Args;

use super::ModelArgs;

/// Show what a model file holds: architecture, sizes, tensor types, tokenizer, metadata
///
/// Reads the head of the file only, so it is quick for a model of any size, and shows what it can of a model that
/// minfer cannot run.
#[derive(Args, Debug)]
#[command(after_long_help = "\
Examples:
  minfer info smollm2-135m
  minfer info model.gguf --tensors
  minfer info model.gguf --json | jq .architecture")]
pub(crate) struct InfoArgs {
    #[command(flatten)]
    pub(crate) model: ModelArgs,
    /// List every tensor
    #[arg(long)]
    pub(crate) tensors: bool,
    /// Write JSON, tensors included
    #[arg(long)]
    pub(crate) json: bool,
    /// Show arrays and texts in full instead of their beginnings
    #[arg(long)]
    pub(crate) full: bool,
}
