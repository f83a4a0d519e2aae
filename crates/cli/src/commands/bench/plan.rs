//! From lists of settings to tests.

use minfer_graph::KvType;

use crate::args::{BenchArgs, CacheType, ComputeArgs};
use crate::error::CliError;

/// How a context is set up.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) struct Setup {
    pub(super) n_threads: usize,
    pub(super) n_batch: usize,
    pub(super) n_ubatch: usize,
    pub(super) cache: CacheType,
}

/// What is timed.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) struct Test {
    /// Tokens of a prompt.
    pub(super) n_prompt: usize,
    /// Tokens generated after it.
    pub(super) n_gen: usize,
    /// Tokens that are in the context before; not timed.
    pub(super) n_depth: usize,
}

/// Every combination of the settings that need a context of their own.
pub(super) fn setups(args: &BenchArgs, default_n_threads: usize) -> Vec<Setup> {
    let default = [default_n_threads];
    let threads = if args.threads.is_empty() { &default[..] } else { &args.threads };
    let mut setups = Vec::new();
    for &n_batch in &args.batch_size {
        for &n_ubatch in &args.ubatch_size {
            for &cache in &args.cache_type_k {
                setups.extend(threads.iter().map(|&n_threads| Setup { n_threads, n_batch, n_ubatch, cache }));
            }
        }
    }
    setups
}

/// The tests of each setup, in llama-bench's order: prompts, generations, both. Errors if there are none.
pub(super) fn tests(args: &BenchArgs) -> Result<Vec<Test>, CliError> {
    let prompts = args.n_prompt.iter().map(|&n| (n, 0));
    let generations = args.n_gen.iter().map(|&n| (0, n));
    let pairs: Vec<_> = prompts.chain(generations).chain(args.prompt_gen.iter().copied()).collect();
    let depths = args.n_depth.iter();
    let tests = depths
        .flat_map(|&n_depth| pairs.iter().map(move |&(n_prompt, n_gen)| Test { n_prompt, n_gen, n_depth }));
    let tests: Vec<_> = tests.filter(|test| test.n_counted() > 0).collect();
    if tests.is_empty() { Err(CliError::NoTest) } else { Ok(tests) }
}

impl Setup {
    /// The settings of its context.
    pub(super) fn compute(&self, args: &BenchArgs) -> ComputeArgs {
        ComputeArgs {
            threads: Some(self.n_threads),
            threads_batch: Some(self.n_threads),
            batch_size: self.n_batch,
            ubatch_size: self.n_ubatch,
            cache_type_k: Some(self.cache),
            cache_type_v: None,
            backend: args.backend.clone(),
            gpu: args.gpu.clone(),
            memory: args.memory,
            packed_cache: None,
            trace: None,
            trace_nodes: Vec::new(),
            profile: args.profile.clone(),
        }
    }

    /// Most tokens of one step.
    pub(super) fn n_chunk(&self) -> usize {
        self.n_batch.min(self.n_ubatch)
    }

    pub(super) fn kv_type(&self) -> KvType {
        self.cache.into()
    }
}

impl Test {
    /// Positions that it takes up.
    pub(super) fn n_tokens(&self) -> usize {
        self.n_depth.saturating_add(self.n_counted())
    }

    /// Tokens that its rate counts.
    pub(super) fn n_counted(&self) -> usize {
        self.n_prompt.saturating_add(self.n_gen)
    }

    /// `pp512`, `tg128`, `pp512+tg128`, `tg128 @ d4096`.
    pub(super) fn name(&self) -> String {
        let part = |name, n: usize| (n > 0).then(|| format!("{name}{n}"));
        let parts: Vec<_> =
            [part("pp", self.n_prompt), part("tg", self.n_gen)].into_iter().flatten().collect();
        let depth = part(" @ d", self.n_depth).unwrap_or_default();
        parts.join("+") + &depth
    }
}

#[cfg(test)]
mod tests {
    use clap::Parser;

    use super::*;

    #[derive(Parser)]
    struct Only {
        #[command(flatten)]
        bench: BenchArgs,
    }

    fn parse(args: &[&str]) -> BenchArgs {
        Only::parse_from(["x", "model"].iter().chain(args)).bench
    }

    fn names(args: &[&str]) -> Vec<String> {
        tests(&parse(args)).unwrap().iter().map(Test::name).collect()
    }

    #[test]
    fn tests_come_in_llama_benchs_order() {
        assert_eq!(names(&[]), ["pp512", "tg128"]);
        assert_eq!(names(&["-p", "0", "-n", "16,32"]), ["tg16", "tg32"]);
        let all = names(&["-p", "8", "-n", "4", "--prompt-gen", "8,4", "-d", "0,64"]);
        assert_eq!(all, ["pp8", "tg4", "pp8+tg4", "pp8 @ d64", "tg4 @ d64", "pp8+tg4 @ d64"]);
        assert!(matches!(tests(&parse(&["-p", "0", "-n", "0"])), Err(CliError::NoTest)));
    }

    #[test]
    fn every_combination_is_a_setup() {
        let setups =
            setups(&parse(&["-t", "1,2", "--ubatch-size", "64,512", "--cache-type-k", "f16,f32"]), 9);
        assert_eq!(setups.len(), 8);
        assert_eq!((setups[0].n_threads, setups[1].n_threads), (1, 2));
        assert_eq!(super::setups(&parse(&[]), 9)[0].n_threads, 9);
    }
}
