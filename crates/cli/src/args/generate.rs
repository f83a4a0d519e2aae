//! `minfer generate`.

use clap::Args;

use super::{ContextArgs, GrammarArgs, ModelArgs, PromptArgs, SamplingArgs, TokensArgs};

/// Continue a prompt, and show token ids
///
/// The prompt goes to the model as it is, without a chat template. The text is written as it is generated, and on a line
/// of its own at the end come its token ids. For answers and conversations, see `minfer run`.
#[derive(Args, Debug)]
#[command(after_long_help = "\
Examples:
  minfer generate smollm2-135m -n 24 --greedy \"Once upon a time\"
  minfer generate model.gguf --tokens 1,2,3 -n 24 --greedy --json
  minfer generate model.gguf --tokens 1,2,3 -n 4 --seed 7 --json --logprobs 5
  minfer generate model.gguf \"The year was \" --grammar 'root ::= [12] [0-9]{3}'")]
pub(crate) struct GenerateArgs {
    #[command(flatten)]
    pub(crate) model: ModelArgs,
    #[command(flatten)]
    pub(crate) prompt: PromptArgs,
    #[command(flatten)]
    pub(crate) tokens: TokensArgs,
    /// Write JSON: ids, text, why it ended, timings, seed
    #[arg(long)]
    pub(crate) json: bool,
    /// Add to the JSON how probable the model found each token, and N tokens that it found most probable
    #[arg(long, visible_alias = "n-probs", value_name = "N", requires = "json")]
    pub(crate) logprobs: Option<usize>,
    #[command(flatten)]
    pub(crate) sampling: SamplingArgs,
    #[command(flatten)]
    pub(crate) grammar: GrammarArgs,
    #[command(flatten)]
    pub(crate) context: ContextArgs,
}
