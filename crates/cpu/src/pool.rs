//! The thread pool: fork and join for long chains of short dependent ops.
//!
//! [`Pool::run`] cuts an op into a fixed number of pieces; the caller and the workers claim them one by one. Which
//! thread runs a piece depends on timing, what a piece computes never does, so results are the same for any number of
//! threads.
//!
//! * The caller works too, and waits only for pieces that a worker has already started. A worker that the system has
//!   taken off its core delays nothing but the piece in its hands.
//! * A worker without work spins for [`SPIN`], then sleeps: longer than the serial ops of a step, so that it is woken once
//!   a step; much longer spinning uses up its share of a busy core, and is paid for by being taken off in the middle of a
//!   piece.
//! * A panic in a piece is carried to the caller, after every piece has ended.
//! * [`Pool::pair`] makes two pools of one set of threads. An op of the smaller one invites only the threads that both
//!   have; the others sleep through it, whatever the ops between.
//!
//! The trap: generation, piece count and next piece must be in *one* atomic word. With the count beside it, a late
//! worker can pair an old generation with a new count and run a piece past the end.

#![expect(unsafe_code, reason = "closures of the caller are lent to the workers")]

mod event;
mod record;
mod split;

use std::any::Any;
use std::panic::{AssertUnwindSafe, catch_unwind, resume_unwind};
use std::sync::atomic::Ordering::{AcqRel, Acquire, Relaxed, Release, SeqCst};
use std::sync::atomic::{AtomicBool, AtomicPtr, AtomicU32, AtomicU64};
use std::sync::{Arc, Mutex, PoisonError};
use std::thread::JoinHandle;
use std::time::{Duration, Instant};

use event::Event;
pub use record::WorkSpan;
use record::{Open, Recorder};
pub use split::{Cost, SharedOut, piece_range};

/// How long an idle worker spins before it sleeps. Of 5 and 20 microseconds the first means 27 context switches in a
/// decode step of a small model, the second 2; beside a busy process they are equal within 2 %.
pub const SPIN: Duration = Duration::from_micros(20);

/// The caller spins for a started piece between these two bounds (twice its own time per piece), then sleeps: its core
/// goes idle, and the system may move the stalled worker there.
const CALLER_SPIN_US: (u64, u64) = (4, 50);

/// The most pieces of one [`Pool::run`]: the piece numbers are 16 bits wide.
pub const MAX_PIECES: usize = u16::MAX as usize;

/// Most threads of one pool.
pub const MAX_THREADS: usize = 512;

/// A pool could not be started.
#[derive(Debug, thiserror::Error)]
pub enum PoolError {
    /// The number of threads is zero or absurd.
    #[error("{n_threads} threads asked for; between 1 and {MAX_THREADS} are possible")]
    ThreadCount {
        /// What was asked for.
        n_threads: usize,
    },
    /// The system refused a thread.
    #[error("cannot start a worker thread: {0}")]
    Spawn(#[from] std::io::Error),
}

/// A fixed set of threads, of which the caller of [`Pool::run`] is one. Clones have the same threads; dropping the last one
/// ends them.
#[derive(Clone)]
pub struct Pool {
    crew: Arc<Crew>,
    n_threads: usize,
    /// How many wings of the crew its ops invite: the first one, or both.
    n_wings: u32,
}

/// The workers of the pools that share them.
struct Crew {
    shared: Arc<Shared>,
    workers: Vec<JoinHandle<()>>,
}

impl Pool {
    /// A pool of `n_threads`: the caller and `n_threads - 1` workers.
    pub fn new(n_threads: usize) -> Result<Pool, PoolError> {
        Pool::pair([n_threads; 2]).map(|[pool, _]| pool)
    }

    /// Two pools, each of so many threads, that share them: there are as many as the larger one has. Their ops take turns
    /// as those of one pool do.
    pub fn pair(n_threads: [usize; 2]) -> Result<[Pool; 2], PoolError> {
        Pool::with_generation(n_threads, 0)
    }

