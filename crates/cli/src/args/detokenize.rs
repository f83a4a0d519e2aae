//! `minfer detokenize`.

use clap::Args;

use super::ModelArgs;

/// Turn token ids into text
///
/// Ids are arguments or standard input, separated by spaces, commas or line breaks, with or without brackets: what
/// `minfer tokenize --ids` writes can be read back. The text is written as it is, with nothing added.
#[derive(Args, Debug)]
#[command(after_long_help = "\
Examples:
  minfer detokenize smollm2-135m 19556 28 905
  minfer detokenize smollm2-135m '[19556, 28, 905]'
  minfer tokenize smollm2-135m --ids 'Hello' | minfer detokenize smollm2-135m")]
pub(crate) struct DetokenizeArgs {
    #[command(flatten)]
    pub(crate) model: ModelArgs,
    /// The ids; standard input if there are none
    #[arg(value_name = "IDS")]
    pub(crate) ids: Vec<String>,
    /// Leave control tokens such as `<|im_end|>` out of the text
    #[arg(long)]
    pub(crate) no_special: bool,
}
