//! `minfer bench`: rates of reading and generating, as llama-bench measures them.
//!
//! A `pp` test reads random tokens in chunks; a `tg` test begins with an empty context and adds one random token a step.
//! Which tokens they are makes no difference to the work.

mod bandwidth;
mod machine;
mod report;
mod result;

use std::sync::Arc;
use std::time::{Duration, Instant};

use minfer_engine::{Context, Model, Row, SeqId};

use crate::args::BenchArgs;
use crate::engine;
use crate::error::CliError;
use crate::progress::{Meter, Unit};
use crate::shell::Shell;

use report::Report;
use result::{Measured, Setup};

pub(super) fn run(args: &BenchArgs, shell: &mut Shell) -> anyhow::Result<()> {
    let tests = tests(args)?;
    let model = engine::load(args.model.name()?, &args.model.open)?;
    let n_ctx = tests.iter().map(|test| test.n_tokens()).max().unwrap_or(1);
    let mut context = engine::with_size(&model, n_ctx, &args.compute, shell)?;
    let mut setup = Setup::new(&model, &context, args);
    let mut report = Report::new(args.output);
    for test in &tests {
        // Beside each test: on a shared machine the limit moves.
        setup.read_bytes_per_second = bandwidth::measure(context.n_threads(), shell.env.isa.as_deref());
        let measured = measure(&mut context, &model, *test, args.repetitions)?;
        report.add(setup.result(*test, &measured), &mut shell.out)?;
    }
    report.finish(&mut shell.out)?;
    engine::finish(&mut context)
}

/// What is measured.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Test {
    /// Reading a prompt of so many tokens.
    Prompt(usize),
    /// Generating so many tokens.
    Generate(usize),
}

impl Test {
    fn n_tokens(self) -> usize {
        match self {
            Self::Prompt(n) | Self::Generate(n) => n,
        }
    }
}

fn tests(args: &BenchArgs) -> Result<Vec<Test>, CliError> {
    let prompts = args.n_prompt.iter().filter(|n| **n > 0).map(|n| Test::Prompt(*n));
    let generations = args.n_gen.iter().filter(|n| **n > 0).map(|n| Test::Generate(*n));
    let tests: Vec<_> = prompts.chain(generations).collect();
    if tests.is_empty() { Err(CliError::Missing { what: "test (-p and -n are both 0)" }) } else { Ok(tests) }
}

fn measure(
    context: &mut Context,
    model: &Arc<Model>,
    test: Test,
    repetitions: u32,
) -> anyhow::Result<Measured> {
    let seq = context.new_sequence()?;
    let mut tokens = RandomTokens::new(model.n_vocab());
    let mut meter = Meter::new("measuring", Unit::Things("runs"));
    let mut samples = Vec::new();
    for run in 0..=repetitions {
        let ids = tokens.take(test.n_tokens());
        context.truncate(seq, 0);
        let time = time_once(context, seq, test, &ids)?;
        // The first run warms up: graphs are made, weights come into memory.
        if run > 0 {
            samples.push(time);
        }
        meter.update(u64::from(run), Some(repetitions.into()));
    }
    context.free_sequence(seq);
    Ok(Measured { samples })
}

fn time_once(context: &mut Context, seq: SeqId, test: Test, ids: &[u32]) -> anyhow::Result<Duration> {
    let start = Instant::now();
    match test {
        Test::Prompt(_) => {
            context.prefill(seq, ids, &mut |_| std::ops::ControlFlow::Continue(()))?;
        }
        Test::Generate(_) => {
            for &token in ids {
                context.step(&[Row { seq, token, wants_logits: true }])?;
            }
        }
    }
    Ok(start.elapsed())
}

/// Token ids, the same in every run of the program.
struct RandomTokens {
    state: u64,
    n_vocab: u64,
}

impl RandomTokens {
    fn new(n_vocab: usize) -> Self {
        Self { state: 1, n_vocab: n_vocab as u64 }
    }

    fn take(&mut self, n: usize) -> Vec<u32> {
        (0..n).map(|_| self.next()).collect()
    }

    /// Knuth's linear congruential generator; its high bits are good enough here.
    fn next(&mut self) -> u32 {
        self.state =
            self.state.wrapping_mul(6_364_136_223_846_793_005).wrapping_add(1_442_695_040_888_963_407);
        ((self.state >> 33) % self.n_vocab) as u32
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn random_tokens_are_in_the_vocabulary_and_differ() {
        let ids = RandomTokens::new(100).take(1000);
        assert!(ids.iter().all(|id| *id < 100));
        let distinct: std::collections::HashSet<_> = ids.iter().collect();
        assert!(distinct.len() > 90);
    }
}