    /// As [`Pool::pair`], counting generations from `generation`; tests start just before the counter wraps.
    fn with_generation(n_threads: [usize; 2], generation: u32) -> Result<[Pool; 2], PoolError> {
        if let Some(&n_threads) = n_threads.iter().find(|n| !(1..=MAX_THREADS).contains(n)) {
            return Err(PoolError::ThreadCount { n_threads });
        }
        let [small, large] = [n_threads[0].min(n_threads[1]), n_threads[0].max(n_threads[1])];
        let mut crew = Crew { shared: Arc::new(Shared::new(generation, large)), workers: Vec::new() };
        for i in 1..large {
            let (shared, wing) = (Arc::clone(&crew.shared), usize::from(i >= small));
            let worker = std::thread::Builder::new().name(format!("minfer-cpu-{i}"));
            crew.workers.push(worker.spawn(move || shared.work_until_quit(i, wing))?);
        }
        let crew = Arc::new(crew);
        let pool = |n| Pool { crew: Arc::clone(&crew), n_threads: n, n_wings: 1 + u32::from(n > small) };
        Ok(n_threads.map(pool))
    }

    /// How many threads work on an op, the caller included.
    pub fn n_threads(&self) -> usize {
        self.n_threads
    }

    /// Calls `piece(i)` once for each `i` in `0..n_pieces`, on any thread and in any order, and returns when all have
    /// ended. Pieces run in order on the calling thread when there is but one piece or one thread, and when the pool is
    /// in use already (a call from within a piece, or from a second thread).
    ///
    /// # Panics
    /// If a piece panics, with its payload (the first one, if several do); if `n_pieces` is over [`MAX_PIECES`].
    pub fn run<F: Fn(usize) + Sync>(&self, n_pieces: usize, piece: &F) {
        assert!(n_pieces <= MAX_PIECES, "{n_pieces} pieces; at most {MAX_PIECES} are possible");
        let shared = &*self.crew.shared;
        if n_pieces <= 1 || self.n_threads == 1 || shared.busy.swap(true, Acquire) {
            return shared.run_alone(n_pieces, piece);
        }
        shared.publish(n_pieces as u32, self.n_wings, piece);
        let own = shared.work(AtTurn::Caller, 0);
        shared.wait_for_started(n_pieces as u32, own);
        let panic = shared.panic.lock().unwrap_or_else(PoisonError::into_inner).take();
        shared.busy.store(false, Release);
        if let Some(payload) = panic {
            resume_unwind(payload);
        }
    }
}

/// Spans: who worked on what, and when.
impl Pool {
    /// Records a span for each thread of each [`Self::run`] from now on, or no longer.
    pub fn record_spans(&self, on: bool) {
        self.crew.shared.recorder.switch(on);
    }

    /// What the spans of the next calls of [`Self::run`] are about.
    pub fn set_label(&self, label: u64) {
        self.crew.shared.recorder.set_label(label);
    }

    /// Hands over the spans recorded since the last time; if there were more than a ring holds, the last ones.
    pub fn take_spans(&self, take: &mut dyn FnMut(WorkSpan)) {
        self.crew.shared.recorder.take(take);
    }
}

impl Drop for Crew {
    fn drop(&mut self) {
        self.shared.quit.store(true, SeqCst);
        self.shared.wings.iter().for_each(|wing| wing.wake.signal());
        for worker in self.workers.drain(..) {
            // A worker catches the panics of its pieces, so it has none of its own to report.
            let _ = worker.join();
        }
    }
}

/// Workers are invited by wings: the first one has those of both pools of a pair, the second one those that only the
/// larger has.
const N_WINGS: usize = 2;

/// What the threads share. The fields that workers poll and those that pieces count lie on cache lines of their own.
struct Shared {
    board: CacheLine<Board>,
    /// Pieces of the open op that have ended.
    n_done: CacheLine<AtomicU32>,
    /// The open op: a `&F`, the function that calls it, and who is invited. Written only while no piece is claimable.
    data: AtomicPtr<()>,
    call: AtomicPtr<()>,
    n_wings: AtomicU32,
    wings: [Wing; N_WINGS],
    caller_sleeps: AtomicBool,
    done: Event,
    busy: AtomicBool,
    quit: AtomicBool,
    panic: Mutex<Option<Box<dyn Any + Send>>>,
    recorder: Recorder,
}

/// What workers poll.
struct Board {
    ticket: AtomicU64,
    /// Ops that each wing was invited to. A worker waits for this to move, not for the ticket, which moves for others too.
    calls: [AtomicU32; N_WINGS],
}

/// Where the workers of a wing sleep.
struct Wing {
    n_sleepers: AtomicU32,
    wake: Event,
}

#[repr(align(128))]
struct CacheLine<T>(T);

/// Calls the closure behind the pointer for one piece.
type Call = unsafe fn(*const (), usize);

/// The word that pieces are claimed from.
#[derive(Clone, Copy, PartialEq, Eq)]
struct Ticket {
    generation: u32,
    n_pieces: u16,
    next: u16,
}

impl Ticket {
    fn unpack(word: u64) -> Ticket {
        Ticket { generation: (word >> 32) as u32, n_pieces: (word >> 16) as u16, next: word as u16 }
    }

