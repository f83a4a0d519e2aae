//! Runs one test part by part: between parts the clock stands, and what the machine allows at that moment is measured.
//!
//! A part of generating lasts about [`PART`], a part of reading at least a chunk. Measuring must not change what is measured:
//! it leaves the caches full of something else and the context's threads asleep, so before the clock goes on in generating,
//! the next step is taken once and undone.

use std::ops::ControlFlow;
use std::time::{Duration, Instant};

use minfer_cpu::limits::{self, Limits};
use minfer_engine::{Context, Row, SeqId};

use super::plan::Test;
use super::work::{Costs, Work};
use crate::error::CliError;
use crate::interrupt::Interrupt;
use crate::progress::{Meter, Unit};

/// A part lasts at least so long, or to the end of its phase. Limits of a shared machine hold for longer.
const PART: Duration = Duration::from_millis(50);
/// Limits are measured for a round of some milliseconds for each of these in a part, within bounds.
const PART_OF_A_ROUND: Duration = Duration::from_millis(100);
const MAX_ROUNDS: u128 = 8;

/// What a part of a run does.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Phase {
    /// Reads a prompt.
    Prompt,
    /// Generates token after token.
    Generation,
}

/// A part of a run between two looks at the machine.
#[derive(Clone, Copy, Debug, PartialEq)]
pub(super) struct Part {
    pub(super) phase: Phase,
    pub(super) time: Duration,
    pub(super) work: Work,
    /// What the machine allowed, on the average of just before and just after.
    pub(super) limits: Limits,
}

/// One run of a test.
#[derive(Clone, Debug, PartialEq)]
pub(super) struct Run {
    pub(super) parts: Vec<Part>,
}

impl Run {
    /// How long its parts took together.
    pub(super) fn time(&self) -> Duration {
        self.parts.iter().map(|part| part.time).sum()
    }
}

/// Runs tests one after the other in one sequence of a context.
pub(super) struct Runner<'a> {
    context: &'a mut Context,
    seq: SeqId,
    costs: Costs,
    limits: &'a limits::Meter,
    interrupt: &'a Interrupt,
}

impl<'a> Runner<'a> {
    pub(super) fn new(
        context: &'a mut Context,
        costs: Costs,
        limits: &'a limits::Meter,
        interrupt: &'a Interrupt,
    ) -> anyhow::Result<Self> {
        let seq = context.new_sequence()?;
        Ok(Self { context, seq, costs, limits, interrupt })
    }

    /// `n_runs` runs; with `warm_up`, those after a first one.
    pub(super) fn run(&mut self, test: &Test, n_runs: usize, warm_up: bool) -> anyhow::Result<Vec<Run>> {
        let mut meter = Meter::new("measuring", Unit::Things("runs"));
        self.context.truncate(self.seq, 0);
        self.read(test.n_depth, &mut |_, _| ())?;
        let n_warm = usize::from(warm_up);
        let mut runs = Vec::with_capacity(n_runs);
        for i in 0..n_warm + n_runs {
            self.context.truncate(self.seq, test.n_depth);
            let mut clock = Clock::new(self.limits);
            self.time_reading(test.n_prompt, &mut clock)?;
            self.time_generating(test.n_gen, &mut clock)?;
            runs.push(Run { parts: clock.parts });
            meter.update(i as u64 + 1, Some((n_warm + n_runs) as u64));
        }
        Ok(runs.split_off(n_warm))
    }

    fn time_reading(&mut self, n: usize, clock: &mut Clock<'_>) -> anyhow::Result<()> {
        clock.begin(Phase::Prompt);
        let first = self.context.tokens(self.seq).len();
        self.read(n, &mut |step, costs| {
            clock.add(costs.step(first + step.end, step.len(), step.end == n));
            if clock.is_due() {
                clock.end_part();
                clock.begin(Phase::Prompt);
            }
        })?;
        clock.end_part();
        Ok(())
    }

    fn time_generating(&mut self, n: usize, clock: &mut Clock<'_>) -> anyhow::Result<()> {
        for i in 0..n {
            if i == 0 || clock.is_due() {
                clock.end_part();
                self.step_and_forget()?;
                clock.begin(Phase::Generation);
            }
            self.step()?;
            clock.add(self.costs.step(self.context.tokens(self.seq).len(), 1, true));
        }
        clock.end_part();
        Ok(())
    }

    /// Reads `n` tokens; `chunk_done` is told which of them a step has read.
    fn read(
        &mut self,
        n: usize,
        chunk_done: &mut dyn FnMut(std::ops::Range<usize>, &Costs),
    ) -> anyhow::Result<()> {
        if n == 0 {
            return Ok(());
        }
        let first = self.context.tokens(self.seq).len();
        let tokens: Vec<_> = (first..first + n).map(|at| self.token(at)).collect();
        let (interrupt, costs, mut before) = (self.interrupt, &self.costs, 0);
        let mut go_on = |done| {
            chunk_done(before..done, costs);
            before = done;
            if interrupt.is_set() { ControlFlow::Break(()) } else { ControlFlow::Continue(()) }
        };
        self.context.prefill(self.seq, &tokens, &mut go_on)?;
        Ok(self.check()?)
    }

    fn step(&mut self) -> anyhow::Result<()> {
        let token = self.token(self.context.tokens(self.seq).len());
        self.context.step(&[Row { seq: self.seq, token, wants_logits: true }])?;
        Ok(self.check()?)
    }

    /// The next step, taken and undone.
    fn step_and_forget(&mut self) -> anyhow::Result<()> {
        let len = self.context.tokens(self.seq).len();
        self.step()?;
        self.context.truncate(self.seq, len);
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

/// Times the parts of a run, and measures limits between them.
struct Clock<'a> {
    meter: &'a limits::Meter,
    /// When the part began, and what it is.
    start: Instant,
    phase: Phase,
    work: Work,
    /// What the machine allowed just before it.
    before: Limits,
    parts: Vec<Part>,
}

impl<'a> Clock<'a> {
    fn new(meter: &'a limits::Meter) -> Self {
        let before = meter.beside(1);
        let (phase, work, parts) = (Phase::Prompt, Work::default(), Vec::new());
        Self { meter, start: Instant::now(), phase, work, before, parts }
    }

    /// A part begins now.
    fn begin(&mut self, phase: Phase) {
        self.phase = phase;
        self.start = Instant::now();
    }

    /// This has been done since the part began.
    fn add(&mut self, work: Work) {
        self.work += work;
    }

    fn is_due(&self) -> bool {
        self.start.elapsed() >= PART
    }

    /// The part ends now, if anything was done in it; limits are measured.
    fn end_part(&mut self) {
        let time = self.start.elapsed();
        let work = std::mem::take(&mut self.work);
        if work == Work::default() {
            return;
        }
        let n_rounds = (time.as_nanos() / PART_OF_A_ROUND.as_nanos()).clamp(1, MAX_ROUNDS);
        let after = self.meter.beside(n_rounds as usize);
        self.parts.push(Part { phase: self.phase, time, work, limits: average(self.before, after) });
        self.before = after;
    }
}

fn average(a: Limits, b: Limits) -> Limits {
    Limits {
        read_bytes: (a.read_bytes + b.read_bytes) / 2.0,
        dot_ops: (a.dot_ops + b.dot_ops) / 2.0,
        fma_ops: (a.fma_ops + b.fma_ops) / 2.0,
    }
}
