//! Addition: residuals, and biases repeated for every token.

use super::map::{Binary, binary};
use crate::error::KernelError;
use crate::isa::Isa;
use crate::simd::Simd;

/// `out = x + y`, where `y` is repeated for every row of its length: of the shape of `x`, or a row `[d]` for
/// `x: [d, n_tokens]`.
pub fn add(isa: Isa, x: &[f32], y: &[f32], out: &mut [f32]) -> Result<(), KernelError> {
    binary(isa, Sum, x, y, out)
}

#[derive(Clone, Copy)]
struct Sum;

impl Binary for Sum {
    #[inline(always)]
    fn apply<S: Simd>(self, s: S, x: S::F, y: S::F) -> S::F {
        s.add(x, y)
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::ops::map::tests::check_binary;

    #[test]
    fn add_has_the_bits_of_its_definition() {
        check_binary(add, |x, y| x + y);
    }
}
