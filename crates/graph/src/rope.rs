//! The angle per position of each rotated pair, and what rotated vectors are scaled by: the same for every backend.

use crate::op::{RopeScaling, RopeSpec};

/// A rotation that makes no sense.
#[derive(Clone, Copy, Debug, PartialEq, thiserror::Error)]
pub enum RopeError {
    /// A number is outside what it can be.
    #[error("{what} is {value}; it must be {rule}")]
    Parameter {
        /// The number.
        what: &'static str,
        /// Its value.
        value: f64,
        /// What would be accepted.
        rule: &'static str,
    },
    /// There is not one divisor for each pair.
    #[error("there are {got} divisors of rope frequencies, expected {expected}")]
    Divisors {
        /// Pairs.
        expected: usize,
        /// Divisors.
        got: usize,
    },
}

/// What a rotation does to the pairs of a head.
#[derive(Clone, Debug, PartialEq)]
pub struct RopeFrequencies {
    /// Angle per position of each pair, in radians.
    pub per_position: Vec<f64>,
    /// Factor on rotated vectors.
    pub magnitude: f64,
}

impl RopeSpec {
    /// The frequencies of this rotation; `divisors` are one for each pair.
    pub fn frequencies(&self, divisors: Option<&[f32]>) -> Result<RopeFrequencies, RopeError> {
        check(self)?;
        let mut per_position = unscaled(self);
        if let Some(divisors) = divisors {
            if divisors.len() != per_position.len() {
                return Err(RopeError::Divisors { expected: per_position.len(), got: divisors.len() });
            }
            for (frequency, &divisor) in per_position.iter_mut().zip(divisors) {
                check_positive("rope frequency factor", divisor)?;
                *frequency /= f64::from(divisor);
            }
        }
        let magnitude = scale(self, &mut per_position);
        Ok(RopeFrequencies { per_position, magnitude })
    }
}

fn unscaled(spec: &RopeSpec) -> Vec<f64> {
    let (base, n_rot) = (f64::from(spec.freq_base), spec.n_rot as f64);
    (0..spec.n_rot / 2).map(|i| libm::pow(base, -2.0 * i as f64 / n_rot)).collect()
}

/// Applies the scaling and gives the magnitude.
fn scale(spec: &RopeSpec, frequencies: &mut [f64]) -> f64 {
    match spec.scaling {
        RopeScaling::None => 1.0,
        RopeScaling::Linear { factor } => {
            frequencies.iter_mut().for_each(|f| *f /= f64::from(factor));
            1.0
        }
        RopeScaling::Yarn { factor, original_ctx, attn_factor, beta_fast, beta_slow } => {
            let factor = f64::from(factor);
            let low = libm::floor(pair_with_turns(spec, original_ctx, beta_fast)).max(0.0);
            let high =
                libm::ceil(pair_with_turns(spec, original_ctx, beta_slow)).min(spec.n_rot as f64 - 1.0);
            for (i, f) in frequencies.iter_mut().enumerate() {
                let keep = 1.0 - ((i as f64 - low) / (high - low).max(0.001)).clamp(0.0, 1.0);
                *f = *f / factor * (1.0 - keep) + *f * keep;
            }
            f64::from(attn_factor) * (1.0 + 0.1 * libm::log(factor))
        }
    }
}

/// The (fractional) pair that makes `turns` turns over the trained context.
fn pair_with_turns(spec: &RopeSpec, original_ctx: u32, turns: f32) -> f64 {
    let wavelengths = f64::from(original_ctx) / (f64::from(turns) * 2.0 * std::f64::consts::PI);
    spec.n_rot as f64 * libm::log(wavelengths) / (2.0 * libm::log(f64::from(spec.freq_base)))
}

