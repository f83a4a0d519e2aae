//! `minfer perplexity`.

use clap::Args;

use super::{ContextArgs, ModelArgs, PromptArgs, TokensArgs};

/// Measure how well the model predicts a text: the lower the perplexity, the better
///
/// The text goes to the model as it is, without a chat template; the model's begin token is put in front if its file says
/// so. Each token but the first is predicted from all before it. A text longer than the context (-c) is cut into pieces
/// of that length, each of which is read by itself.
#[derive(Args, Debug)]
#[command(after_long_help = "\
Examples:
  minfer perplexity smollm2-135m -f text.txt
  minfer perplexity model.gguf -f text.txt -c 512 --json")]
pub(crate) struct PerplexityArgs {
    #[command(flatten)]
    pub(crate) model: ModelArgs,
    #[command(flatten)]
    pub(crate) prompt: PromptArgs,
    #[command(flatten)]
    pub(crate) tokens: TokensArgs,
    /// Write JSON, with the negative log-likelihood of each token
    #[arg(long)]
    pub(crate) json: bool,
    #[command(flatten)]
    pub(crate) context: ContextArgs,
}