    fn pack(self) -> u64 {
        u64::from(self.generation) << 32 | u64::from(self.n_pieces) << 16 | u64::from(self.next)
    }
}

/// Who runs a piece: the end of a worker's piece may be what the caller sleeps for.
#[derive(Clone, Copy, PartialEq, Eq)]
enum AtTurn {
    Caller,
    /// A worker of this wing.
    Worker(usize),
}

impl AtTurn {
    /// Whether it may claim pieces of an op that invites so many wings.
    fn is_invited(self, n_wings: u32) -> bool {
        match self {
            AtTurn::Caller => true,
            AtTurn::Worker(wing) => wing < n_wings as usize,
        }
    }
}

/// What the caller has done itself of an op.
struct OwnWork {
    n_pieces: u32,
    time: Duration,
}

impl Shared {
    fn new(generation: u32, n_threads: usize) -> Shared {
        let ticket = AtomicU64::new(Ticket { generation, n_pieces: 0, next: 0 }.pack());
        let wing = |_| Wing { n_sleepers: AtomicU32::new(0), wake: Event::new() };
        Shared {
            board: CacheLine(Board { ticket, calls: Default::default() }),
            n_done: CacheLine(AtomicU32::new(0)),
            data: AtomicPtr::new(std::ptr::null_mut()),
            call: AtomicPtr::new(std::ptr::null_mut()),
            n_wings: AtomicU32::new(0),
            wings: std::array::from_fn(wing),
            caller_sleeps: AtomicBool::new(false),
            done: Event::new(),
            busy: AtomicBool::new(false),
            quit: AtomicBool::new(false),
            panic: Mutex::new(None),
            recorder: Recorder::new(n_threads),
        }
    }

    /// Opens an op for the first `n_wings`. The caller holds `busy`, and every piece of the op before has ended.
    fn publish<F: Fn(usize) + Sync>(&self, n_pieces: u32, n_wings: u32, piece: &F) {
        /// # Safety
        /// `data` is a `&F` that is alive.
        unsafe fn call<F: Fn(usize)>(data: *const (), i: usize) {
            // SAFETY: the contract of this function.
            let piece = unsafe { &*data.cast::<F>() };
            piece(i);
        }
        self.n_done.0.store(0, Relaxed);
        self.data.store(std::ptr::from_ref(piece).cast_mut().cast(), Relaxed);
        self.call.store(call::<F> as *mut (), Relaxed);
        self.n_wings.store(n_wings, Relaxed);
        let Board { ticket, calls } = &self.board.0;
        let generation = Ticket::unpack(ticket.load(Relaxed)).generation.wrapping_add(1);
        ticket.store(Ticket { generation, n_pieces: n_pieces as u16, next: 0 }.pack(), Release);
        for (wing, calls) in self.wings.iter().zip(calls).take(n_wings as usize) {
            // Only the holder of `busy` writes. Either a worker on its way to sleep sees the call, or it is seen here.
            calls.store(calls.load(Relaxed).wrapping_add(1), SeqCst);
            if wing.n_sleepers.load(SeqCst) != 0 {
                wing.wake.signal();
            }
        }
    }

    /// All pieces in order on this thread.
    fn run_alone<F: Fn(usize) + Sync>(&self, n_pieces: usize, piece: &F) {
        // One piece is too little to tell of; whoever labels the op knows how long it takes.
        let is_told = n_pieces > 1 && self.recorder.is_on();
        let span = if is_told { self.recorder.open(0, Instant::now()) } else { None };
        (0..n_pieces).for_each(piece);
        if let Some(span) = span {
            span.close(Instant::now());
        }
    }

