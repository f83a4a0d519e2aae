//! The generator behind the draws: PCG (128-bit multiplicative, XSL-RR output), whose state can be saved.

use rand_pcg::Mcg128Xsl64;
use rand_pcg::rand_core::{Rng, SeedableRng};

use super::SampleError;

#[derive(Clone, Debug)]
pub(super) struct Generator(Mcg128Xsl64);

impl Generator {
    pub(super) fn seeded(seed: u64) -> Self {
        Generator(Mcg128Xsl64::seed_from_u64(seed))
    }

    pub(super) fn state(&self) -> u128 {
        self.0.state()
    }

    pub(super) fn from_state(state: u128) -> Result<Self, SampleError> {
        // Seeding makes the state odd and the multiplier keeps it so; an even one would be changed silently.
        if state & 1 == 0 {
            return Err(SampleError::Generator(state));
        }
        Ok(Generator(Mcg128Xsl64::new(state)))
    }

    /// Uniform in `[0, 1)`, a multiple of 2⁻⁵³.
    pub(super) fn unit(&mut self) -> f64 {
        (self.0.next_u64() >> 11) as f64 * (1.0 / (1u64 << 53) as f64)
    }
}
