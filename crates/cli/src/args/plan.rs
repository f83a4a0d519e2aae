//! `minfer plan`.

use clap::Args;
use clap::builder::RangedU64ValueParser;

use super::{ContextArgs, ModelArgs, SpeculationArgs};

/// Show how much memory running a model takes, part by part
///
/// Nothing is loaded but the head of the file. The sum is the most that the process will take with these settings, and the
/// largest context is what would fit in their place. When the sum is more than the machine, its control group or --memory
/// allows, the most sequences that would fit are shown, too, and the exit code is that of an error.
#[derive(Args, Debug)]
#[command(after_long_help = "\
Examples:
  minfer plan smollm2-135m
  minfer plan model.gguf -c 32768 -ctk f32 --memory 8GiB
  minfer plan model.gguf -np 8 --json
  minfer plan model.gguf -md small.gguf")]
pub(crate) struct PlanArgs {
    #[command(flatten)]
    pub(crate) model: ModelArgs,
    /// Sequences at once, each with a context of its own (also -np)
    #[arg(long, value_name = "N", default_value_t = 1, value_parser = RangedU64ValueParser::<usize>::new().range(1..=4096))]
    pub(crate) parallel: usize,
    /// Write JSON
    #[arg(long)]
    pub(crate) json: bool,
    #[command(flatten)]
    pub(crate) speculation: SpeculationArgs,
    #[command(flatten)]
    pub(crate) context: ContextArgs,
}
