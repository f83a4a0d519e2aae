//! The angle per position of each pair, and what the rotated vectors are scaled by.

use super::{RopeParams, RopeScaling};
use crate::error::KernelError;

/// One frequency per pair, and the magnitude.
pub(super) fn frequencies(
    params: &RopeParams,
    freq_factors: Option<&[f32]>,
) -> Result<(Vec<f64>, f64), KernelError> {
    check(params)?;
    let mut frequencies = unscaled(params);
    if let Some(divisors) = freq_factors {
        KernelError::check_len("rope frequency factors", divisors.len(), frequencies.len())?;
        for (frequency, &divisor) in frequencies.iter_mut().zip(divisors) {
            check_positive("rope frequency factor", f64::from(divisor))?;
            *frequency /= f64::from(divisor);
        }
    }
    let magnitude = scale(params, &mut frequencies);
    Ok((frequencies, magnitude))
}

fn unscaled(params: &RopeParams) -> Vec<f64> {
    let n_rot = params.n_rot as f64;
    (0..params.n_rot / 2).map(|i| libm::pow(params.freq_base, -2.0 * i as f64 / n_rot)).collect()
}

/// Applies the scaling and gives the magnitude.
fn scale(params: &RopeParams, frequencies: &mut [f64]) -> f64 {
    match params.scaling {
        RopeScaling::None => 1.0,
        RopeScaling::Linear { factor } => {
            frequencies.iter_mut().for_each(|f| *f /= factor);
            1.0
        }
        RopeScaling::Yarn { factor, orig_ctx, ext_factor, attn_factor, beta_fast, beta_slow } => {
            let low = libm::floor(pair_with_turns(params, orig_ctx, beta_fast)).max(0.0);
            let high =
                libm::ceil(pair_with_turns(params, orig_ctx, beta_slow)).min(params.n_rot as f64 - 1.0);
            for (i, f) in frequencies.iter_mut().enumerate() {
                let ramp = ((i as f64 - low) / (high - low).max(0.001)).clamp(0.0, 1.0);
                let keep = (1.0 - ramp) * ext_factor;
                *f = *f / factor * (1.0 - keep) + *f * keep;
            }
            let stretched = if ext_factor == 0.0 { 1.0 } else { 1.0 + 0.1 * libm::log(factor) };
            attn_factor * stretched
        }
    }
}

/// The (fractional) pair that makes `turns` turns over the trained context.
fn pair_with_turns(params: &RopeParams, orig_ctx: usize, turns: f64) -> f64 {
    let wavelengths = orig_ctx as f64 / (turns * 2.0 * std::f64::consts::PI);
    params.n_rot as f64 * libm::log(wavelengths) / (2.0 * libm::log(params.freq_base))
}

fn check(params: &RopeParams) -> Result<(), KernelError> {
    if !params.n_rot.is_multiple_of(2) {
        let value = params.n_rot as f64;
        return Err(KernelError::Parameter { what: "number of rotated elements", value, rule: "even" });
    }
    check_positive("rope frequency base", params.freq_base)?;
    match params.scaling {
        RopeScaling::None => Ok(()),
        RopeScaling::Linear { factor } => check_positive("rope scaling factor", factor),
        RopeScaling::Yarn { factor, orig_ctx, beta_fast, beta_slow, .. } => {
            if params.freq_base == 1.0 {
                let rule = "other than 1 with yarn scaling";
                return Err(KernelError::Parameter { what: "rope frequency base", value: 1.0, rule });
            }
            check_positive("rope scaling factor", factor)?;
            check_positive("yarn original context", orig_ctx as f64)?;
            check_positive("yarn beta_fast", beta_fast)?;
            check_positive("yarn beta_slow", beta_slow)
        }
    }
}

fn check_positive(what: &'static str, value: f64) -> Result<(), KernelError> {
    if value > 0.0 && value.is_finite() {
        return Ok(());
    }
    Err(KernelError::Parameter { what, value, rule: "positive and finite" })
}
