//! Mean, deviation and median of the runs of a test.

use std::time::Duration;

/// The runs of one test.
#[derive(Clone, Debug, PartialEq)]
pub(super) struct Samples {
    /// Nanoseconds of each run.
    pub(super) ns: Vec<u64>,
    /// Tokens per second of each run.
    pub(super) ts: Vec<f64>,
}

impl Samples {
    /// From the times of runs of `n_tokens` each.
    pub(super) fn new(times: Vec<Duration>, n_tokens: usize) -> Self {
        let ns: Vec<_> = times.iter().map(|time| time.as_nanos().clamp(1, u64::MAX.into()) as u64).collect();
        let ts = ns.iter().map(|&ns| 1e9 * n_tokens as f64 / ns as f64).collect();
        Self { ns, ts }
    }

    /// Mean and deviation of the nanoseconds.
    pub(super) fn of_ns(&self) -> (f64, f64) {
        mean_and_deviation(&self.ns.iter().map(|&ns| ns as f64).collect::<Vec<_>>())
    }

    /// Mean and deviation of the tokens per second.
    pub(super) fn of_ts(&self) -> (f64, f64) {
        mean_and_deviation(&self.ts)
    }
}

/// Mean and sample standard deviation; the latter is 0 for a single value, as in llama-bench.
fn mean_and_deviation(values: &[f64]) -> (f64, f64) {
    let n = values.len() as f64;
    let mean = values.iter().sum::<f64>() / n.max(1.0);
    if values.len() < 2 {
        return (mean, 0.0);
    }
    let squares = values.iter().map(|value| (value - mean).powi(2)).sum::<f64>();
    (mean, (squares / (n - 1.0)).sqrt())
}

/// The middle one, or the mean of the two in the middle; 0 for none.
pub(super) fn median(mut values: Vec<f64>) -> f64 {
    values.sort_by(f64::total_cmp);
    let (below, above) = (values.len().saturating_sub(1) / 2, values.len() / 2);
    match (values.get(below), values.get(above)) {
        (Some(a), Some(b)) => (a + b) / 2.0,
        _ => 0.0,
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_deviation_is_that_of_a_sample() {
        assert_eq!(
            mean_and_deviation(&[2.0, 4.0, 4.0, 4.0, 5.0, 5.0, 7.0, 9.0]),
            (5.0, (32.0f64 / 7.0).sqrt())
        );
        assert_eq!(mean_and_deviation(&[3.0]), (3.0, 0.0));
        assert_eq!(mean_and_deviation(&[]), (0.0, 0.0));
    }

    #[test]
    fn the_median_is_in_the_middle() {
        assert_eq!(median(vec![5.0, 1.0, 3.0]), 3.0);
        assert_eq!(median(vec![4.0, 1.0, 3.0, 9.0]), 3.5);
        assert_eq!((median(vec![7.0]), median(Vec::new())), (7.0, 0.0));
    }

    #[test]
    fn rates_are_tokens_per_second() {
        let samples = Samples::new(vec![Duration::from_millis(500), Duration::from_secs(1)], 10);
        assert_eq!(samples.ts, [20.0, 10.0]);
        assert_eq!(samples.of_ns(), (7.5e8, (1.25e17f64).sqrt()));
        assert_eq!(samples.of_ts().0, 15.0);
    }
}
