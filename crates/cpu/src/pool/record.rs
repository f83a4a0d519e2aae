//! Who worked on what, and when: a ring of spans for each thread, cheap enough to leave on.
//!
//! A span is one thread's share of one call of [`Pool::run`](super::Pool::run). Its end is written when the thread finds
//! nothing more to claim, with the time that the pool takes there anyway; the caller may see a span whose thread has not
//! come so far (it lost its core, say): it ends where it begins. Only the thread itself writes to its ring; old spans
//! are overwritten when nobody takes them.

use std::sync::OnceLock;
use std::sync::atomic::Ordering::Relaxed;
use std::sync::atomic::{AtomicBool, AtomicU64, AtomicUsize};
use std::time::{Duration, Instant};

/// Spans that a ring holds: more than a step of a large model has, so nothing is lost when each step is taken.
const N_SLOTS: usize = 4096;

/// A thread's share of one op.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct WorkSpan {
    /// The thread: 0 is the caller.
    pub thread: usize,
    /// What [`Pool::set_label`](super::Pool::set_label) said when it began.
    pub label: u64,
    /// When it claimed its first piece.
    pub start: Instant,
    /// When it found no more pieces; equal to `start` when it has not said so yet.
    pub end: Instant,
}

/// The rings of a pool; nothing is allocated until recording is switched on. On cache lines of its own, since the label is
/// written for every node.
#[repr(align(128))]
pub(super) struct Recorder {
    is_on: AtomicBool,
    label: AtomicU64,
    n_threads: usize,
    rings: OnceLock<Rings>,
}

struct Rings {
    epoch: Instant,
    all: Box<[Ring]>,
}

#[derive(Default)]
#[repr(align(128))]
struct Ring {
    n_written: AtomicUsize,
    n_taken: AtomicUsize,
    slots: Box<[Slot]>,
}

#[derive(Default)]
struct Slot {
    label: AtomicU64,
    start_ns: AtomicU64,
    end_ns: AtomicU64,
}

/// A span that is being written.
pub(super) struct Open<'a> {
    epoch: Instant,
    slot: &'a Slot,
}

impl Open<'_> {
    /// Nothing more to claim.
    pub(super) fn close(&self, at: Instant) {
        self.slot.end_ns.store(nanos(self.epoch, at), Relaxed);
    }
}

fn nanos(epoch: Instant, at: Instant) -> u64 {
    at.saturating_duration_since(epoch).as_nanos() as u64
}

impl Recorder {
    pub(super) fn new(n_threads: usize) -> Self {
        Recorder {
            is_on: AtomicBool::new(false),
            label: AtomicU64::new(0),
            n_threads,
            rings: OnceLock::new(),
        }
    }

    pub(super) fn is_on(&self) -> bool {
        self.is_on.load(Relaxed)
    }

    pub(super) fn switch(&self, on: bool) {
        if on {
            self.rings.get_or_init(|| Rings::new(self.n_threads));
        }
        self.is_on.store(on, Relaxed);
    }

    pub(super) fn set_label(&self, label: u64) {
        self.label.store(label, Relaxed);
    }

    /// Begins a span of `thread`, if spans are recorded.
    pub(super) fn open(&self, thread: usize, start: Instant) -> Option<Open<'_>> {
        if !self.is_on() {
            return None;
        }
        let rings = self.rings.get()?;
        let ring = rings.all.get(thread)?;
        let n = ring.n_written.load(Relaxed);
        let slot = &ring.slots[n % N_SLOTS];
        let start_ns = nanos(rings.epoch, start);
        slot.label.store(self.label.load(Relaxed), Relaxed);
        slot.start_ns.store(start_ns, Relaxed);
        slot.end_ns.store(start_ns, Relaxed);
        ring.n_written.store(n + 1, Relaxed);
        Some(Open { epoch: rings.epoch, slot })
    }

    /// Hands over every span that has not been taken or overwritten. No op may be running.
    pub(super) fn take(&self, take: &mut dyn FnMut(WorkSpan)) {
        let Some(rings) = self.rings.get() else { return };
        for (thread, ring) in rings.all.iter().enumerate() {
            let n = ring.n_written.load(Relaxed);
            let from = ring.n_taken.swap(n, Relaxed).max(n.saturating_sub(N_SLOTS));
            for i in from..n {
                let slot = &ring.slots[i % N_SLOTS];
                let at = |ns: &AtomicU64| rings.epoch + Duration::from_nanos(ns.load(Relaxed));
                take(WorkSpan {
                    thread,
                    label: slot.label.load(Relaxed),
                    start: at(&slot.start_ns),
                    end: at(&slot.end_ns),
                });
            }
        }
    }
}

impl Rings {
    fn new(n_threads: usize) -> Self {
        let ring = |_| Ring { slots: (0..N_SLOTS).map(|_| Slot::default()).collect(), ..Ring::default() };
        Rings { epoch: Instant::now(), all: (0..n_threads).map(ring).collect() }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::pool::Pool;

    fn taken(pool: &Pool) -> Vec<WorkSpan> {
        let mut spans = Vec::new();
        pool.take_spans(&mut |span| spans.push(span));
        spans
    }

    #[test]
    fn every_thread_that_worked_has_a_span_with_the_label() {
        let pool = Pool::new(3).unwrap();
        pool.run(64, &|_| ());
        assert_eq!(taken(&pool), [], "nothing is recorded unless it is switched on");
        pool.record_spans(true);
        for label in 1..=5 {
            pool.set_label(label);
            pool.run(64, &|_| std::thread::sleep(Duration::from_micros(50)));
        }
        let spans = taken(&pool);
        for label in 1..=5 {
            let of: Vec<_> = spans.iter().filter(|s| s.label == label).collect();
            assert!(!of.is_empty() && of.len() <= 3, "{label}: {of:?}");
            // A worker that lost its core may have no end yet.
            let is_whole = |s: &WorkSpan| s.end - s.start >= Duration::from_micros(50);
            let is_open = |s: &WorkSpan| s.thread != 0 && s.end == s.start;
            assert!(of.iter().all(|s| is_whole(s) || is_open(s)), "{of:?}");
            let threads: std::collections::HashSet<_> = of.iter().map(|s| s.thread).collect();
            assert_eq!(threads.len(), of.len(), "one span a thread");
        }
        assert_eq!(taken(&pool), [], "a span is taken once");
        pool.record_spans(false);
        pool.run(64, &|_| ());
        assert_eq!(taken(&pool), []);
    }

    #[test]
    fn what_runs_on_the_caller_alone_is_recorded_too() {
        let pool = Pool::new(1).unwrap();
        pool.record_spans(true);
        pool.set_label(7);
        pool.run(3, &|_| ());
        let spans = taken(&pool);
        assert_eq!(spans.iter().map(|s| (s.thread, s.label)).collect::<Vec<_>>(), [(0, 7)]);
    }

    #[test]
    fn the_ring_keeps_the_last_spans() {
        let pool = Pool::new(1).unwrap();
        pool.record_spans(true);
        for label in 0..N_SLOTS as u64 + 10 {
            pool.set_label(label);
            pool.run(2, &|_| ());
        }
        let labels: Vec<_> = taken(&pool).iter().map(|s| s.label).collect();
        assert_eq!(labels, (10..N_SLOTS as u64 + 10).collect::<Vec<_>>());
    }
}
