//! RMS norm: each row divided by its root mean square, times a weight. On rows of one head it is the per-head norm.

use crate::error::KernelError;
use crate::isa::Isa;
use crate::simd::{Kernel, LANES, Simd, dispatch, sum_lanes};

/// `out = (x * r) * weight` for each row of `weight.len()` elements, with `r = 1 / sqrt(mean(x^2) + eps)`.
///
/// The squares are summed in f64: element i in lane i mod 16, lanes joined as a tree. `r` is computed in f64 and rounded
/// to f32 once, so the result is within 2 units in the last place of the exact one.
pub fn rms_norm(isa: Isa, x: &[f32], weight: &[f32], eps: f32, out: &mut [f32]) -> Result<(), KernelError> {
    KernelError::check_rows("x", x.len(), weight.len())?;
    KernelError::check_len("out", out.len(), x.len())?;
    dispatch(isa, RmsNorm { x, weight, eps: f64::from(eps), out });
    Ok(())
}

struct RmsNorm<'a> {
    x: &'a [f32],
    weight: &'a [f32],
    eps: f64,
    out: &'a mut [f32],
}

impl Kernel for RmsNorm<'_> {
    type Out = ();

    #[inline(always)]
    fn run<S: Simd>(self, s: S) {
        let row_len = self.weight.len().max(1);
        for (x, out) in self.x.chunks_exact(row_len).zip(self.out.chunks_exact_mut(row_len)) {
            let mean = sum_of_squares(s, x) / row_len as f64;
            let r = (1.0 / (mean + self.eps).sqrt()) as f32;
            scale_and_weigh(s, x, r, self.weight, out);
        }
    }
}

#[inline(always)]
fn sum_of_squares<S: Simd>(s: S, x: &[f32]) -> f64 {
    let (x, rest) = x.as_chunks::<LANES>();
    let mut acc = s.zero_f64();
    for x in x {
        acc = s.add_squares(acc, s.load(x));
    }
    sum_lanes(s.to_f64s(s.add_squares(acc, s.load_part(rest, 0.0))))
}

#[inline(always)]
fn scale_and_weigh<S: Simd>(s: S, x: &[f32], r: f32, weight: &[f32], out: &mut [f32]) {
    let r = s.splat(r);
    let (x, x_rest) = x.as_chunks::<LANES>();
    let (weight, weight_rest) = weight.as_chunks::<LANES>();
    let (out, out_rest) = out.as_chunks_mut::<LANES>();
    for ((x, weight), out) in x.iter().zip(weight).zip(out) {
        s.store(s.mul(s.mul(s.load(x), r), s.load(weight)), out);
    }
    s.store_part(s.mul(s.mul(s.load_part(x_rest, 0.0), r), s.load_part(weight_rest, 0.0)), out_rest);
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::testing::{EDGE_LENS, Random, assert_close, hard_f32s, same_bits_on_all};

    /// Three roundings to f32, of half a unit each, relative.
    const NORM_REL: f64 = 1.5 * f32::EPSILON as f64;

    fn norm(isa: Isa, x: &[f32], weight: &[f32]) -> Vec<f32> {
        let mut out = vec![7.0; x.len()];
        rms_norm(isa, x, weight, 1e-6, &mut out).unwrap();
        out
    }

    #[test]
    fn rms_norm_has_the_same_bits_everywhere() {
        for len in EDGE_LENS {
            let (x, weight) = (Random::new(1).units(3 * len), hard_f32s(len, 2));
            same_bits_on_all("rms_norm", |isa| norm(isa, &x, &weight));
            let x = hard_f32s(3 * len, len as u64);
            same_bits_on_all("rms_norm of hard values", |isa| norm(isa, &x, &weight));
        }
    }

    #[test]
    fn rms_norm_is_close_to_its_formula() {
        for len in EDGE_LENS.into_iter().filter(|&len| len > 0).chain([896, 4096]) {
            let mut random = Random::new(len as u64);
            let (x, weight) = (random.units(2 * len), random.units(len));
            let mut exact = Vec::new();
            for row in x.chunks(len) {
                let squares: f64 = row.iter().map(|&x| f64::from(x) * f64::from(x)).sum();
                let rms = (squares / len as f64 + f64::from(1e-6f32)).sqrt();
                exact.extend(row.iter().zip(&weight).map(|(&x, &w)| f64::from(x) / rms * f64::from(w)));
            }
            assert_close("rms_norm", &norm(Isa::detect(), &x, &weight), &exact, NORM_REL, 0.0);
        }
    }

    #[test]
    fn lengths_that_do_not_fit_are_refused() {
        let error = rms_norm(Isa::Scalar, &[0.0; 7], &[0.0; 3], 0.0, &mut [0.0; 7]);
        assert_eq!(error, Err(KernelError::Rows { what: "x", row_len: 3, got: 7 }));
        let error = rms_norm(Isa::Scalar, &[0.0; 6], &[0.0; 3], 0.0, &mut [0.0; 3]);
        assert_eq!(error, Err(KernelError::Length { what: "out", expected: 6, got: 3 }));
    }
}
