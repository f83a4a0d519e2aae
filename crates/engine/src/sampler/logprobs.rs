//! Log-probabilities of the model's own distribution, before any stage of the chain.

use super::SampleError;
use super::rank::Ranked;
use super::scan::Row;

/// A token with the natural logarithm of its probability.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct TokenLogprob {
    /// The token.
    pub id: u32,
    /// ln p, at most 0.
    pub logprob: f64,
}

/// The `n` most probable tokens, best first (equals by rising id); fewer if fewer have a probability above 0.
///
/// Errors if a logit is NaN or positive infinity, or none is finite.
pub fn top_logprobs(logits: &[f32], n: usize) -> Result<Vec<TokenLogprob>, SampleError> {
    let row = Row { logits, mask: None, adjusted: &[] };
    let log_total = log_sum_exp(logits, row.best()?);
    let mut best = Vec::new();
    if n > 0 {
        row.best_k(u32::try_from(n).unwrap_or(0), f32::NEG_INFINITY, &mut best)?;
    }
    Ok(best.iter().map(|r| TokenLogprob { id: r.id(), logprob: f64::from(r.logit()) - log_total }).collect())
}

/// ln p of one token; negative infinity if its logit is.
///
/// Errors as [`top_logprobs`] does, and if there is no logit of `id`.
pub fn logprob(logits: &[f32], id: u32) -> Result<f64, SampleError> {
    let &logit = logits.get(id as usize).ok_or(SampleError::Token { id, n_vocab: logits.len() })?;
    let best = Row { logits, mask: None, adjusted: &[] }.best()?;
    Ok(f64::from(logit) - log_sum_exp(logits, best))
}

/// ln Σ exp(logit), in f64 and shifted by the best logit, so that nothing overflows.
fn log_sum_exp(logits: &[f32], best: Ranked) -> f64 {
    let best = f64::from(best.logit());
    let total: f64 = logits.iter().map(|&x| libm::exp(f64::from(x) - best)).sum();
    best + libm::log(total)
}