    /// Claims and runs pieces of the open op until none is left to claim; `thread` is 0 for the caller.
    fn work(&self, who: AtTurn, thread: usize) -> OwnWork {
        let start = Instant::now();
        let mut n_pieces = 0;
        let mut span: Option<(u32, Open<'_>)> = None;
        loop {
            let word = self.board.0.ticket.load(Acquire);
            let ticket = Ticket::unpack(word);
            if ticket.next >= ticket.n_pieces || !who.is_invited(self.n_wings.load(Relaxed)) {
                let end = Instant::now();
                if let Some((_, span)) = span {
                    span.close(end);
                }
                return OwnWork { n_pieces, time: end.saturating_duration_since(start) };
            }
            let data = self.data.load(Relaxed).cast_const();
            let call = self.call.load(Relaxed);
            // Success proves that `data`, `call` and the invitation belong to this ticket: they change only after all of
            // its pieces have ended, and one was still unclaimed until now.
            if self.board.0.ticket.compare_exchange(word, word + 1, AcqRel, Relaxed).is_err() {
                continue;
            }
            // A thread may go from one op to the next without leaving this loop.
            if self.recorder.is_on() && span.as_ref().is_none_or(|(op, _)| *op != ticket.generation) {
                let start = if n_pieces == 0 { start } else { Instant::now() };
                if let Some((_, before)) = span {
                    before.close(start);
                }
                span = self.recorder.open(thread, start).map(|open| (ticket.generation, open));
            }
            // SAFETY: `call` was stored from a `Call` in `publish`, see above for which.
            let call = unsafe { std::mem::transmute::<*mut (), Call>(call) };
            // SAFETY: `data` is the closure that `call` was made for; `run` keeps it alive until `n_done` reaches the
            // count, which happens after this call.
            let result = catch_unwind(AssertUnwindSafe(|| unsafe { call(data, usize::from(ticket.next)) }));
            if let Err(payload) = result {
                self.keep_panic(payload);
            }
            n_pieces += 1;
            self.n_done.0.fetch_add(1, SeqCst);
            if who != AtTurn::Caller && self.caller_sleeps.load(SeqCst) {
                self.done.signal();
            }
        }
    }

    fn keep_panic(&self, payload: Box<dyn Any + Send>) {
        self.panic.lock().unwrap_or_else(PoisonError::into_inner).get_or_insert(payload);
    }

    /// Returns when `n_pieces` have ended; all are claimed already.
    fn wait_for_started(&self, n_pieces: u32, own: OwnWork) {
        let all_done = || self.n_done.0.load(SeqCst) == n_pieces;
        if own.n_pieces == n_pieces {
            return;
        }
        let (low, high) = CALLER_SPIN_US;
        let limit = 2 * own.time.as_micros() as u64 / u64::from(own.n_pieces.max(1));
        if spin(Duration::from_micros(limit.clamp(low, high)), all_done) {
            return;
        }
        self.caller_sleeps.store(true, SeqCst);
        loop {
            let seen = self.done.current();
            if all_done() {
                break;
            }
            self.done.wait(seen);
        }
        self.caller_sleeps.store(false, SeqCst);
    }

    /// The life of a worker.
    fn work_until_quit(&self, thread: usize, wing: usize) {
        be_a_batch_thread();
        let calls = || self.board.0.calls[wing].load(SeqCst);
        let mut seen = calls();
        // An op may have been opened before this thread was here to be called.
        self.work(AtTurn::Worker(wing), thread);
        let Wing { n_sleepers, wake } = &self.wings[wing];
        while !self.quit.load(SeqCst) {
            let news = || calls() != seen || self.quit.load(Relaxed);
            if spin(SPIN, news) {
                seen = calls();
                self.work(AtTurn::Worker(wing), thread);
                continue;
            }
            let ticket = wake.current();
            n_sleepers.fetch_add(1, SeqCst);
            if !news() {
                wake.wait(ticket);
            }
            n_sleepers.fetch_sub(1, SeqCst);
        }
    }
}

/// Spins for about `limit`; true as soon as `condition` holds.
fn spin(limit: Duration, condition: impl Fn() -> bool) -> bool {
    let start = Instant::now();
    loop {
        for _ in 0..32 {
            if condition() {
                return true;
            }
            std::hint::spin_loop();
        }
        if start.elapsed() >= limit {
            return false;
        }
    }
}

/// Asks the scheduler not to let this thread preempt others: a worker that is woken beside a busy process then doesn't
/// throw the caller off its core. Measured beside one busy process: 53-64 % of the quiet rate, against 48-53 % without.
fn be_a_batch_thread() {
    #[cfg(target_os = "linux")]
    {
        let param = libc::sched_param { sched_priority: 0 };
        // A refusal changes nothing but speed.
        // SAFETY: a plain system call on the calling thread (0); `param` outlives it.
        unsafe { libc::sched_setscheduler(0, libc::SCHED_BATCH, &param) };
    }
}

#[cfg(test)]
mod tests;
