//! `minfer batch`.

use std::path::PathBuf;

use clap::Args;
use clap::builder::RangedU64ValueParser;

use super::{ContextArgs, OpenArgs, SpeculationArgs};

/// Answer a file of requests in the OpenAI batch format, many at once
///
/// Each line of IN is an object with `custom_id`, `method` (`POST`), `url` (`/v1/chat/completions` or `/v1/completions`) and
/// `body`. Each answer is a line that is appended to OUT and is on disk before the next one is written, in the order in which
/// answers are ready; a request that cannot be served gets a line with its error. Run again after it was stopped, even by
/// `kill -9`, it answers what has no line yet: nothing that is in OUT is lost or done twice. Each answer knows its request,
/// the model, and the settings that it depends on; where one of these has changed since, OUT is refused and stays as it is.
///
/// The exit code is 0 when all lines have an answer and at least one of those that this run wrote is no error, or when there
/// was nothing left to do; 4 when every request of this run was refused; else that of what stopped it.
#[derive(Args, Debug)]
#[command(after_long_help = "\
Examples:
  minfer batch requests.jsonl answers.jsonl -m smollm2-135m
  minfer batch requests.jsonl answers.jsonl -m model.gguf -np 16 -c 2048
  minfer batch requests.jsonl answers.jsonl -m model.gguf -np 1 -md small.gguf")]
pub(crate) struct BatchArgs {
    /// The requests, one a line
    #[arg(value_name = "IN")]
    pub(crate) input: PathBuf,
    /// The answers, one a line; what is there already stays
    #[arg(value_name = "OUT")]
    pub(crate) output: PathBuf,
    /// The model: a path, a name that `minfer models` lists, or a `pypi:` name [default: the one of `minfer run`]
    #[arg(short = 'm', long, value_name = "MODEL", help_heading = "Model")]
    pub(crate) model: Option<String>,
    #[command(flatten)]
    pub(crate) open: OpenArgs,
    /// Requests that are answered at once, each with a context of its own (also -np)
    #[arg(long, value_name = "N", default_value_t = 8, value_parser = RangedU64ValueParser::<usize>::new().range(1..=4096))]
    pub(crate) parallel: usize,
    #[command(flatten)]
    pub(crate) speculation: SpeculationArgs,
    #[command(flatten)]
    pub(crate) context: ContextArgs,
}
