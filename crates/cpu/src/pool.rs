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

/// A fixed set of threads, of which the caller of [`Pool::run`] is one. Dropping it ends the workers.
pub struct Pool {
    shared: Arc<Shared>,
    workers: Vec<JoinHandle<()>>,
}

impl Pool {
    /// A pool of `n_threads`: the caller and `n_threads - 1` workers.
    pub fn new(n_threads: usize) -> Result<Pool, PoolError> {
        Pool::with_generation(n_threads, 0)
    }

    /// As [`Pool::new`], counting generations from `generation`; tests start just before the counter wraps.
    fn with_generation(n_threads: usize, generation: u32) -> Result<Pool, PoolError> {
        if !(1..=MAX_THREADS).contains(&n_threads) {
            return Err(PoolError::ThreadCount { n_threads });
        }
        let shared = Arc::new(Shared::new(generation, n_threads));
        let mut pool = Pool { shared, workers: Vec::new() };
        for i in 1..n_threads {
            let shared = Arc::clone(&pool.shared);
            let worker = std::thread::Builder::new().name(format!("minfer-cpu-{i}"));
            pool.workers.push(worker.spawn(move || shared.work_until_quit(i))?);
        }
        Ok(pool)
    }

    /// How many threads work on an op, the caller included.
    pub fn n_threads(&self) -> usize {
        self.workers.len() + 1
    }

    /// Calls `piece(i)` once for each `i` in `0..n_pieces`, on any thread and in any order, and returns when all have
    /// ended. Pieces run in order on the calling thread when there is but one piece or one thread, and when the pool is
    /// in use already (a call from within a piece, or from a second thread).
    ///
    /// # Panics
    /// If a piece panics, with its payload (the first one, if several do); if `n_pieces` is over [`MAX_PIECES`].
    pub fn run<F: Fn(usize) + Sync>(&self, n_pieces: usize, piece: &F) {
        assert!(n_pieces <= MAX_PIECES, "{n_pieces} pieces; at most {MAX_PIECES} are possible");
        let shared = &*self.shared;
        if n_pieces <= 1 || self.workers.is_empty() || shared.busy.swap(true, Acquire) {
            return shared.run_alone(n_pieces, piece);
        }
        shared.publish(n_pieces as u32, piece);
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
        self.shared.recorder.switch(on);
    }

    /// What the spans of the next calls of [`Self::run`] are about.
    pub fn set_label(&self, label: u64) {
        self.shared.recorder.set_label(label);
    }

    /// Hands over the spans recorded since the last time; if there were more than a ring holds, the last ones.
    pub fn take_spans(&self, take: &mut dyn FnMut(WorkSpan)) {
        self.shared.recorder.take(take);
    }
}

impl Drop for Pool {
    fn drop(&mut self) {
        self.shared.quit.store(true, SeqCst);
        self.shared.wake.signal();
        for worker in self.workers.drain(..) {
            // A worker catches the panics of its pieces, so it has none of its own to report.
            let _ = worker.join();
        }
    }
}

/// What the threads share. The fields that workers poll and those that pieces count lie on cache lines of their own.
struct Shared {
    ticket: CacheLine<AtomicU64>,
    /// Pieces of the open op that have ended.
    n_done: CacheLine<AtomicU32>,
    /// The open op: a `&F` and the function that calls it. Written only while no piece is claimable.
    data: AtomicPtr<()>,
    call: AtomicPtr<()>,
    n_sleepers: AtomicU32,
    wake: Event,
    caller_sleeps: AtomicBool,
    done: Event,
    busy: AtomicBool,
    quit: AtomicBool,
    panic: Mutex<Option<Box<dyn Any + Send>>>,
    recorder: Recorder,
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
    Worker,
}

/// What the caller has done itself of an op.
struct OwnWork {
    n_pieces: u32,
    time: Duration,
}

impl Shared {
    fn new(generation: u32, n_threads: usize) -> Shared {
        Shared {
            ticket: CacheLine(AtomicU64::new(Ticket { generation, n_pieces: 0, next: 0 }.pack())),
            n_done: CacheLine(AtomicU32::new(0)),
            data: AtomicPtr::new(std::ptr::null_mut()),
            call: AtomicPtr::new(std::ptr::null_mut()),
            n_sleepers: AtomicU32::new(0),
            wake: Event::new(),
            caller_sleeps: AtomicBool::new(false),
            done: Event::new(),
            busy: AtomicBool::new(false),
            quit: AtomicBool::new(false),
            panic: Mutex::new(None),
            recorder: Recorder::new(n_threads),
        }
    }

    /// Opens an op. The caller holds `busy`, and every piece of the op before has ended.
    fn publish<F: Fn(usize) + Sync>(&self, n_pieces: u32, piece: &F) {
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
        let generation = Ticket::unpack(self.ticket.0.load(Relaxed)).generation.wrapping_add(1);
        self.ticket.0.store(Ticket { generation, n_pieces: n_pieces as u16, next: 0 }.pack(), SeqCst);
        if self.n_sleepers.load(SeqCst) != 0 {
            self.wake.signal();
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
            let word = self.ticket.0.load(Acquire);
            let ticket = Ticket::unpack(word);
            if ticket.next >= ticket.n_pieces {
                let end = Instant::now();
                if let Some((_, span)) = span {
                    span.close(end);
                }
                return OwnWork { n_pieces, time: end.saturating_duration_since(start) };
            }
            let data = self.data.load(Relaxed).cast_const();
            let call = self.call.load(Relaxed);
            // Success proves that `data` and `call` belong to this ticket: they change only after all of its pieces
            // have ended, and one was still unclaimed until now.
            if self.ticket.0.compare_exchange(word, word + 1, AcqRel, Relaxed).is_err() {
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
            if who == AtTurn::Worker && self.caller_sleeps.load(SeqCst) {
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
    fn work_until_quit(&self, thread: usize) {
        be_a_batch_thread();
        let mut seen = Ticket::unpack(self.ticket.0.load(SeqCst)).generation;
        // An op may have been opened before this thread was here to see its generation come.
        self.work(AtTurn::Worker, thread);
        while !self.quit.load(SeqCst) {
            let generation = || Ticket::unpack(self.ticket.0.load(SeqCst)).generation;
            let news = || generation() != seen || self.quit.load(Relaxed);
            if spin(SPIN, news) {
                seen = generation();
                self.work(AtTurn::Worker, thread);
                continue;
            }
            let ticket = self.wake.current();
            self.n_sleepers.fetch_add(1, SeqCst);
            if !news() {
                self.wake.wait(ticket);
            }
            self.n_sleepers.fetch_sub(1, SeqCst);
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
