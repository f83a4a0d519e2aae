//! `minfer run`.

use std::path::PathBuf;

use clap::Args;

use super::render::parse_template_arg;
use super::{ContextArgs, ModelArgs, PromptArgs, SamplingArgs};

/// Answer a prompt, or hold a conversation
///
/// With a prompt, which may also come in on standard input, the answer is written and that is it. Without one, on a
/// terminal, a conversation begins; `/help` lists what it understands. The prompt is put into the model's chat template
/// unless --no-template says otherwise. Without a model, the default one is fetched and used.
#[derive(Args, Debug)]
#[command(after_long_help = "\
Examples:
  minfer run smollm2-135m \"Why is the sky blue?\"
  minfer run -m model.gguf -p \"Why is the sky blue?\" -n 100 --temp 0
  minfer run smollm2-135m
  cat letter.txt | minfer run qwen2.5-coder-0.5b --system \"Summarize the text.\"
  minfer run model.gguf --no-template \"Once upon a time\"")]
pub(crate) struct RunArgs {
    #[command(flatten)]
    pub(crate) model: ModelArgs,
    #[command(flatten)]
    pub(crate) prompt: PromptArgs,
    /// System message that the conversation begins with (also -sys)
    #[arg(long = "system-prompt", visible_alias = "system", value_name = "TEXT", allow_hyphen_values = true)]
    pub(crate) system: Option<String>,
    /// Continue the prompt as it is, without a chat template (also -no-cnv)
    #[arg(long, visible_aliases = ["raw", "no-conversation"], conflicts_with_all = ["system", "template_file", "template_args"])]
    pub(crate) no_template: bool,
    /// Use this chat template instead of the model's
    #[arg(long, visible_alias = "chat-template-file", value_name = "FILE")]
    pub(crate) template_file: Option<PathBuf>,
    /// Give the chat template an argument; VALUE is JSON, or else a string (may be repeated)
    #[arg(long = "arg", value_name = "KEY=VALUE", value_parser = parse_template_arg)]
    pub(crate) template_args: Vec<(String, serde_json::Value)>,
    /// Write how long it took to standard error
    #[arg(long)]
    pub(crate) timings: bool,
    #[command(flatten)]
    pub(crate) sampling: SamplingArgs,
    #[command(flatten)]
    pub(crate) context: ContextArgs,
}
