//! The thread that owns the context: takes requests, plans steps, runs them.
//!
//! One turn: look for new requests and for those that are over, let in what there is room for, run one step, hand out what
//! came of it. Policy is in [`pace`](super::pace) and [`queue`](super::queue); here it is only carried out.

use std::ops::ControlFlow;
use std::sync::atomic::{AtomicUsize, Ordering};
use std::sync::mpsc::{Receiver, TryRecvError};
use std::sync::{Arc, Mutex, PoisonError};
use std::time::Instant;

use minfer_graph::Head;

use crate::answer::{Event, FinishReason};
use crate::context::Context;
use crate::error::EngineError;
use crate::speculate::Drafter;
use crate::step::{Listener, Seat, StepSize, Stepper};
use crate::task::Task;

use super::pace::Pace;
use super::queue::{Job, Over, Queue};
use super::stats::EngineStats;
use super::stream::Events;

pub(super) enum Command {
    /// A request.
    Submit(Box<Job>),
    /// A look at the context.
    Look(Box<dyn FnOnce(&mut Context) + Send>),
    /// End everything.
    Close,
}

/// What handles and the thread share.
#[derive(Default)]
pub(super) struct Shared {
    /// Requests that were submitted and do not run.
    pub(super) n_waiting: AtomicUsize,
    pub(super) stats: Mutex<EngineStats>,
}

/// A running job, less its task.
pub(super) struct Running {
    events: Events,
    priority: i32,
    submitted: Instant,
    deadline: Option<Instant>,
    last_token: Option<Instant>,
}

impl Listener for Running {
    fn event(&mut self, event: Event) -> ControlFlow<()> {
        if self.events.send(Ok(event)) { ControlFlow::Continue(()) } else { ControlFlow::Break(()) }
    }
}

pub(super) struct Worker {
    context: Context,
    commands: Receiver<Command>,
    shared: Arc<Shared>,
    queue: Queue,
    /// Higher priority first, then who came first.
    seats: Vec<Seat<Running>>,
    stepper: Stepper,
    drafter: Option<Box<Drafter>>,
    pace: Pace,
    is_closing: bool,
    stats: EngineStats,
}

impl Worker {
    pub(super) fn new(
        mut context: Context,
        commands: Receiver<Command>,
        shared: Arc<Shared>,
        pace: Pace,
    ) -> Self {
        let drafter = context.take_draft();
        Worker {
            context,
            drafter,
            commands,
            shared,
            queue: Queue::default(),
            seats: Vec::new(),
            stepper: Stepper::default(),
            pace,
            is_closing: false,
            stats: EngineStats::default(),
        }
    }

    /// Runs until nobody can submit any more and everything is done; gives the context back.
    pub(super) fn run(mut self) -> Context {
        while self.take_commands() {
            self.end_what_is_over();
            self.admit();
            self.step();
            self.leave();
            self.publish();
        }
        self.context.put_draft(self.drafter);
        self.context
    }

    /// Takes what has come; waits if there is nothing else to do. `false` at the end.
    fn take_commands(&mut self) -> bool {
        loop {
            let is_idle = self.seats.is_empty() && self.queue.len() == 0;
            let command = if is_idle && !self.is_closing {
                self.commands.recv().map_err(|_| TryRecvError::Disconnected)
            } else {
                self.commands.try_recv()
            };
            match command {
                // It came while the engine was being closed.
                Ok(Command::Submit(job)) if self.is_closing => self.interrupt(*job),
                Ok(Command::Submit(job)) => self.queue.push(*job),
                Ok(Command::Look(look)) => look(&mut self.context),
                Ok(Command::Close) => {
                    self.is_closing = true;
                    self.cancel_all();
                }
                Err(_) => return !is_idle,
            }
        }
    }

    /// Ends a request that has no seat.
    fn interrupt(&mut self, mut job: Job) {
        self.shared.n_waiting.fetch_sub(1, Ordering::Relaxed);
        job.task.end(FinishReason::Interrupted, &mut |_| ControlFlow::Continue(()));
        self.finish(job.task, &job.events);
    }

    fn cancel_all(&mut self) {
        while let Some(job) = self.queue.pop() {
            self.interrupt(job);
        }
        for seat in &mut self.seats {
            let listener = &mut seat.listener;
            seat.task.end(FinishReason::Interrupted, &mut |event| listener.event(event));
        }
        self.leave();
    }

