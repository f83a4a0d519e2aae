//! `minfer logits`.

use std::path::PathBuf;

use clap::Args;

use super::{ContextArgs, ModelArgs, PromptArgs, TokensArgs};

/// Show what the model expects after a prompt: the best next tokens with their logits and probabilities
///
/// The prompt goes to the model as it is, without a chat template; the model's begin token is put in front if its file
/// says so. Probabilities are the model's own, before any sampling.
#[derive(Args, Debug)]
#[command(after_long_help = "\
Examples:
  minfer logits smollm2-135m \"The capital of France is\"
  minfer logits model.gguf --tokens 1,15043 --top 5 --json
  minfer logits model.gguf -f text.txt --all-positions --out logits.npy")]
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
    /// After every token of the prompt, not only after the last one
    #[arg(long)]
    pub(crate) all_positions: bool,
    /// Write JSON
    #[arg(long)]
    pub(crate) json: bool,
    /// Write all logits to a file for NumPy, as f32: one row, or one for each position; none are shown unless with --json
    #[arg(short, long, value_name = "FILE.npy")]
    pub(crate) out: Option<PathBuf>,
    #[command(flatten)]
    pub(crate) context: ContextArgs,
}
