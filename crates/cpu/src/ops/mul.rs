//! Multiplication, with a second operand that may be one row for all tokens.

use super::map::{Binary, binary};
use crate::error::KernelError;
use crate::isa::Isa;
use crate::simd::Simd;

/// `out = x * y`, where `y` is repeated for every row of its length: of the shape of `x`, or a row `[d]` for
/// `x: [d, n_tokens]`.
pub fn mul(isa: Isa, x: &[f32], y: &[f32], out: &mut [f32]) -> Result<(), KernelError> {
    binary(isa, Product, x, y, out)
}

#[derive(Clone, Copy)]
struct Product;

impl Binary for Product {
    #[inline(always)]
    fn apply<S: Simd>(self, s: S, x: S::F, y: S::F) -> S::F {
        s.mul(x, y)
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::ops::map::tests::check_binary;

    #[test]
    fn mul_has_the_bits_of_its_definition() {
        check_binary(mul, |x, y| x * y);
    }
}
