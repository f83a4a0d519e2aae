//! `minfer bench`.

use clap::{Args, ValueEnum};

use super::ModelArgs;
use super::context::ComputeArgs;

/// Measure how fast a model reads prompts and generates
///
/// Two kinds of test, as llama-bench has them: `pp512` reads a prompt of 512 random tokens, `tg128` generates 128. Each
/// is run once to warm up and then --repetitions times. The figure after the rate of `tg` is the share of the machine's
/// measured read bandwidth that reading the weights once for each token takes.
#[derive(Args, Debug)]
#[command(after_long_help = "\
Examples:
  minfer bench smollm2-135m
  minfer bench model.gguf -p 128,512 -n 0 -r 10 -o json")]
pub(crate) struct BenchArgs {
    #[command(flatten)]
    pub(crate) model: ModelArgs,
    /// Prompt lengths, separated by commas; 0 for none
    #[arg(short = 'p', long, value_name = "N,...", value_delimiter = ',', default_value = "512")]
    pub(crate) n_prompt: Vec<usize>,
    /// Numbers of tokens to generate, separated by commas; 0 for none
    #[arg(short = 'n', long, value_name = "N,...", value_delimiter = ',', default_value = "128")]
    pub(crate) n_gen: Vec<usize>,
    /// How often each test is run
    #[arg(short, long, value_name = "N", default_value_t = 5, value_parser = clap::value_parser!(u32).range(1..))]
    pub(crate) repetitions: u32,
    /// How to write the results
    #[arg(short, long, value_name = "FORMAT", default_value = "md")]
    pub(crate) output: Format,
    #[command(flatten)]
    pub(crate) compute: ComputeArgs,
}

/// How the results are written.
#[derive(Clone, Copy, Debug, PartialEq, Eq, ValueEnum)]
pub(crate) enum Format {
    /// A table
    Md,
    /// Comma-separated values with a header
    Csv,
    /// A list of objects
    Json,
    /// One object a line
    Jsonl,
}
