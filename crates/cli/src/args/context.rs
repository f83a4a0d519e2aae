//! How a model is run: context, chunks, threads, cache, engines, traces.

use std::path::PathBuf;

use clap::builder::RangedI64ValueParser;
use clap::{Args, ValueEnum};
use minfer_graph::KvType;

use super::{DumpArgs, GpuArgs};
use crate::env::MAX_THREADS;
use crate::error::CliError;

/// Where these flags stand in the help.
const HEADING: &str = "Running";

/// Default of `--batch-size` and of `--ubatch-size`, as in llama.cpp.
const DEFAULT_N_BATCH: usize = 2048;
const DEFAULT_N_UBATCH: usize = 512;

/// The flags of every command that runs a model on a prompt.
#[derive(Args, Debug)]
pub(crate) struct ContextArgs {
    /// Tokens that fit into the context, prompt and answer together; 0 for all that the model was trained for
    /// [default: 4096, or less if the model was trained for less]
    #[arg(short = 'c', long, value_name = "N", help_heading = HEADING)]
    pub(crate) ctx_size: Option<usize>,
    #[command(flatten)]
    pub(crate) compute: ComputeArgs,
    #[command(flatten)]
    pub(crate) dump: DumpArgs,
}

/// What decides how fast a model runs, and not what it says.
#[derive(Args, Debug)]
pub(crate) struct ComputeArgs {
    /// Number of threads [default: one for each processor core that may be used]
    #[arg(short, long, value_name = "N", value_parser = n_threads(), allow_negative_numbers = true, help_heading = HEADING)]
    pub(crate) threads: Option<usize>,
    /// Number of threads for steps that read prompts, also when other sequences generate in them, or check guesses (also -tb)
    /// [default: as --threads]
    #[arg(long, value_name = "N", value_parser = n_threads(), allow_negative_numbers = true, help_heading = HEADING)]
    pub(crate) threads_batch: Option<usize>,
    /// Most tokens of a prompt in one step; the smaller of this and --ubatch-size counts
    #[arg(short, long, value_name = "N", default_value_t = DEFAULT_N_BATCH, help_heading = HEADING)]
    pub(crate) batch_size: usize,
    /// Most tokens of a prompt in one step (also -ub)
    #[arg(long, value_name = "N", default_value_t = DEFAULT_N_UBATCH, help_heading = HEADING)]
    pub(crate) ubatch_size: usize,
    /// Type that the cache keeps keys in, and values unless told otherwise (also -ctk) [default: f16]
    #[arg(long, value_name = "TYPE", help_heading = HEADING)]
    pub(crate) cache_type_k: Option<CacheType>,
    /// Type that the cache keeps values in; it has to be that of the keys (also -ctv) [default: f16]
    #[arg(long, value_name = "TYPE", help_heading = HEADING)]
    pub(crate) cache_type_v: Option<CacheType>,
    /// Engines to use, by name, separated by commas; the cpu takes what no other does
    #[arg(long, value_name = "LIST", help_heading = HEADING)]
    pub(crate) backend: Option<String>,
    #[command(flatten)]
    pub(crate) gpu: GpuArgs,
    /// Most memory that minfer may take, such as 8GiB or 500M; what does not fit is refused before anything is loaded
    /// [default: what the machine and the control group have]
    #[arg(long, value_name = "SIZE", value_parser = crate::units::parse_bytes, help_heading = HEADING)]
    pub(crate) memory: Option<usize>,
    /// Most bytes of packed weights that are kept on disk, in the folder `packed` beside the models, so that the next start is
    /// quicker; those not used for longest go first, and 0 keeps and reads none
    /// [default: 8GiB]
    #[arg(long, value_name = "SIZE", value_parser = crate::units::parse_bytes_or_zero, help_heading = HEADING)]
    pub(crate) packed_cache: Option<usize>,
    /// Write the values of the nodes of every step to an archive of NumPy
    #[arg(long, value_name = "FILE", help_heading = HEADING)]
    pub(crate) trace: Option<PathBuf>,
    /// Write what ran when, with a track for each thread, to a file for Perfetto or chrome://tracing
    #[arg(long, value_name = "FILE", help_heading = HEADING)]
    pub(crate) profile: Option<PathBuf>,
    /// Names of the nodes that are traced, separated by commas; `*` stands for any text; each must be the name of some node
    /// [default: all]
    #[arg(long, value_name = "LIST", value_delimiter = ',', help_heading = HEADING)]
    pub(crate) trace_nodes: Vec<String>,
}

