//! SiLU, x times its logistic function.

use super::map::{Unary, unary, unary_in_place};
use crate::error::KernelError;
use crate::isa::Isa;
use crate::math;
use crate::simd::Simd;

/// `out = x / (1 + e^-x)`. Below about -88 the result is -0 (exactly: above -1e-36); -inf gives NaN.
pub fn silu(isa: Isa, x: &[f32], out: &mut [f32]) -> Result<(), KernelError> {
    unary(isa, Silu, x, out)
}

/// `x = x / (1 + e^-x)`, as [`silu`].
pub fn silu_in_place(isa: Isa, x: &mut [f32]) {
    unary_in_place(isa, Silu, x);
}

#[derive(Clone, Copy)]
struct Silu;

impl Unary for Silu {
    #[inline(always)]
    fn apply<S: Simd>(self, s: S, x: S::F) -> S::F {
        math::silu(s, x)
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::ops::map::tests::check_unary;
    use crate::testing::assert_close;

    /// Three roundings of half a unit, and one unit for exp.
    const SILU_REL: f64 = 2.5 * f32::EPSILON as f64;
    /// Where e^-x overflows.
    const SILU_ABS: f64 = 1e-36;

    #[test]
    fn silu_has_the_same_bits_everywhere() {
        check_unary(silu, silu_in_place);
    }

    #[test]
    fn silu_is_close_to_its_formula() {
        let x: Vec<f32> = (-12000..12000).map(|i| i as f32 * 0.01).collect();
        let mut out = vec![0.0; x.len()];
        silu(Isa::detect(), &x, &mut out).unwrap();
        let exact: Vec<f64> = x.iter().map(|&x| f64::from(x) / (1.0 + libm::exp(-f64::from(x)))).collect();
        assert_close("silu", &out, &exact, SILU_REL, SILU_ABS);
    }
}
