//! Softmax of each row.

use crate::error::KernelError;
use crate::isa::Isa;
use crate::math::exp;
use crate::simd::{Kernel, LANES, Simd, dispatch, max_lanes, sum_lanes};

/// `out = e^(x - max) / sum(e^(x - max))` for each row of `row_len` elements.
///
/// The sum is in f32: element i in lane i mod 16, lanes joined as a tree. A NaN, or no element above -inf, makes the
/// whole row NaN.
pub fn softmax(isa: Isa, x: &[f32], row_len: usize, out: &mut [f32]) -> Result<(), KernelError> {
    KernelError::check_rows("x", x.len(), row_len)?;
    KernelError::check_len("out", out.len(), x.len())?;
    dispatch(isa, Softmax { x, row_len, out });
    Ok(())
}

struct Softmax<'a> {
    x: &'a [f32],
    row_len: usize,
    out: &'a mut [f32],
}

impl Kernel for Softmax<'_> {
    type Out = ();

    #[inline(always)]
    fn run<S: Simd>(self, s: S) {
        let row_len = self.row_len.max(1);
        for (x, out) in self.x.chunks_exact(row_len).zip(self.out.chunks_exact_mut(row_len)) {
            out.copy_from_slice(x);
            let (_, sum) = exp_row(s, out);
            divide(s, out, sum);
        }
    }
}

/// Replaces a row by `e^(x - max)`; gives the maximum and the sum.
#[inline(always)]
pub(crate) fn exp_row<S: Simd>(s: S, row: &mut [f32]) -> (f32, f32) {
    let (x, rest) = row.as_chunks_mut::<LANES>();
    let mut max = s.load_part(rest, f32::NEG_INFINITY);
    for x in x.iter() {
        max = s.max(s.load(x), max);
    }
    let max = max_lanes(s.to_f32s(max));
    let shift = s.splat(max);
    let mut sum = s.splat(0.0);
    for x in x {
        let y = exp(s, s.sub(s.load(x), shift));
        sum = s.add(sum, y);
        s.store(y, x);
    }
    if !rest.is_empty() {
        let y = exp(s, s.sub(s.load_part(rest, f32::NEG_INFINITY), shift));
        sum = s.add(sum, y);
        s.store_part(y, rest);
    }
    (max, sum_lanes(s.to_f32s(sum)))
}

/// `x = x / by`.
#[inline(always)]
pub(crate) fn divide<S: Simd>(s: S, x: &mut [f32], by: f32) {
    let by = s.splat(by);
    let (x, rest) = x.as_chunks_mut::<LANES>();
    for x in x {
        s.store(s.div(s.load(x), by), x);
    }
    s.store_part(s.div(s.load_part(rest, 0.0), by), rest);
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::testing::{EDGE_LENS, Random, assert_close, hard_f32s, same_bits_on_all};

    /// One unit for exp, half a unit for the division, the rounding of `x - max` (at most 2^-21 for |x| <= 8), and for
    /// the sum half a unit for each of the at most 21 additions in a chain.
    const SOFTMAX_REL: f64 = 20.0 * f32::EPSILON as f64;

    fn soft(isa: Isa, x: &[f32], row_len: usize) -> Vec<f32> {
        let mut out = vec![7.0; x.len()];
        softmax(isa, x, row_len, &mut out).unwrap();
        out
    }

    #[test]
    fn softmax_has_the_same_bits_everywhere() {
        for len in EDGE_LENS {
            let x: Vec<f32> = Random::new(4).units(2 * len).iter().map(|x| x * 8.0).collect();
            same_bits_on_all("softmax", |isa| soft(isa, &x, len));
            let x = hard_f32s(2 * len, len as u64);
            same_bits_on_all("softmax of hard values", |isa| soft(isa, &x, len));
        }
    }

    #[test]
    fn softmax_is_close_to_its_formula() {
        for len in EDGE_LENS.into_iter().filter(|&len| len > 0) {
            let x: Vec<f32> = Random::new(len as u64).units(len).iter().map(|x| x * 8.0).collect();
            let max = f64::from(x.iter().copied().fold(f32::NEG_INFINITY, f32::max));
            let exps: Vec<f64> = x.iter().map(|&x| libm::exp(f64::from(x) - max)).collect();
            let sum: f64 = exps.iter().sum();
            let exact: Vec<f64> = exps.iter().map(|e| e / sum).collect();
            assert_close("softmax", &soft(Isa::detect(), &x, len), &exact, SOFTMAX_REL, 0.0);
        }
    }

    #[test]
    fn rows_without_a_maximum_are_nan() {
        assert!(soft(Isa::detect(), &[f32::NEG_INFINITY; 5], 5).iter().all(|x| x.is_nan()));
        assert!(soft(Isa::detect(), &[1.0, f32::NAN, 2.0], 3).iter().all(|x| x.is_nan()));
        assert_eq!(soft(Isa::detect(), &[f32::NEG_INFINITY, 0.0], 2), [0.0, 1.0]);
    }
}