/// Signed, so that -1 is told what it is: out of range.
fn n_threads() -> RangedI64ValueParser<usize> {
    RangedI64ValueParser::new().range(1..=MAX_THREADS as i64)
}

/// What a cached key or value is kept as.
#[derive(Clone, Copy, Debug, PartialEq, Eq, ValueEnum)]
pub(crate) enum CacheType {
    /// Half precision
    F16,
    /// Single precision
    F32,
    /// Int8 with a scale for each 32 elements: about half of f16
    #[value(name = "q8_0")]
    Q8_0,
}

impl ComputeArgs {
    /// Most tokens of a prompt in one step.
    pub(crate) fn n_ubatch(&self) -> usize {
        self.ubatch_size.min(self.batch_size)
    }

    /// The type of the cache; keys and values have the same.
    pub(crate) fn kv_type(&self) -> Result<KvType, CliError> {
        match (self.cache_type_k, self.cache_type_v) {
            (Some(k), Some(v)) if k != v => Err(CliError::MixedCache),
            (k, v) => Ok(k.or(v).unwrap_or(CacheType::F16).into()),
        }
    }
}

impl From<CacheType> for KvType {
    fn from(cache: CacheType) -> Self {
        match cache {
            CacheType::F16 => Self::F16,
            CacheType::F32 => Self::F32,
            CacheType::Q8_0 => Self::Q8_0,
        }
    }
}

#[cfg(test)]
mod tests {
    use clap::Parser;

    use super::*;

    #[derive(Parser)]
    struct Only {
        #[command(flatten)]
        compute: ComputeArgs,
    }

    fn parse(args: &[&str]) -> ComputeArgs {
        Only::parse_from(["x"].iter().chain(args)).compute
    }

    #[test]
    fn one_type_of_the_cache_counts_for_both() {
        let kv_type = |args| parse(args).kv_type().ok();
        assert_eq!(kv_type(&[]), Some(KvType::F16));
        assert_eq!(kv_type(&["--cache-type-k", "f32"]), Some(KvType::F32));
        assert_eq!(kv_type(&["--cache-type-v", "f32"]), Some(KvType::F32));
        assert_eq!(kv_type(&["--cache-type-k", "q8_0", "--cache-type-v", "q8_0"]), Some(KvType::Q8_0));
        assert_eq!(kv_type(&["--cache-type-k", "f32", "--cache-type-v", "f16"]), None);
    }

    #[test]
    fn threads_that_there_cannot_be_are_refused_by_their_range() {
        for (flag, value) in
            [("-t", "0"), ("-t", "-1"), ("--threads-batch", "-1"), ("--threads-batch", "513")]
        {
            let error = Only::try_parse_from(["x", flag, value]).err().unwrap().to_string();
            assert!(error.contains(&format!("{value} is not in 1..=512")), "{error}");
        }
        let args = parse(&["-t", "2", "--threads-batch", "4"]);
        assert_eq!((args.threads, args.threads_batch), (Some(2), Some(4)));
    }

    #[test]
    fn the_smaller_batch_counts() {
        assert_eq!(parse(&[]).n_ubatch(), 512);
        assert_eq!(parse(&["-b", "64"]).n_ubatch(), 64);
        assert_eq!(parse(&["--ubatch-size", "32"]).n_ubatch(), 32);
    }
}
