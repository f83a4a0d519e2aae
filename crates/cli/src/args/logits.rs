//! `minfer logits`.

use std::path::PathBuf;

use clap::Args;

use super::{ContextArgs, ModelArgs, PromptArgs, TokensArgs};

/// Show the logits after a prompt, for checking the engine alone
///
/// No chat template is involved. The model's begin token is put in front of a text where its file says so, and never in
/// front of ids.
#[derive(Args, Debug)]
#[command(after_long_help = "\
Examples:
  minfer logits smollm2-135m \"The capital of France is\"
  minfer logits smollm2-135m --tokens 1,2,3 --json --all-positions
  minfer logits smollm2-135m --tokens 1,2,3 --out logits.npy")]
pub(crate) struct LogitsArgs {
    #[command(flatten)]
    pub(crate) model: ModelArgs,
    #[command(flatten)]
    pub(crate) prompt: PromptArgs,
    #[command(flatten)]
    pub(crate) tokens: TokensArgs,
    /// How many of the best tokens to show
    #[arg(long, value_name = "N", default_value_t = 20)]
    pub(crate) top: usize,
    /// Show the logits after every token instead of the last
    #[arg(long)]
    pub(crate) all_positions: bool,
    /// Write JSON
    #[arg(long)]
    pub(crate) json: bool,
    /// Write all logits to a file for NumPy: float32, one row for each position
    #[arg(long, value_name = "FILE", conflicts_with = "json")]
    pub(crate) out: Option<PathBuf>,
    #[command(flatten)]
    pub(crate) context: ContextArgs,
}
