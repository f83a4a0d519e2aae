//! `minfer generate`.

use clap::Args;

use super::{ContextArgs, ModelArgs, PromptArgs, SamplingArgs, TokensArgs};

/// Continue token ids or a raw prompt, for checking the engine alone
///
/// No chat template is involved. The model's begin token is put in front of a text where its file says so, and never in
/// front of ids.
#[derive(Args, Debug)]
#[command(after_long_help = "\
Examples:
  minfer generate smollm2-135m --tokens 1,2,3 -n 24 --greedy --json
  minfer generate smollm2-135m \"Once upon a time\" -n 24 --greedy --ignore-eos")]
pub(crate) struct GenerateArgs {
    #[command(flatten)]
    pub(crate) model: ModelArgs,
    #[command(flatten)]
    pub(crate) prompt: PromptArgs,
    #[command(flatten)]
    pub(crate) tokens: TokensArgs,
    /// Write JSON: prompt, tokens, text, why it ended, and timings
    #[arg(long)]
    pub(crate) json: bool,
    #[command(flatten)]
    pub(crate) sampling: SamplingArgs,
    #[command(flatten)]
    pub(crate) context: ContextArgs,
}
