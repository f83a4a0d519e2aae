//! The stages that drop improbable tokens. Each works on candidates ordered best first, leaves that order, and keeps at
//! least `min_keep` (and always one).
//!
//! Probabilities are computed anew by each stage over what the one before it left; all in f64, with `libm`'s
//! exponential, because the platform's may round differently.

use super::Candidate;

/// Sets every `p` to the softmax of the logits over `temperature`. The first candidate must be the best.
pub(super) fn softmax(candidates: &mut [Candidate], temperature: f64) {
    let Some(best) = candidates.first().map(|c| f64::from(c.logit)) else { return };
    let mut total = 0.0;
    for c in candidates.iter_mut() {
        c.p = libm::exp((f64::from(c.logit) - best) / temperature);
        total += c.p;
    }
    for c in candidates {
        c.p /= total;
    }
}

/// Keeps the tokens whose surprise `-ln p` is nearest to the entropy until their probabilities exceed `typical_p`.
pub(super) fn typical_p(candidates: &mut Vec<Candidate>, typical_p: f32, min_keep: usize) {
    if typical_p >= 1.0 {
        return;
    }
    softmax(candidates, 1.0);
    let surprise = |c: &Candidate| if c.p > 0.0 { -libm::log(c.p) } else { f64::MAX };
    let entropy: f64 = candidates.iter().filter(|c| c.p > 0.0).map(|c| c.p * surprise(c)).sum();
    let distance = |c: &Candidate| (surprise(c) - entropy).abs();
    candidates.sort_unstable_by(|a, b| distance(a).total_cmp(&distance(b)).then_with(|| rank(a, b)));
    let n = fewest(candidates, min_keep, |sum| sum > f64::from(typical_p));
    candidates.truncate(n);
    candidates.sort_unstable_by(rank);
}

/// Keeps the fewest best tokens whose probabilities reach `top_p`.
pub(super) fn top_p(candidates: &mut Vec<Candidate>, top_p: f32, min_keep: usize) {
    if top_p >= 1.0 {
        return;
    }
    softmax(candidates, 1.0);
    let n = fewest(candidates, min_keep, |sum| sum >= f64::from(top_p));
    candidates.truncate(n);
}

/// Keeps the tokens with at least `min_p` times the best one's probability.
pub(super) fn min_p(candidates: &mut Vec<Candidate>, min_p: f32, min_keep: usize) {
    let Some(best) = candidates.first().map(|c| f64::from(c.logit)) else { return };
    if min_p <= 0.0 {
        return;
    }
    let floor = best + libm::log(f64::from(min_p));
    let n = candidates.partition_point(|c| f64::from(c.logit) >= floor);
    candidates.truncate(n.max(min_keep).max(1));
}

/// Best first: the higher logit, then the lower id.
fn rank(a: &Candidate, b: &Candidate) -> std::cmp::Ordering {
    b.logit.total_cmp(&a.logit).then(a.id.cmp(&b.id))
}

/// The length of the shortest prefix, of at least `min_keep`, whose probabilities are enough.
fn fewest(candidates: &[Candidate], min_keep: usize, enough: impl Fn(f64) -> bool) -> usize {
    let mut sum = 0.0;
    for (i, c) in candidates.iter().enumerate() {
        sum += c.p;
        if i + 1 >= min_keep && enough(sum) {
            return i + 1;
        }
    }
    candidates.len()
}
