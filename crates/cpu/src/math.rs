//! exp, the one transcendental function of the kernels, and the logistic function made of it.

use crate::simd::Simd;

/// Above, the result is infinite; below, zero.
const EXP_RANGE: (f32, f32) = (-104.0, 89.0);

/// ln 2 = `LN2_HIGH` + `LN2_LOW`, the low part being what f32 cannot hold of it.
const LN2_HIGH: f32 = std::f32::consts::LN_2;
const LN2_LOW: f32 = -1.904_654_2e-9;

/// Adding and subtracting 1.5 * 2^23 rounds to an integer, ties to even.
const ROUND: f32 = 12_582_912.0;

/// `(exp(r) - 1 - r) / r^2`, lowest power first. The polynomial of degree 5 with the least relative error in exp(r) over
/// |r| <= ln 2 / 2, found by the Remez exchange in 50 digits; its error is 2^-34.
const EXP_TAIL: [f32; 6] =
    [0.5, 0.166_666_66, 0.041_666_295, 0.008_333_497, 0.001_394_465_9, 0.000_197_903_41];

/// e^x, within 1 unit in the last place, denormal results within half a unit more.
///
/// x = n ln 2 + r with integral n, so e^x = 2^n e^r (the scheme of Cody and Waite, Software Manual for the Elementary
/// Functions, 1980). exp(-inf) = 0, exp(inf) = inf, exp(0) = 1, NaN stays NaN.
#[inline(always)]
pub(crate) fn exp<S: Simd>(s: S, x: S::F) -> S::F {
    // In this order the bounds lose against a NaN.
    let x = s.max(s.splat(EXP_RANGE.0), s.min(s.splat(EXP_RANGE.1), x));
    let n = s.fma(x, s.splat(std::f32::consts::LOG2_E), s.splat(ROUND));
    let n = s.sub(n, s.splat(ROUND));
    let r = s.fma(n, s.splat(-LN2_HIGH), x);
    let r = s.fma(n, s.splat(-LN2_LOW), r);
    // A loop and no closure: see `simd`.
    let mut tail = s.splat(EXP_TAIL[5]);
    for power in (0..5).rev() {
        tail = s.fma(tail, r, s.splat(EXP_TAIL[power]));
    }
    let below_one = s.fma(s.mul(r, r), tail, r);
    s.mul_pow2(s.add(below_one, s.splat(1.0)), n)
}

/// x / (1 + e^-x). Below about -88 e^-x overflows and the result is -0; the exact one is above -1e-36. -inf gives NaN.
#[inline(always)]
pub(crate) fn silu<S: Simd>(s: S, x: S::F) -> S::F {
    let one = s.splat(1.0);
    s.div(x, s.add(one, exp(s, s.sub(s.splat(0.0), x))))
}

/// [`exp`] of one number, with the same bits.
#[inline(always)]
pub(crate) fn exp_one<S: Simd>(s: S, x: f32) -> f32 {
    s.to_f32s(exp(s, s.splat(x)))[0]
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::isa::Isa;
    use crate::simd::{Kernel, LANES, dispatch};
    use crate::testing::{hard_f32s, same_bits_on_all};

    /// Units in the last place of a normal result.
    const EXP_MAX_ULP: f64 = 1.0;

    struct Exp<'a>(&'a [f32]);

    impl Kernel for Exp<'_> {
        type Out = Vec<f32>;

        #[inline(always)]
        fn run<S: Simd>(self, s: S) -> Vec<f32> {
            let mut out = Vec::with_capacity(self.0.len());
            for chunk in self.0.chunks(LANES) {
                let y = s.to_f32s(exp(s, s.load_part(chunk, 0.0)));
                out.extend_from_slice(&y[..chunk.len()]);
            }
            out
        }
    }

    /// Distance from the exact value, in units of the last place of f32 there.
    fn ulps(got: f32, exact: f64) -> f64 {
        let exponent = libm::ilogb(exact).max(-126);
        (f64::from(got) - exact).abs() / libm::exp2(f64::from(exponent - 23))
    }

    /// Every `step`th float between the bounds of the range, both signs.
    fn range(step: usize) -> impl Iterator<Item = f32> {
        let positive = (0..=89f32.to_bits()).step_by(step).map(f32::from_bits);
        positive.chain((0..=104f32.to_bits()).step_by(step).map(|bits| -f32::from_bits(bits)))
    }

    #[test]
    fn exp_is_within_its_bound_over_the_whole_range() {
        let xs: Vec<f32> = range(1013).collect();
        let ys = dispatch(Isa::detect(), Exp(&xs));
        let mut worst = (0.0, 0.0);
        for (&x, &y) in xs.iter().zip(&ys) {
            let exact = libm::exp(f64::from(x));
            if exact > f64::from(f32::MAX) {
                assert!(y == f32::INFINITY || ulps(y, exact) <= 1.0, "exp({x}) = {y:e}");
                continue;
            }
            let bound = if exact < f64::from(f32::MIN_POSITIVE) { EXP_MAX_ULP + 0.5 } else { EXP_MAX_ULP };
            let error = ulps(y, exact);
            assert!(error <= bound, "exp({x}) = {y:e} is {error} ulp off");
            worst = if error > worst.0 { (error, x) } else { worst };
        }
        assert!(worst.0 > 0.5, "{worst:?}: no function rounds that well, the measure is broken");
    }

    #[test]
    fn exp_has_the_limits_of_the_function() {
        let xs = [f32::NEG_INFINITY, -1e30, -104.0, 0.0, -0.0, 89.0, 1e30, f32::INFINITY, f32::NAN];
        for isa in Isa::available() {
            let ys = dispatch(isa, Exp(&xs));
            assert_eq!(ys[..8], [0.0, 0.0, 0.0, 1.0, 1.0, f32::INFINITY, f32::INFINITY, f32::INFINITY]);
            assert!(ys[8].is_nan());
        }
    }

    #[test]
    fn exp_gives_the_same_bits_everywhere() {
        let mut xs = hard_f32s(5000, 3);
        xs.extend(range(1_000_003));
        same_bits_on_all("exp", |isa| dispatch(isa, Exp(&xs)));
    }
}
