//! `minfer bench`, with the flags of llama-bench.

use std::path::PathBuf;

use clap::builder::RangedU64ValueParser;
use clap::{Args, ValueEnum};

use super::{CacheType, GpuArgs, ModelArgs};
use crate::env::MAX_THREADS;

/// Where the flags of the tests stand in the help.
const TESTS: &str = "Tests";
/// Where the others stand.
const HEADING: &str = "Running";

/// Measure how fast a model runs, and how near that is to what the machine can do
///
/// Flags and results are named as in llama-bench; lists are separated by commas, and every combination is measured.
/// The clock stops about every 50 ms (while a prompt is read, between its chunks), and the limits of the machine are measured
/// with as many threads: how fast they read memory that is in no cache, and the peak rate of the dot product in use.
/// `of read` is the share of that bandwidth that reading the weights (and the cached keys and values) once in each step
/// takes; `of peak` is the share of the peak rate that the products with the weights take. Each part of a run is compared
/// with the limits just before and after it; limits and shares are medians over the parts. One run of each test comes
/// before those that are counted.
#[derive(Args, Debug)]
#[command(after_long_help = "\
Examples:
  minfer bench smollm2-135m
  minfer bench model.gguf -p 512 -n 128 -t 1,2 -r 3
  minfer bench model.gguf -p 0 -n 64 -d 0,4096 -o json")]
pub(crate) struct BenchArgs {
    #[command(flatten)]
    pub(crate) model: ModelArgs,
    /// Read prompts of so many tokens; 0 for none
    #[arg(short = 'p', long, value_name = "N", value_delimiter = ',', default_value = "512", help_heading = TESTS)]
    pub(crate) n_prompt: Vec<usize>,
    /// Generate so many tokens, one by one; 0 for none
    #[arg(short = 'n', long, value_name = "N", value_delimiter = ',', default_value = "128", help_heading = TESTS)]
    pub(crate) n_gen: Vec<usize>,
    /// Read a prompt, then generate, as one test (may be repeated; also -pg)
    #[arg(long = "prompt-gen", value_name = "PROMPT,GEN", value_parser = parse_pair, help_heading = TESTS)]
    pub(crate) prompt_gen: Vec<(usize, usize)>,
    /// Tokens that are in the context before a test begins
    #[arg(short = 'd', long, value_name = "N", value_delimiter = ',', default_value = "0", help_heading = TESTS)]
    pub(crate) n_depth: Vec<usize>,
    /// How often each test is run
    #[arg(short, long, value_name = "N", default_value_t = 5, value_parser = RangedU64ValueParser::<usize>::new().range(1..=10_000), help_heading = TESTS)]
    pub(crate) repetitions: usize,
    /// Begin to count with the first run
    #[arg(long, help_heading = TESTS)]
    pub(crate) no_warmup: bool,
    /// Numbers of threads [default: one for each processor core that may be used]
    #[arg(short, long, value_name = "N", value_delimiter = ',', value_parser = RangedU64ValueParser::<usize>::new().range(1..=MAX_THREADS as u64), help_heading = HEADING)]
    pub(crate) threads: Vec<usize>,
    /// Most tokens of a prompt in one step; the smaller of this and --ubatch-size counts
    #[arg(short, long, value_name = "N", value_delimiter = ',', default_value = "2048", help_heading = HEADING)]
    pub(crate) batch_size: Vec<usize>,
    /// Most tokens of a prompt in one step (also -ub)
    #[arg(long, value_name = "N", value_delimiter = ',', default_value = "512", help_heading = HEADING)]
    pub(crate) ubatch_size: Vec<usize>,
    /// Types that the cache keeps keys and values in (also -ctk)
    #[arg(long, visible_alias = "cache-type-v", value_name = "TYPE", value_delimiter = ',', default_value = "f16", help_heading = HEADING)]
    pub(crate) cache_type_k: Vec<CacheType>,
    /// Engines to use, by name, separated by commas; the cpu takes what no other does
    #[arg(long, value_name = "LIST", help_heading = HEADING)]
    pub(crate) backend: Option<String>,
    #[command(flatten)]
    pub(crate) gpu: GpuArgs,
    /// Most memory that minfer may take, such as 8GiB or 500M
    #[arg(long, value_name = "SIZE", value_parser = crate::units::parse_bytes, help_heading = HEADING)]
    pub(crate) memory: Option<usize>,
    /// Write what ran when, with a track for each thread, to a file for Perfetto or chrome://tracing; of several settings,
    /// of the last ones
    #[arg(long, value_name = "FILE", help_heading = HEADING)]
    pub(crate) profile: Option<PathBuf>,
    /// How results are written; md, csv and jsonl show each one when it is there
    #[arg(short, long, value_name = "FORMAT", default_value = "md")]
    pub(crate) output: BenchFormat,
}

/// How results are written.
#[derive(Clone, Copy, Debug, PartialEq, Eq, ValueEnum)]
pub(crate) enum BenchFormat {
    /// A Markdown table
    Md,
    /// Comma-separated values
    Csv,
    /// A list of objects
    Json,
    /// An object a line
    Jsonl,
}

/// A value of `-pg` that cannot be read.
#[derive(Clone, Copy, Debug, PartialEq, Eq, thiserror::Error)]
#[error("expected two numbers, for instance 512,128")]
pub(crate) struct PairError;

fn parse_pair(text: &str) -> Result<(usize, usize), PairError> {
    let (prompt, generated) = text.split_once(',').ok_or(PairError)?;
    prompt.trim().parse().ok().zip(generated.trim().parse().ok()).ok_or(PairError)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_pair_is_two_numbers() {
        assert_eq!(parse_pair("512, 128"), Ok((512, 128)));
        for text in ["", "512", "512,", ",1", "1,2,3", "-1,2"] {
            assert_eq!(parse_pair(text), Err(PairError), "{text}");
        }
    }
}