    /// Ends requests that nobody wants any more, and those whose time is up.
    fn end_what_is_over(&mut self) {
        let now = Instant::now();
        for (mut job, why) in self.queue.take_over(now) {
            self.shared.n_waiting.fetch_sub(1, Ordering::Relaxed);
            let nobody = &mut |_| ControlFlow::Continue(());
            match why {
                Over::Cancelled => job.task.end(FinishReason::Interrupted, nobody),
                Over::Deadline => job.task.end(FinishReason::Deadline, nobody),
                Over::Waited(waited) => job.task.fail(EngineError::WaitedTooLong { waited }),
            }
            self.finish(job.task, &job.events);
        }
        for seat in &mut self.seats {
            let listener = &mut seat.listener;
            let reason = if listener.events.is_cancelled() {
                FinishReason::Interrupted
            } else if listener.deadline.is_some_and(|deadline| deadline <= now) {
                FinishReason::Deadline
            } else {
                continue;
            };
            seat.task.end(reason, &mut |event| listener.event(event));
        }
        self.leave();
    }

    /// Lets requests in as long as there is a sequence and, should all grow to their full length, memory.
    fn admit(&mut self) {
        while let Some(job) = self.queue.first() {
            let n_blocks = self.context.n_blocks_for(job.task.max_len());
            if self.seats.len() >= self.context.n_seq_max() || !self.has_room(n_blocks) {
                return;
            }
            let Some(mut job) = self.queue.pop() else { return };
            self.shared.n_waiting.fetch_sub(1, Ordering::Relaxed);
            job.task.set_queued(job.submitted.elapsed());
            self.seat(job);
        }
    }

    /// Whether `n_blocks` more are there even if all that runs grows to its full length. With nothing running they are:
    /// a request that the whole cache cannot hold was refused.
    fn has_room(&self, n_blocks: usize) -> bool {
        let growth = |seat: &Seat<Running>| {
            let held = seat.task.seq().map_or(0, |seq| self.context.n_blocks_of(seq));
            self.context.n_blocks_for(seat.task.max_len()).saturating_sub(held)
        };
        let promised: usize = self.seats.iter().map(growth).sum();
        let counts = self.context.kv_blocks();
        self.seats.is_empty() || promised + n_blocks <= counts.cached + counts.free
    }

    fn seat(&mut self, job: Job) {
        let Job { task, events, priority, submitted, deadline, begin_by: _ } = job;
        let at = self.seats.partition_point(|seat| {
            let other = &seat.listener;
            (other.priority, std::cmp::Reverse(other.submitted)) >= (priority, std::cmp::Reverse(submitted))
        });
        let listener = Running { events, priority, submitted, deadline, last_token: None };
        self.seats.insert(at, Seat { task, listener });
    }

    /// One step of all answers, then one of the texts that are embedded. With both, each gets half of what streams can
    /// wait for.
    fn step(&mut self) {
        let n_streams = self.seats.iter().filter(|seat| seat.task.is_streaming(&self.context)).count();
        let n_chunk = self.pace.chunk(n_streams);
        self.begin_next(n_chunk);
        self.guess(n_chunk);
        let embeds = self.seats.iter().any(|seat| seat.task.head() == Head::Hidden);
        let n_chunk = if embeds && n_streams > 0 { n_chunk.div_ceil(2) } else { n_chunk };
        self.step_of(Head::Logits, n_chunk);
        if embeds {
            self.step_of(Head::Hidden, n_chunk);
        }
    }

    /// One step of the tasks that want `head`.
    fn step_of(&mut self, head: Head, n_chunk: usize) {
        let start = Instant::now();
        let size = self.stepper.plan(&self.context, &self.seats, head, n_chunk);
        if size == StepSize::default() {
            return;
        }
        let before: Vec<usize> = self.seats.iter().map(|seat| seat.task.n_generated()).collect();
        match self.stepper.run(&mut self.context, &mut self.seats) {
            Ok(()) => {}
            Err(EngineError::OutOfBlocks { .. }) if self.seats.len() > 1 => return self.suspend_last(),
            Err(error) => return self.fail_all(&error),
        }
        self.pace.observe(size, start.elapsed());
        self.note_tokens(&before);
        self.stats.batches.add(size.n_streams);
        self.stats.n_steps += 1;
        self.stats.n_prompt += size.n_read as u64;
    }

