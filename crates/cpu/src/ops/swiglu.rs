//! SwiGLU: SiLU of one input times the other, with the bits of [`silu`](super::silu()) followed by [`mul`](super::mul()).

use super::map::{Binary, binary};
use crate::error::KernelError;
use crate::isa::Isa;
use crate::math;
use crate::simd::Simd;

/// `out = silu(gate) * up`, both rounded.
pub fn swiglu(isa: Isa, gate: &[f32], up: &[f32], out: &mut [f32]) -> Result<(), KernelError> {
    KernelError::check_len("up", up.len(), gate.len())?;
    binary(isa, Swiglu, gate, up, out)
}

#[derive(Clone, Copy)]
struct Swiglu;

impl Binary for Swiglu {
    #[inline(always)]
    fn apply<S: Simd>(self, s: S, gate: S::F, up: S::F) -> S::F {
        s.mul(math::silu(s, gate), up)
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::ops::{mul, silu};
    use crate::testing::{EDGE_LENS, assert_same_bits, hard_f32s, same_bits_on_all};

    #[test]
    fn swiglu_has_the_bits_of_silu_then_mul() {
        for len in EDGE_LENS {
            let (gate, up) = (hard_f32s(len, 11), hard_f32s(len, 12));
            let fused = same_bits_on_all("swiglu", |isa| {
                let mut out = vec![0.0; len];
                swiglu(isa, &gate, &up, &mut out).unwrap();
                out
            });
            let (mut activated, mut apart) = (vec![0.0; len], vec![0.0; len]);
            silu(Isa::detect(), &gate, &mut activated).unwrap();
            mul(Isa::detect(), &activated, &up, &mut apart).unwrap();
            assert_same_bits("fused and apart", &fused, &apart);
        }
    }

    #[test]
    fn inputs_of_different_lengths_are_refused() {
        let error = KernelError::Length { what: "up", expected: 6, got: 3 };
        assert_eq!(swiglu(Isa::Scalar, &[0.0; 6], &[0.0; 3], &mut [0.0; 6]), Err(error));
    }
}
