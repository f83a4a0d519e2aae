//! `minfer run`.

use std::path::PathBuf;

use clap::Args;

use super::render::parse_template_arg;
use super::{ContextArgs, GrammarArgs, ModelArgs, PromptArgs, SamplingArgs};

/// Answer a prompt, or hold a conversation
///
/// With a prompt, which may also come in on standard input, the answer is written to standard output, byte for byte as
/// the model gives it. Without one, on a terminal, a conversation begins; `/help` lists what it understands. The prompt
/// is put into the model's chat template unless --no-template says otherwise.
///
/// The first argument is always the model. Without arguments (`minfer run`, `minfer run -p PROMPT`) it is the default one.
/// With `-n 0`, no prompt and --dump-graph, the graph is written and nothing is run.
#[derive(Args, Debug)]
#[command(after_long_help = "\
Examples:
  minfer run smollm2-135m \"Why is the sky blue?\"
  minfer run -m model.gguf -p \"Why is the sky blue?\" -n 100 --temp 0
  minfer run smollm2-135m
  cat letter.txt | minfer run qwen2.5-coder-0.5b --system \"Summarize the text.\"
  minfer run model.gguf --no-template \"Once upon a time\"
  minfer run model.gguf --session letter.session -p \"$(cat letter.txt)\"
  minfer run model.gguf -p \"Is water wet?\" --grammar 'root ::= \"yes\" | \"no\"'
  minfer run model.gguf -p \"Invent a person.\" -n 100 -jf person.schema.json
  minfer run model.gguf -md small.gguf -p \"Why is the sky blue?\"
  minfer run model.gguf -n 0 --dump-graph graph.dot")]
pub(crate) struct RunArgs {
    #[command(flatten)]
    pub(crate) model: ModelArgs,
    #[command(flatten)]
    pub(crate) prompt: PromptArgs,
    #[command(flatten)]
    pub(crate) chat: ChatArgs,
    /// Keep in FILE what the model has read and generated, so that a prompt that begins the same is not read again: it is
    /// restored from FILE, if that is there, and saved after each answer. Without --seed, draws go on where they ended, too.
    /// Nothing is added to the prompt: messages of an earlier conversation are not restored
    #[arg(long, visible_alias = "prompt-cache", value_name = "FILE")]
    pub(crate) session: Option<PathBuf>,
    /// Begin with what the session holds, and don't save it
    #[arg(long, visible_alias = "prompt-cache-ro", requires = "session")]
    pub(crate) session_ro: bool,
    /// Write the tokens of the prompt to standard error first
    #[arg(long)]
    pub(crate) verbose_prompt: bool,
    /// Don't write how long it took to standard error
    #[arg(long, visible_alias = "no-perf")]
    pub(crate) no_timings: bool,
    #[command(flatten)]
    pub(crate) sampling: SamplingArgs,
    #[command(flatten)]
    pub(crate) grammar: GrammarArgs,
    #[command(flatten)]
    pub(crate) context: ContextArgs,
}

/// Where these flags stand in the help.
const HEADING: &str = "Conversation";

/// What becomes of a prompt before the model reads it.
#[derive(Args, Debug)]
pub(crate) struct ChatArgs {
    /// System message that the conversation begins with (also -sys)
    #[arg(long = "system-prompt", visible_alias = "system", value_name = "TEXT", allow_hyphen_values = true, help_heading = HEADING)]
    pub(crate) system: Option<String>,
    /// Go on with a conversation after the answer to the prompt (also -cnv)
    #[arg(long, help_heading = HEADING)]
    pub(crate) conversation: bool,
    /// Continue the prompt as it is, without a chat template (also -no-cnv)
    #[arg(long, visible_aliases = ["raw", "no-conversation"], conflicts_with_all = ["system", "template_file", "template_args", "conversation"], help_heading = HEADING)]
    pub(crate) no_template: bool,
    /// Use this chat template instead of the model's
    #[arg(long, visible_alias = "chat-template-file", value_name = "FILE", help_heading = HEADING)]
    pub(crate) template_file: Option<PathBuf>,
    /// Give the chat template an argument; VALUE is JSON, or else a string (may be repeated)
    #[arg(long = "arg", value_name = "KEY=VALUE", value_parser = parse_template_arg, help_heading = HEADING)]
    pub(crate) template_args: Vec<(String, serde_json::Value)>,
}
