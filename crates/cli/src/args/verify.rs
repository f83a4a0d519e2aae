//! `minfer verify`.

use clap::Args;
use clap::builder::RangedU64ValueParser;

use super::ModelArgs;
use crate::env::MAX_THREADS;

/// Check a model file whole: what is wrong with it, and whether it will run
///
/// Looks at the structure of the file, at keys, tensors and shapes of its architecture, at every block of every tensor
/// (NaN, infinity, stretches of zeros), at the tokenizer (pre-tokenizer, bytes without a token, special tokens), at the
/// chat template, and at the digest, which is compared with the pinned one of a model that has a short name. Then the
/// weights are loaded and a few tokens are run. The exit code is 0 for a model that runs as it should, and 1 for one that
/// is damaged or does not run.
#[derive(Args, Debug)]
#[command(after_long_help = "\
Examples:
  minfer verify smollm2-135m
  minfer verify model.gguf --json
  minfer verify huge.gguf --no-digest --no-run")]
pub(crate) struct VerifyArgs {
    #[command(flatten)]
    pub(crate) model: ModelArgs,
    /// Do not compute the SHA-256 of the file
    #[arg(long)]
    pub(crate) no_digest: bool,
    /// Do not load the weights and run tokens
    #[arg(long)]
    pub(crate) no_run: bool,
    /// Number of threads [default: one for each processor core that may be used]
    #[arg(short, long, value_name = "N", value_parser = RangedU64ValueParser::<usize>::new().range(1..=MAX_THREADS as u64))]
    pub(crate) threads: Option<usize>,
    /// Write JSON
    #[arg(long)]
    pub(crate) json: bool,
}
