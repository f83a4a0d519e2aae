//! How a model is run: context, chunks, threads, cache, engines.

use std::path::PathBuf;

use clap::builder::RangedU64ValueParser;
use clap::{Args, ValueEnum};
use minfer_graph::KvType;

use crate::env::MAX_THREADS;
use crate::error::CliError;

/// Where these flags stand in the help.
const HEADING: &str = "Running";

/// Default of `--batch-size` and of `--ubatch-size`, as in llama.cpp.
const DEFAULT_N_BATCH: usize = 2048;
const DEFAULT_N_UBATCH: usize = 512;

/// The flags of every command that runs a model.
#[derive(Args, Debug)]
pub(crate) struct ContextArgs {
    /// Tokens that fit into the context, prompt and answer together; 0 for all that the model was trained for
    /// [default: 4096, or less if the model was trained for less]
    #[arg(short = 'c', long, value_name = "N", help_heading = HEADING)]
    pub(crate) ctx_size: Option<usize>,
    #[command(flatten)]
    pub(crate) compute: ComputeArgs,
    /// Write the graph of a decode step to a file, in the DOT language
    #[arg(long, value_name = "FILE", help_heading = HEADING)]
    pub(crate) dump_graph: Option<PathBuf>,
    /// Write the graph of a decode step to a file, as JSON
    #[arg(long, value_name = "FILE", help_heading = HEADING)]
    pub(crate) dump_graph_json: Option<PathBuf>,
}

/// What decides how fast a model runs, and not what it says.
#[derive(Args, Debug)]
pub(crate) struct ComputeArgs {
    /// Number of threads [default: one for each processor core that may be used]
    #[arg(short, long, value_name = "N", value_parser = RangedU64ValueParser::<usize>::new().range(1..=MAX_THREADS as u64), help_heading = HEADING)]
    pub(crate) threads: Option<usize>,
    /// Most tokens of a prompt in one step; the smaller of this and --ubatch-size counts
    #[arg(short, long, value_name = "N", default_value_t = DEFAULT_N_BATCH, help_heading = HEADING)]
    pub(crate) batch_size: usize,
    /// Most tokens of a prompt in one step (also -ub)
    #[arg(long, value_name = "N", default_value_t = DEFAULT_N_UBATCH, help_heading = HEADING)]
    pub(crate) ubatch_size: usize,
    /// Type that the cache keeps keys in (also -ctk)
    #[arg(long, value_name = "TYPE", default_value = "f16", help_heading = HEADING)]
    pub(crate) cache_type_k: CacheType,
    /// Type that the cache keeps values in (also -ctv); the same as for the keys
    #[arg(long, value_name = "TYPE", default_value = "f16", help_heading = HEADING)]
    pub(crate) cache_type_v: CacheType,
    /// Engines to use, by name, separated by commas; the cpu takes what no other does
    #[arg(long, value_name = "LIST", help_heading = HEADING)]
    pub(crate) backend: Option<String>,
}

/// What a cached key or value is kept as.
#[derive(Clone, Copy, Debug, PartialEq, Eq, ValueEnum)]
pub(crate) enum CacheType {
    /// Half precision
    F16,
    /// Single precision
    F32,
}

impl ComputeArgs {
    /// Most tokens of a prompt in one step.
    pub(crate) fn n_ubatch(&self) -> usize {
        self.ubatch_size.min(self.batch_size)
    }

    /// The type of the cache; keys and values have the same.
    pub(crate) fn kv_type(&self) -> Result<KvType, CliError> {
        match (self.cache_type_k, self.cache_type_v) {
            (CacheType::F16, CacheType::F16) => Ok(KvType::F16),
            (CacheType::F32, CacheType::F32) => Ok(KvType::F32),
            _ => Err(CliError::MixedCache),
        }
    }
}
