//! A few figures that stand for many numbers.

use serde_json::{Value, json};

use crate::json;

/// What there is to say of the numbers of a value. All but the counts are of the finite ones.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct Stats {
    /// Numbers.
    pub n: usize,
    /// Those that are NaN.
    pub n_nan: usize,
    /// Those that are infinite.
    pub n_inf: usize,
    /// The smallest; 0 when none is finite.
    pub min: f32,
    /// The largest; 0 when none is finite.
    pub max: f32,
    /// Their mean.
    pub mean: f64,
    /// The root of the mean of their squares.
    pub rms: f64,
}

impl Stats {
    /// The figures of `values`.
    pub fn of(values: impl Iterator<Item = f32>) -> Stats {
        let (mut n, mut n_nan, mut n_inf) = (0, 0, 0);
        let (mut min, mut max) = (f32::INFINITY, f32::NEG_INFINITY);
        let (mut sum, mut squares) = (0.0, 0.0);
        for x in values {
            n += 1;
            if !x.is_finite() {
                n_nan += usize::from(x.is_nan());
                n_inf += usize::from(x.is_infinite());
                continue;
            }
            (min, max) = (min.min(x), max.max(x));
            sum += f64::from(x);
            squares += f64::from(x) * f64::from(x);
        }
        let n_finite = n - n_nan - n_inf;
        if n_finite == 0 {
            (min, max) = (0.0, 0.0);
        }
        let count = n_finite.max(1) as f64;
        Stats { n, n_nan, n_inf, min, max, mean: sum / count, rms: (squares / count).sqrt() }
    }

    /// As JSON.
    pub fn to_json(&self) -> Value {
        let Stats { n, n_nan, n_inf, min, max, mean, rms } = *self;
        json!({
            "n": n, "nan": n_nan, "inf": n_inf,
            "min": json::f32(min), "max": json::f32(max),
            "mean": json::f32(mean as f32), "rms": json::f32(rms as f32),
        })
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_is_not_finite_is_counted_and_left_out() {
        let values = [3.0, f32::NAN, -4.0, f32::INFINITY, f32::NEG_INFINITY, 1.0];
        let stats = Stats::of(values.into_iter());
        assert_eq!((stats.n, stats.n_nan, stats.n_inf), (6, 1, 2));
        assert_eq!((stats.min, stats.max, stats.mean), (-4.0, 3.0, 0.0));
        assert!((stats.rms - (26.0f64 / 3.0).sqrt()).abs() < 1e-12);
    }

    #[test]
    fn nothing_finite_gives_zeros() {
        for values in [vec![], vec![f32::NAN, f32::INFINITY]] {
            let n = values.len();
            let stats = Stats::of(values.into_iter());
            assert_eq!((stats.n, stats.min, stats.max, stats.mean, stats.rms), (n, 0.0, 0.0, 0.0, 0.0));
        }
    }
}
