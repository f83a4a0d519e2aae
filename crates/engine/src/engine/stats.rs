//! What an engine has done and is doing.

use std::time::Duration;

use crate::kv::BlockCounts;

/// Upper bounds of the histogram's classes, in milliseconds; one more class has no bound.
const BOUNDS_MS: [u64; 14] = [5, 10, 20, 30, 50, 75, 100, 150, 200, 250, 300, 500, 1000, 2000];

/// How long streams waited for their next token.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct StallHistogram {
    counts: [u64; BOUNDS_MS.len() + 1],
    longest: Duration,
    total: Duration,
}

impl StallHistogram {
    pub(super) fn add(&mut self, wait: Duration) {
        let class = BOUNDS_MS.partition_point(|bound| Duration::from_millis(*bound) < wait);
        self.counts[class] += 1;
        self.longest = self.longest.max(wait);
        self.total = self.total.saturating_add(wait);
    }

    /// Waits by class: its upper bound, `None` for the last, and how many there were.
    pub fn classes(&self) -> impl Iterator<Item = (Option<Duration>, u64)> {
        let bounds = BOUNDS_MS.iter().map(|ms| Some(Duration::from_millis(*ms))).chain([None]);
        bounds.zip(self.counts)
    }

    /// The longest wait.
    pub fn longest(&self) -> Duration {
        self.longest
    }

    /// All waits together.
    pub fn total(&self) -> Duration {
        self.total
    }

    /// Waits longer than `bound`, which should be that of a class; otherwise those of its class count too.
    pub fn n_longer_than(&self, bound: Duration) -> u64 {
        let first = BOUNDS_MS.partition_point(|ms| Duration::from_millis(*ms) <= bound);
        self.counts[first..].iter().sum()
    }

    /// All waits.
    pub fn n(&self) -> u64 {
        self.counts.iter().sum()
    }
}

/// Upper bounds of the classes of [`BatchHistogram`]; one more class has no bound.
const BOUNDS_BATCH: [usize; 8] = [1, 2, 4, 8, 16, 32, 64, 128];

/// How many answers got their next token in one step, over the steps in which any did.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct BatchHistogram {
    counts: [u64; BOUNDS_BATCH.len() + 1],
    total: u64,
}

impl BatchHistogram {
    pub(super) fn add(&mut self, n_streams: usize) {
        if n_streams > 0 {
            self.counts[BOUNDS_BATCH.partition_point(|bound| *bound < n_streams)] += 1;
            self.total += n_streams as u64;
        }
    }

    /// Steps by class: its upper bound, `None` for the last, and how many there were.
    pub fn classes(&self) -> impl Iterator<Item = (Option<usize>, u64)> {
        BOUNDS_BATCH.into_iter().map(Some).chain([None]).zip(self.counts)
    }

    /// Answers of all steps together.
    pub fn total(&self) -> u64 {
        self.total
    }
}

/// A look at an engine.
#[derive(Clone, Debug, Default, PartialEq)]
#[non_exhaustive]
pub struct EngineStats {
    /// Requests that have a sequence.
    pub n_running: usize,
    /// Requests in the queue.
    pub n_waiting: usize,
    /// Requests that have ended, however.
    pub n_finished: u64,
    /// Times that a request had to give its memory back and begin again.
    pub n_suspended: u64,
    /// Steps run.
    pub n_steps: u64,
    /// Tokens of prompts read.
    pub n_prompt: u64,
    /// Tokens of prompts found in the cache.
    pub n_cached: u64,
    /// Tokens generated.
    pub n_generated: u64,
    /// Blocks of the KV cache.
    pub blocks: BlockCounts,
    /// How long streams waited for their next token.
    pub stalls: StallHistogram,
    /// How many answers a step went on with.
    pub batches: BatchHistogram,
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn waits_fall_into_their_classes() {
        let mut stalls = StallHistogram::default();
        for ms in [1, 5, 6, 250, 251, 9000] {
            stalls.add(Duration::from_millis(ms));
        }
        assert_eq!(stalls.n(), 6);
        assert_eq!(stalls.n_longer_than(Duration::from_millis(250)), 2);
        assert_eq!(stalls.longest(), Duration::from_secs(9));
        assert_eq!(stalls.total(), Duration::from_millis(9513));
        let classes: Vec<_> =
            stalls.classes().filter(|(_, n)| *n > 0).map(|(b, n)| (b.map(|b| b.as_millis()), n)).collect();
        assert_eq!(classes, [(Some(5), 2), (Some(10), 1), (Some(250), 1), (Some(300), 1), (None, 1)]);
    }

    #[test]
    fn steps_without_answers_are_no_batches() {
        let mut batches = BatchHistogram::default();
        for n in [0, 1, 2, 3, 200] {
            batches.add(n);
        }
        let classes: Vec<_> = batches.classes().filter(|(_, n)| *n > 0).collect();
        assert_eq!(
            (classes, batches.total()),
            (vec![(Some(1), 1), (Some(2), 1), (Some(4), 1), (None, 1)], 206)
        );
    }
}
