//! How much of a prompt shares a step with running streams.
//!
//! A stream waits for its next token as long as the step takes, so beside streams a chunk is as long as fits into the bound
//! on stalls, by the speed measured so far. The measure jumps up with a slow step and comes down little by little; a step has
//! at most twice the rows of the one before it. Chunks and streams together fill one of few sizes, so that graphs are
//! built once and used again. Time decides only when tokens are computed, never which.

use std::time::Duration;

use crate::step::StepSize;

/// The part of the bound that a step is planned to take; the rest is for what varies.
const PLANNED: f64 = 0.6;

/// The first chunk beside streams, when nothing has been measured.
const FIRST_CHUNK: usize = 16;

/// Prompts go on at this pace, however slow the machine is.
const LEAST_CHUNK: usize = 8;

/// How fast a measure comes down.
const DECAY: f64 = 0.25;

#[derive(Clone, Debug)]
pub(super) struct Pace {
    max_stall: Duration,
    n_ubatch: usize,
    /// Seconds of a step of streams alone.
    stream_s: f64,
    /// Seconds that a token of a prompt adds.
    token_s: Option<f64>,
    /// Rows of the last step that read beside streams.
    last_rows: usize,
}

impl Pace {
    pub(super) fn new(max_stall: Duration, n_ubatch: usize) -> Self {
        Pace { max_stall, n_ubatch, stream_s: 0.0, token_s: None, last_rows: FIRST_CHUNK }
    }

    /// Most tokens of prompts in a step with `n_streams` streams.
    pub(super) fn chunk(&self, n_streams: usize) -> usize {
        if n_streams == 0 {
            return self.n_ubatch;
        }
        let room_s = self.max_stall.as_secs_f64() * PLANNED - self.stream_s;
        let fits = self.token_s.map_or(FIRST_CHUNK as f64, |s| room_s.max(0.0) / s.max(1e-9));
        let n_rows = (fits as usize).min(self.n_ubatch) + n_streams;
        let n_rows = round_down(n_rows.min(self.last_rows.max(n_streams) * 2));
        let chunk = n_rows.saturating_sub(n_streams);
        chunk.clamp(LEAST_CHUNK.min(self.n_ubatch), self.n_ubatch)
    }

    /// Learns from a step.
    pub(super) fn observe(&mut self, size: StepSize, elapsed: Duration) {
        let seconds = elapsed.as_secs_f64();
        if size.n_read == 0 {
            self.stream_s = settle(Some(self.stream_s), seconds);
            return;
        }
        let streams_s = if size.n_streams == 0 { 0.0 } else { self.stream_s };
        self.token_s = Some(settle(self.token_s, (seconds - streams_s).max(0.0) / size.n_read as f64));
        if size.n_streams > 0 {
            self.last_rows = (size.n_streams + size.n_read).max(FIRST_CHUNK);
        }
    }
}

/// Up at once, down little by little.
fn settle(before: Option<f64>, now: f64) -> f64 {
    match before {
        Some(before) if now < before => before + DECAY * (now - before),
        _ => now,
    }
}

/// The largest of the sizes 16, 24, 32, 48, 64, 96 … that is not above `n`; small numbers stay.
fn round_down(n: usize) -> usize {
    if n < 16 {
        return n;
    }
    let power = 1 << n.ilog2();
    if n >= power + power / 2 { power + power / 2 } else { power }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// A machine where a step takes `base_s` and each token of a prompt `token_s` more.
    struct Machine {
        base_s: f64,
        token_s: f64,
    }

    impl Machine {
        fn step(&self, pace: &mut Pace, n_streams: usize) -> (usize, Duration) {
            let n_read = pace.chunk(n_streams);
            let elapsed = Duration::from_secs_f64(self.base_s + self.token_s * n_read as f64);
            pace.observe(StepSize { n_streams, n_guesses: 0, n_read }, elapsed);
            (n_read, elapsed)
        }
    }

    const BOUND: Duration = Duration::from_millis(250);

    #[test]
    fn no_step_beside_streams_exceeds_the_bound_whatever_the_machine() {
        for token_us in [30, 150, 700, 1500, 4000, 12_000] {
            for n_streams in [1, 4, 31] {
                let machine = Machine { base_s: 0.02, token_s: f64::from(token_us) * 1e-6 };
                let mut pace = Pace::new(BOUND, 512);
                pace.observe(StepSize { n_streams, ..StepSize::default() }, Duration::from_millis(20));
                let mut n_read = 0;
                for _ in 0..200 {
                    let (n, elapsed) = machine.step(&mut pace, n_streams);
                    assert!(elapsed <= BOUND, "{elapsed:?} with {token_us} µs and {n_streams} streams");
                    n_read += n;
                }
                // The bound is used: the prompts get at least a quarter of what it would let through.
                let fits = (0.23 / machine.token_s).min(512.0);
                assert!(n_read as f64 > 200.0 * fits / 4.0, "{n_read} with {token_us} µs, {fits}");
            }
        }
    }

    #[test]
    fn a_machine_that_slows_down_gets_shorter_chunks_at_once() {
        let mut pace = Pace::new(BOUND, 512);
        let (fast, slow) = (Machine { base_s: 0.01, token_s: 5e-4 }, Machine { base_s: 0.01, token_s: 5e-3 });
        let before = (0..20).map(|_| fast.step(&mut pace, 4).0).last().unwrap();
        slow.step(&mut pace, 4);
        let (after, elapsed) = slow.step(&mut pace, 4);
        assert!(after * 5 < before && elapsed <= BOUND, "{before} then {after}, {elapsed:?}");
    }

    #[test]
    fn prompts_alone_are_read_in_whole_chunks() {
        assert_eq!(Pace::new(BOUND, 512).chunk(0), 512);
        assert_eq!(Pace::new(BOUND, 4).chunk(3), 4);
    }

    #[test]
    fn a_machine_that_cannot_keep_the_bound_still_reads() {
        let mut pace = Pace::new(Duration::from_millis(1), 512);
        let slow = Machine { base_s: 1.0, token_s: 0.1 };
        slow.step(&mut pace, 2);
        assert_eq!(slow.step(&mut pace, 2).0, LEAST_CHUNK);
    }

    #[test]
    fn steps_come_in_few_sizes() {
        let sizes: std::collections::BTreeSet<_> = (16..=512).map(round_down).collect();
        assert_eq!(sizes.into_iter().collect::<Vec<_>>(), [16, 24, 32, 48, 64, 96, 128, 192, 256, 384, 512]);
    }
}
