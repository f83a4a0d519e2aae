//! One step for many tasks: decode rows of all streams, and chunks of the texts that are still to be read.
//!
//! This is the only loop body there is: a lone answer and an engine full of them go through it. What shares a step, and
//! how long the chunks are, changes when results come and never what they are.

use std::ops::ControlFlow;
use std::time::{Duration, Instant};

use minfer_graph::Head;

use crate::answer::Event;
use crate::context::{Context, Row};
use crate::error::EngineError;
use crate::speculate::StepCost;
use crate::task::{Share, StepRows, Task};

/// Takes the events of one task.
pub(crate) trait Listener {
    /// An event; breaking ends the task.
    fn event(&mut self, event: Event) -> ControlFlow<()>;
}

impl<F: FnMut(Event) -> ControlFlow<()>> Listener for F {
    fn event(&mut self, event: Event) -> ControlFlow<()> {
        self(event)
    }
}

/// A task that has a sequence, and who listens to it.
pub(crate) struct Seat<L> {
    pub(crate) task: Task,
    pub(crate) listener: L,
}

/// What a planned step does.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub(crate) struct StepSize {
    /// Streams that get their next token.
    pub(crate) n_streams: usize,
    /// Guesses that are verified.
    pub(crate) n_guesses: usize,
    /// Tokens of texts that are read.
    pub(crate) n_read: usize,
}

/// Plans and runs steps; keeps its memory from one to the next.
#[derive(Default)]
pub(crate) struct Stepper {
    rows: Vec<Row>,
    shares: Vec<Share>,
    size: StepSize,
    head: Head,
    /// The rows that the step gives: logits, or hidden values.
    out: Vec<f32>,
    cost: StepCost,
    /// Seconds that a draft model has taken for this step.
    guess_s: f64,
}

impl Stepper {
    /// Plans the next step of the tasks that want `head`: every stream, then at most `n_chunk` tokens of the texts to be
    /// read, in the order of `seats`.
    pub(crate) fn plan<L>(
        &mut self,
        context: &Context,
        seats: &[Seat<L>],
        head: Head,
        n_chunk: usize,
    ) -> StepSize {
        self.head = head;
        self.rows.clear();
        self.shares.clear();
        self.shares.resize(seats.len(), Share::default());
        let mut size = StepSize::default();
        let (max_tokens, max_out) = (context.n_ubatch(), context.n_outputs_max());
        let takes_part = |seat: &Seat<L>| {
            let task = &seat.task;
            task.is_active() && task.seq().is_some() && task.head() == head
        };
        let mut n_others = seats.iter().filter(|seat| takes_part(seat)).count();
        let mut n_out = 0;
        for streaming in [true, false] {
            for (seat, share) in seats.iter().zip(&mut self.shares) {
                let task = &seat.task;
                if !takes_part(seat) || task.is_streaming(context) != streaming {
                    continue;
                }
                // Memory is planned for so many tokens in a step; where streams alone are more, one is read still.
                let n_most = max_tokens.saturating_sub(size.n_streams + size.n_guesses).max(1).min(n_chunk);
                let n_tokens = if streaming { 1 } else { n_most.saturating_sub(size.n_read) };
                // Everyone gets a row of logits: one is kept back for each that comes later, whatever is guessed before.
                n_others -= 1;
                *share = task.share(context, n_tokens, max_out.saturating_sub(n_out + n_others).max(1));
                n_out += share.n_out;
                size.n_guesses += share.n_guesses;
                match streaming {
                    true => size.n_streams += 1,
                    false => size.n_read += share.n_text,
                }
            }
        }
        self.fill_rows(context, seats);
        self.size = size;
        size
    }

    /// Notes how long a draft model has taken for this step.
    pub(crate) fn set_guess_time(&mut self, elapsed: Duration) {
        self.guess_s = elapsed.as_secs_f64();
    }

    /// Runs the planned step and hands every task its rows. When the step fails, no text has changed.
    pub(crate) fn run<L: Listener>(
        &mut self,
        context: &mut Context,
        seats: &mut [Seat<L>],
    ) -> Result<(), EngineError> {
        let start = Instant::now();
        let head = self.head_of(context, seats);
        context.step_into(&self.rows, head, &mut self.out)?;
        if self.size.n_read == 0 && self.head == Head::Logits {
            self.cost.observe(self.rows.len(), start.elapsed());
        }
        let width = context.row_len(head);
        let mut rows = &self.out[..];
        for (seat, share) in seats.iter_mut().zip(&self.shares) {
            if share.n_text == 0 {
                continue;
            }
            let (own, rest) = rows.split_at(share.n_out * width);
            rows = rest;
            let listener = &mut seat.listener;
            let rows = StepRows { head, values: own };
            seat.task.commit(context, share, rows, &mut |event| listener.event(event));
            if share.n_guesses > 0 {
                self.judge(&mut seat.task);
            }
        }
        Ok(())
    }

    /// What the step gives: the best tokens, if they can be found where the logits are and nobody wants more of them.
    fn head_of<L>(&self, context: &Context, seats: &[Seat<L>]) -> Head {
        let wants_more = |(seat, share): (&Seat<L>, &Share)| share.n_out > 0 && !seat.task.takes_best();
        match self.head {
            Head::Logits if context.finds_best() && !seats.iter().zip(&self.shares).any(wants_more) => {
                Head::Best
            }
            head => head,
        }
    }

    /// Whether a task's guesses pay, beside the streams that there are now.
    fn judge(&self, task: &mut Task) {
        let n_streams = self.size.n_streams as f64;
        let n_rows = n_streams + task.speculator.mean_guessed();
        if let (Some(without), Some(with)) = (self.cost.seconds(n_streams), self.cost.seconds(n_rows)) {
            task.speculator.judge(without, with + self.guess_s);
        }
    }

    fn fill_rows<L>(&mut self, context: &Context, seats: &[Seat<L>]) {
        for (seat, share) in seats.iter().zip(&self.shares) {
            let Some(seq) = seat.task.seq() else { continue };
            let n_silent = share.n_text + share.n_guesses - share.n_out;
            for (i, token) in seat.task.share_tokens(context, share).enumerate() {
                self.rows.push(Row { seq, token, wants_logits: i >= n_silent });
            }
        }
    }
}
