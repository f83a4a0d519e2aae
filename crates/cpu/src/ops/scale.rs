//! Multiplication by one number.

use super::map::{Unary, unary};
use crate::error::KernelError;
use crate::isa::Isa;
use crate::simd::Simd;

/// `out = x * factor`.
pub fn scale(isa: Isa, x: &[f32], factor: f32, out: &mut [f32]) -> Result<(), KernelError> {
    unary(isa, Scale(factor), x, out)
}

#[derive(Clone, Copy)]
struct Scale(f32);

impl Unary for Scale {
    #[inline(always)]
    fn apply<S: Simd>(self, s: S, x: S::F) -> S::F {
        s.mul(x, s.splat(self.0))
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::ops::map::tests::check_unary;

    #[test]
    fn scale_has_the_same_bits_everywhere() {
        check_unary(|isa, x, out| scale(isa, x, 0.3, out), |_, x| x.iter_mut().for_each(|x| *x *= 0.3));
    }

    #[test]
    fn scale_multiplies() {
        let mut out = [0.0; 3];
        scale(Isa::Scalar, &[1.0, -2.0, 0.5], 3.0, &mut out).unwrap();
        assert_eq!(out, [3.0, -6.0, 1.5]);
    }
}
