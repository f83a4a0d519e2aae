//! `minfer ab`.

use clap::Args;
use minfer_engine::settings::{self, Settings};

use super::settings::of_run;
use super::{ModelArgs, PromptArgs, TokensArgs};

/// Run the same tokens under two settings and compare every value, bit by bit
///
/// The prompt, and tokens that side a finds most probable after it, run through both sides. Each node's value of each
/// token is compared with the value of the other side that stands for the same thing, be it computed alone or inside a
/// fused node, and so is what the cache of keys and values holds of each token. Reported are the first node that differs (in the order in which side a runs them), by how much, how the
/// difference grows from layer to layer up to the logits, and whether another token is chosen. The exit code is 0 when
/// all bits are equal and 1 when they are not. Two sides that are set the same are refused: they would be one.
#[derive(Args, Debug)]
#[command(after_long_help = after_help())]
pub(crate) struct AbArgs {
    #[command(flatten)]
    pub(crate) model: ModelArgs,
    #[command(flatten)]
    pub(crate) prompt: PromptArgs,
    #[command(flatten)]
    pub(crate) tokens: TokensArgs,
    /// Settings of the first side; see below; none for the defaults
    #[arg(long, value_name = "SETTINGS", default_value = "", hide_default_value = true, value_parser = of_run)]
    pub(crate) a: Settings,
    /// Settings of the second side; none for the defaults
    #[arg(long, value_name = "SETTINGS", default_value = "", hide_default_value = true, value_parser = of_run)]
    pub(crate) b: Settings,
    /// Tokens to generate after the prompt, one by one
    #[arg(short = 'n', long, visible_alias = "n-predict", value_name = "N", default_value_t = 8)]
    pub(crate) n_generate: usize,
    /// Write JSON
    #[arg(long)]
    pub(crate) json: bool,
}

fn after_help() -> String {
    format!(
        "{}\n\nExamples:\n  minfer ab smollm2-135m \"Once upon a time\" --b fuse=off\n  \
         minfer ab model.gguf -f text.txt --a isa=avx512 --b isa=scalar,threads=1\n  \
         minfer ab model-q8_0.gguf \"Hello\" --b model=model-q4_k.gguf --json",
        settings::help(false)
    )
}
