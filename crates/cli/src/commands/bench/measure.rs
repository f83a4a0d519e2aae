//! Runs one test, takes the time, and measures before and after each run what the machine allows at that moment.

use std::ops::ControlFlow;
use std::time::{Duration, Instant};

use minfer_cpu::limits::{self, Limits};
use minfer_engine::{Context, Row, SeqId};

use super::plan::Test;
use crate::error::CliError;
use crate::interrupt::Interrupt;
use crate::progress::{Meter, Unit};

/// One run of a test.
#[derive(Clone, Copy, Debug, PartialEq)]
pub(super) struct Run {
    pub(super) time: Duration,
    /// What the machine allowed, on the average of just before and just after.
    pub(super) limits: Limits,
}

/// Runs tests one after the other in one sequence of a context.
pub(super) struct Runner<'a> {
    context: &'a mut Context,
    seq: SeqId,
    limits: &'a limits::Meter,
    interrupt: &'a Interrupt,
}

impl<'a> Runner<'a> {
    pub(super) fn new(
        context: &'a mut Context,
        limits: &'a limits::Meter,
        interrupt: &'a Interrupt,
    ) -> anyhow::Result<Self> {
        let seq = context.new_sequence()?;
        Ok(Self { context, seq, limits, interrupt })
    }

    /// `n_runs` runs; with `warm_up`, those after a first one.
    pub(super) fn run(&mut self, test: &Test, n_runs: usize, warm_up: bool) -> anyhow::Result<Vec<Run>> {
        let mut meter = Meter::new("measuring", Unit::Things("runs"));
        self.context.truncate(self.seq, 0);
        self.read(test.n_depth)?;
        let n_warm = usize::from(warm_up);
        let mut runs = Vec::with_capacity(n_runs);
        let mut before = self.limits.sample();
        for i in 0..n_warm + n_runs {
            self.context.truncate(self.seq, test.n_depth);
            let start = Instant::now();
            self.read(test.n_prompt)?;
            self.generate(test.n_gen)?;
            let time = start.elapsed();
            let after = self.limits.sample();
            runs.push(Run { time, limits: average(before, after) });
            before = after;
            meter.update(i as u64 + 1, Some((n_warm + n_runs) as u64));
        }
        Ok(runs.split_off(n_warm))
    }

    fn read(&mut self, n: usize) -> anyhow::Result<()> {
        if n == 0 {
            return Ok(());
        }
        let first = self.context.tokens(self.seq).len();
        let tokens: Vec<_> = (first..first + n).map(|at| self.token(at)).collect();
        let go_on =
            |_| if self.interrupt.is_set() { ControlFlow::Break(()) } else { ControlFlow::Continue(()) };
        self.context.prefill(self.seq, &tokens, &mut { go_on })?;
        Ok(self.check()?)
    }

    fn generate(&mut self, n: usize) -> anyhow::Result<()> {
        for _ in 0..n {
            let token = self.token(self.context.tokens(self.seq).len());
            self.context.step(&[Row { seq: self.seq, token, wants_logits: true }])?;
            self.check()?;
        }
        Ok(())
    }

    fn check(&self) -> Result<(), CliError> {
        if self.interrupt.is_set() { Err(CliError::Interrupted) } else { Ok(()) }
    }

    /// Any token will do; these are spread over the vocabulary, so that the rows of the embedding are not in the cache.
    fn token(&self, at: usize) -> u32 {
        const STEP: u64 = 2_654_435_761;
        let n_vocab = self.context.model().n_vocab().max(1) as u64;
        ((at as u64).wrapping_mul(STEP) % n_vocab) as u32
    }
}

fn average(a: Limits, b: Limits) -> Limits {
    Limits {
        read_bytes: (a.read_bytes + b.read_bytes) / 2.0,
        dot_ops: (a.dot_ops + b.dot_ops) / 2.0,
        fma_ops: (a.fma_ops + b.fma_ops) / 2.0,
    }
}
