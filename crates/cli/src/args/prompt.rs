//! Where a prompt comes from, for the commands that need nothing but one.

use std::path::PathBuf;

use clap::Args;

use crate::error::CliError;
use crate::input::Source;

/// A prompt as text.
#[derive(Args, Debug)]
pub(crate) struct PromptArgs {
    /// The prompt; standard input if none is given in any way
    #[arg(value_name = "PROMPT")]
    pub(crate) argument: Option<String>,
    /// The prompt, instead of an argument
    #[arg(
        short = 'p',
        long = "prompt",
        value_name = "TEXT",
        allow_hyphen_values = true,
        conflicts_with = "file"
    )]
    prompt: Option<String>,
    /// Read the prompt from a file; `-` is standard input; one line break at the end is dropped
    #[arg(short, long, value_name = "FILE")]
    file: Option<PathBuf>,
}

impl PromptArgs {
    /// Where the text comes from, `argument` being the one after the model.
    pub(crate) fn source(&self, argument: Option<String>) -> Result<Source, CliError> {
        Source::of(argument, self.prompt.clone(), self.file.clone())
    }
}

/// Token ids in place of a text.
#[derive(Args, Debug)]
pub(crate) struct TokensArgs {
    /// Token ids instead of a text: `1,2,3` or `[1, 2, 3]`
    #[arg(long, value_name = "IDS")]
    pub(crate) tokens: Option<String>,
}