fn check(spec: &RopeSpec) -> Result<(), RopeError> {
    if !spec.n_rot.is_multiple_of(2) {
        let value = spec.n_rot as f64;
        return Err(RopeError::Parameter { what: "number of rotated elements", value, rule: "even" });
    }
    check_positive("rope frequency base", spec.freq_base)?;
    match spec.scaling {
        RopeScaling::None => Ok(()),
        RopeScaling::Linear { factor } => check_positive("rope scaling factor", factor),
        RopeScaling::Yarn { factor, original_ctx, beta_fast, beta_slow, .. } => {
            if spec.freq_base == 1.0 {
                let rule = "other than 1 with yarn scaling";
                return Err(RopeError::Parameter { what: "rope frequency base", value: 1.0, rule });
            }
            check_positive("rope scaling factor", factor)?;
            check_positive("yarn original context", original_ctx as f32)?;
            check_positive("yarn beta_fast", beta_fast)?;
            check_positive("yarn beta_slow", beta_slow)
        }
    }
}

fn check_positive(what: &'static str, value: f32) -> Result<(), RopeError> {
    if value > 0.0 && value.is_finite() {
        return Ok(());
    }
    Err(RopeError::Parameter { what, value: f64::from(value), rule: "positive and finite" })
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::op::RopeStyle;

    const YARN: RopeScaling = RopeScaling::Yarn {
        factor: 4.0,
        original_ctx: 4096,
        attn_factor: 1.0,
        beta_fast: 32.0,
        beta_slow: 1.0,
    };

    fn spec(n_rot: usize, scaling: RopeScaling) -> RopeSpec {
        let (style, freq_factors) = (RopeStyle::Neox, false);
        RopeSpec { style, head_dim: n_rot, n_rot, freq_base: 10000.0, scaling, freq_factors }
    }

    /// Frequencies of the first, a middle and the last pair, and the magnitude, as the reference implementation in float
    /// (`oracle.py`, class `Rope`) gives them for `n_rot` 64, base 10000.
    #[test]
    fn scaled_frequencies_agree_with_the_reference() {
        let check = |scaling, expected: [f64; 4]| {
            let f = spec(64, scaling).frequencies(None).unwrap();
            let got = [f.per_position[0], f.per_position[15], f.per_position[31], f.magnitude];
            for (g, e) in got.iter().zip(expected) {
                assert!((g / e - 1.0).abs() < 1e-12, "{scaling:?}: {got:?}, expected {expected:?}");
            }
        };
        check(RopeScaling::None, ORACLE_NONE);
        check(RopeScaling::Linear { factor: 4.0 }, ORACLE_LINEAR);
        check(YARN, ORACLE_YARN);
    }

    const ORACLE_NONE: [f64; 4] = [1.0, 0.01333521432163324, 0.0001333521432163324, 1.0];
    const ORACLE_LINEAR: [f64; 4] = [0.25, 0.00333380358040831, 3.33380358040831e-05, 1.0];
    const ORACLE_YARN: [f64; 4] = [1.0, 0.009488517882700576, 3.33380358040831e-05, 1.138629436111989];

    #[test]
    fn frequency_factors_divide() {
        let divisors: Vec<f32> = (0..8).map(|i| 1.0 + i as f32).collect();
        let plain = spec(16, RopeScaling::None);
        let without = plain.frequencies(None).unwrap().per_position;
        let with = plain.frequencies(Some(&divisors)).unwrap().per_position;
        for i in 0..8 {
            assert_eq!(with[i], without[i] / f64::from(divisors[i]));
        }
        let error = plain.frequencies(Some(&divisors[..7])).unwrap_err();
        assert_eq!(error, RopeError::Divisors { expected: 8, got: 7 });
    }

    #[test]
    fn nonsense_is_refused() {
        let plain = spec(8, RopeScaling::None);
        let bad = [
            RopeSpec { n_rot: 7, ..plain },
            RopeSpec { freq_base: 0.0, ..plain },
            RopeSpec { freq_base: f32::NAN, ..plain },
            spec(8, RopeScaling::Linear { factor: 0.0 }),
            RopeSpec { freq_base: 1.0, ..spec(8, YARN) },
        ];
        for spec in bad {
            assert!(matches!(spec.frequencies(None), Err(RopeError::Parameter { .. })), "{spec:?}");
        }
    }
}
