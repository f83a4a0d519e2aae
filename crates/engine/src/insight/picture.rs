//! Many numbers as a picture of bounded size: a histogram, a heat map.

use serde_json::{Value, json};

use super::stats::Stats;
use crate::json;

/// Bins of a histogram.
const N_BINS: usize = 48;

/// Most rows of a heat map.
const MAX_ROWS: usize = 64;

/// Most cells of a heat map.
const MAX_CELLS: usize = 8192;

/// How the finite numbers of a value are spread from its least to its greatest.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Histogram {
    /// Numbers in each of the bins, which are equally wide.
    pub counts: Vec<u64>,
}

impl Histogram {
    /// Sorts `values`, whose figures are `stats`, into bins.
    pub fn of(values: &[f32], stats: &Stats) -> Histogram {
        let mut counts = vec![0; N_BINS];
        let (min, width) = (f64::from(stats.min), f64::from(stats.max) - f64::from(stats.min));
        for x in values.iter().filter(|x| x.is_finite()) {
            let place = if width > 0.0 { (f64::from(*x) - min) / width * N_BINS as f64 } else { 0.0 };
            counts[(place as usize).min(N_BINS - 1)] += 1;
        }
        Histogram { counts }
    }
}

/// A value seen from afar: each cell shows the number of the largest magnitude in its part.
#[derive(Clone, Debug, PartialEq)]
pub struct HeatMap {
    /// Rows of the picture; those of the value follow one another.
    pub n_rows: usize,
    /// Columns of the picture; along dimension 0 of the value.
    pub n_columns: usize,
    /// Row after row. What is not finite stays so.
    pub cells: Vec<f32>,
}

impl HeatMap {
    /// A picture of `values: [width, …]`, dimension 0 fastest. A value with few rows keeps more of its columns.
    pub fn of(values: &[f32], width: usize) -> HeatMap {
        let width = width.clamp(1, values.len().max(1));
        let height = values.len() / width;
        let n_rows = height.min(MAX_ROWS);
        let n_columns = MAX_CELLS.checked_div(n_rows).map_or(0, |most| width.min(most));
        let mut cells = vec![0.0f32; n_rows * n_columns];
        for (y, row) in values.chunks_exact(width).enumerate() {
            let line = &mut cells[y * n_rows / height * n_columns..][..n_columns];
            for (x, value) in row.iter().enumerate() {
                let cell = &mut line[x * n_columns / width];
                *cell = stronger(*cell, *value);
            }
        }
        HeatMap { n_rows, n_columns, cells }
    }

    /// As JSON; what is not finite is a word.
    pub fn to_json(&self) -> Value {
        let cells: Vec<_> = self.cells.iter().map(|x| json::f32(rounded(*x))).collect();
        json!({ "rows": self.n_rows, "columns": self.n_columns, "cells": cells })
    }
}

/// The one of larger magnitude; NaN above all, so that it is seen.
fn stronger(a: f32, b: f32) -> f32 {
    if a.is_nan() || a.abs() >= b.abs() { a } else { b }
}

/// To four figures: a colour shows no more, and the text is a third as long.
fn rounded(x: f32) -> f32 {
    format!("{x:.3e}").parse().unwrap_or(x)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn bins_hold_every_finite_number() {
        let values: Vec<f32> = (0..1000).map(|i| i as f32).chain([f32::NAN, f32::INFINITY]).collect();
        let stats = Stats::of(values.iter().copied());
        let counts = Histogram::of(&values, &stats).counts;
        assert_eq!((counts.len(), counts.iter().sum::<u64>()), (N_BINS, 1000));
        assert!(counts.iter().all(|n| (20..=21).contains(n)), "{counts:?}");
        let same = [7.0; 5];
        assert_eq!(Histogram::of(&same, &Stats::of(same.into_iter())).counts[0], 5);
        let far = [f32::MIN, f32::MAX];
        let counts = Histogram::of(&far, &Stats::of(far.into_iter())).counts;
        assert_eq!((counts[0], counts[N_BINS - 1]), (1, 1));
    }

    #[test]
    fn a_small_value_is_shown_as_it_is() {
        let values = [1.0, -2.0, 3.0, 4.0, 5.0, -6.0];
        let map = HeatMap::of(&values, 3);
        assert_eq!((map.n_rows, map.n_columns), (2, 3));
        assert_eq!(map.cells, values);
    }

    #[test]
    fn a_cell_of_a_large_value_shows_what_is_strongest_in_it() {
        let (width, height) = (1000, 200);
        let mut values = vec![0.25f32; width * height];
        values[150 * width + 999] = -9.0;
        values[0] = f32::NAN;
        let map = HeatMap::of(&values, width);
        assert_eq!((map.n_rows, map.n_columns), (MAX_ROWS, MAX_CELLS / MAX_ROWS));
        assert!(map.cells[0].is_nan());
        assert_eq!(map.cells[150 * MAX_ROWS / height * map.n_columns + map.n_columns - 1], -9.0);
        assert_eq!(map.cells.iter().filter(|x| **x == 0.25).count(), map.cells.len() - 2);
    }

    #[test]
    fn one_row_keeps_its_columns_and_nothing_is_no_error() {
        assert_eq!(HeatMap::of(&vec![1.0; 5000], 5000).n_columns, 5000);
        assert_eq!(HeatMap::of(&vec![1.0; 50_000], 50_000).n_columns, MAX_CELLS);
        assert!(HeatMap::of(&[], 8).cells.is_empty());
    }
}
