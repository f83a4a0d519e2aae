//! What steps without prompts cost, by the number of their rows: measured, not modelled.

use std::time::Duration;

use super::LATEST;

/// Steps with more rows than this are not kept apart.
const MAX_ROWS: usize = 256;

/// Seconds a step, averaged over the latest ones.
#[derive(Clone, Debug, Default)]
pub(crate) struct StepCost {
    by_rows: Vec<Option<f64>>,
}

impl StepCost {
    pub(crate) fn observe(&mut self, n_rows: usize, elapsed: Duration) {
        if n_rows > MAX_ROWS {
            return;
        }
        if self.by_rows.len() <= n_rows {
            self.by_rows.resize(n_rows + 1, None);
        }
        let seconds = elapsed.as_secs_f64();
        // The first step of a size also builds its graph; the second counts in full.
        let mean = &mut self.by_rows[n_rows];
        *mean = Some(mean.map_or(seconds, |mean| (mean + LATEST * (seconds - mean)).min(seconds * 2.0)));
    }

    /// Seconds of a step of `n_rows`: of the nearest number of rows that was seen, or a straight line between two.
    pub(crate) fn seconds(&self, n_rows: f64) -> Option<f64> {
        let seen = || self.by_rows.iter().enumerate().filter_map(|(n, s)| Some((n as f64, (*s)?)));
        let below = seen().rfind(|(n, _)| *n <= n_rows);
        let above = seen().find(|(n, _)| *n >= n_rows);
        match (below, above) {
            (Some((n0, s0)), Some((n1, s1))) if n1 > n0 => Some(s0 + (s1 - s0) * (n_rows - n0) / (n1 - n0)),
            (Some((_, s)), _) | (_, Some((_, s))) => Some(s),
            (None, None) => None,
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn costs_between_two_sizes_lie_on_a_line() {
        let mut cost = StepCost::default();
        assert_eq!(cost.seconds(3.0), None);
        cost.observe(1, Duration::from_secs(1));
        cost.observe(5, Duration::from_secs(3));
        cost.observe(100_000, Duration::from_secs(100));
        assert_eq!(cost.seconds(1.0), Some(1.0));
        assert_eq!(cost.seconds(2.0), Some(1.5));
        assert_eq!(cost.seconds(0.0), Some(1.0));
        assert_eq!(cost.seconds(9.0), Some(3.0));
    }

    #[test]
    fn a_slow_first_step_is_soon_forgotten() {
        let mut cost = StepCost::default();
        cost.observe(1, Duration::from_secs(100));
        cost.observe(1, Duration::from_secs(1));
        assert_eq!(cost.seconds(1.0), Some(2.0));
    }
}