    /// Guesses ahead for the requests that want it.
    fn guess(&mut self, n_chunk: usize) {
        for seat in &mut self.seats {
            seat.task.guess_from_text();
        }
        if let Some(drafter) = &mut self.drafter {
            match drafter.guess(&self.context, &mut self.seats, n_chunk) {
                Ok(elapsed) => self.stepper.set_guess_time(elapsed),
                Err(error) => self.fail_all(&error),
            }
        }
    }

    /// Gives up the sequence of a task.
    fn suspend(&mut self, task: &mut Task) {
        if let (Some(drafter), Some(seq)) = (&mut self.drafter, task.seq()) {
            drafter.forget(seq);
        }
        task.suspend(&mut self.context);
    }

    /// Begins requests that have a seat, as many as fill the next chunk. One that begins as another does that is being
    /// read waits for it, and finds in the cache what that one has read.
    fn begin_next(&mut self, n_chunk: usize) {
        let mut n_room =
            n_chunk.saturating_sub(self.being_read().map(|task| task.n_unread(&self.context)).sum());
        for at in 0..self.seats.len() {
            if n_room == 0 {
                return;
            }
            if self.seats[at].task.seq().is_some() || self.gains_by_waiting(&self.seats[at].task) {
                continue;
            }
            let (task, context) = (&mut self.seats[at].task, &mut self.context);
            let begun = context.new_sequence().and_then(|seq| task.begin(context, seq));
            match begun {
                Ok(()) => n_room = n_room.saturating_sub(task.n_unread(context)),
                Err(error) => task.fail(error),
            }
        }
    }

    /// Tasks that have begun and have no answer yet.
    fn being_read(&self) -> impl Iterator<Item = &Task> {
        let is_read = |task: &&Task| task.seq().is_some() && !task.is_streaming(&self.context);
        self.seats.iter().map(|seat| &seat.task).filter(is_read)
    }

    /// Whether another will soon have read a block of this text that it has not read yet.
    fn gains_by_waiting(&self, task: &Task) -> bool {
        self.being_read().any(|other| {
            let n_common = task.text().iter().zip(other.text()).take_while(|(a, b)| a == b).count();
            let n_held = other.text().len() - other.n_unread(&self.context);
            n_common >= n_held + self.context.block_len()
        })
    }

    /// Takes the memory of the request that came last and has the least priority; it begins again when there is room.
    fn suspend_last(&mut self) {
        let Some(Seat { mut task, listener }) = self.seats.pop() else { return };
        self.suspend(&mut task);
        let Running { events, priority, submitted, deadline, last_token: _ } = listener;
        self.shared.n_waiting.fetch_add(1, Ordering::Relaxed);
        self.queue.push_first(Job { task, events, priority, submitted, deadline, begin_by: None });
        self.stats.n_suspended += 1;
    }

    /// A step that fails takes all that was in it with it.
    fn fail_all(&mut self, error: &EngineError) {
        for seat in &mut self.seats {
            seat.task.fail(error.of_step());
        }
    }

    /// Notes how long streams have waited for the tokens of this step.
    fn note_tokens(&mut self, before: &[usize]) {
        let now = Instant::now();
        for (seat, before) in self.seats.iter_mut().zip(before) {
            let n_new = seat.task.n_generated() - before;
            if n_new == 0 {
                continue;
            }
            self.stats.n_generated += n_new as u64;
            if let Some(last) = seat.listener.last_token.replace(now) {
                self.stats.stalls.add(now.saturating_duration_since(last));
            }
        }
    }

    /// Takes out what has ended; its memory is free at once.
    fn leave(&mut self) {
        let mut at = 0;
        while at < self.seats.len() {
            if self.seats[at].task.is_active() {
                at += 1;
                continue;
            }
            let Seat { mut task, listener } = self.seats.remove(at);
            self.suspend(&mut task);
            self.finish(task, &listener.events);
        }
    }

    fn finish(&mut self, task: Task, events: &Events) {
        self.stats.n_finished += 1;
        let answer = task.into_answer();
        if let Ok(answer) = &answer {
            self.stats.n_cached += answer.timings.n_cached as u64;
        }
        // Published before the last event: whoever has seen that finds it in the figures.
        self.publish();
        events.send(answer.map(|answer| Event::Done(Box::new(answer))));
    }

    fn publish(&mut self) {
        self.stats.n_running = self.seats.len();
        self.stats.n_waiting = self.queue.len();
        self.stats.blocks = self.context.kv_blocks();
        self.shared.stats.lock().unwrap_or_else(PoisonError::into_inner).clone_from(&self.stats);
    }
}
