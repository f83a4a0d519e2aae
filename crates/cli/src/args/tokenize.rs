//! `minfer tokenize`.

use std::path::PathBuf;

use clap::Args;

use super::ModelArgs;

/// Turn text into token ids
///
/// The text is an argument, a file, or standard input, and is taken byte for byte: a line break at the end of a file is
/// part of it. Bytes that the model has no token for are left out, with a warning.
#[derive(Args, Debug)]
#[command(after_long_help = "\
Examples:
  minfer tokenize smollm2-135m \"Hello, world\"
  minfer tokenize smollm2-135m --ids -f prompt.txt
  printf %s '<|im_start|>user' | minfer tokenize -m model.gguf --no-special
  minfer tokenize smollm2-135m -- '- text that begins with a dash'")]
pub(crate) struct TokenizeArgs {
    #[command(flatten)]
    pub(crate) model: ModelArgs,
    /// The text; standard input if neither it nor a file is given
    #[arg(value_name = "TEXT")]
    pub(crate) text: Option<String>,
    /// The text, instead of an argument
    #[arg(short, long, value_name = "TEXT", allow_hyphen_values = true, conflicts_with = "file")]
    pub(crate) prompt: Option<String>,
    /// Read the text from a file; `-` is standard input
    #[arg(short, long, value_name = "FILE")]
    pub(crate) file: Option<PathBuf>,
    /// Write the ids alone, as `[1, 2, 3]`
    #[arg(long)]
    pub(crate) ids: bool,
    /// Write JSON: a list of objects with `id`, `text` and, where that is not UTF-8, `bytes`
    #[arg(long, conflicts_with = "ids")]
    pub(crate) json: bool,
    /// Don't put the model's begin and end tokens around the text
    #[arg(long, visible_alias = "no-bos")]
    pub(crate) no_special: bool,
    /// Read `<|im_start|>` and the like as plain text instead of as the tokens they spell
    #[arg(long)]
    pub(crate) no_parse_special: bool,
}
