//! Bias and penalties: the few logits that differ from the model's.
//!
//! A step changes at most `bias.len() + window` of some hundred thousand logits, so they are kept beside the model's
//! row, which stays as it is and needs no copy.

use std::collections::VecDeque;

use super::SamplerParams;

/// Changed logits, by rising id, each id once. Reused from token to token.
#[derive(Clone, Debug, Default)]
pub(super) struct Adjusted {
    entries: Vec<(u32, f32)>,
    recent: Vec<u32>,
}

impl Adjusted {
    pub(super) fn entries(&self) -> &[(u32, f32)] {
        &self.entries
    }

    /// Computes the changes for one row. Every id in `bias` (sorted, distinct) and `history` is below `logits.len()`.
    pub(super) fn compute(
        &mut self,
        logits: &[f32],
        bias: &[(u32, f32)],
        history: &VecDeque<u32>,
        params: &SamplerParams,
    ) {
        self.entries.clear();
        self.entries.extend(bias.iter().map(|&(id, add)| (id, logits[id as usize] + add)));
        if params.penalizes() {
            self.penalize(logits, history, params);
        }
    }

    fn penalize(&mut self, logits: &[f32], history: &VecDeque<u32>, params: &SamplerParams) {
        let n_biased = self.entries.len();
        self.recent.clear();
        self.recent.extend(history);
        self.recent.sort_unstable();
        for run in self.recent.chunk_by(|a, b| a == b) {
            let (id, count) = (run[0], run.len());
            match self.entries[..n_biased].binary_search_by_key(&id, |e| e.0) {
                Ok(at) => self.entries[at].1 = penalized(self.entries[at].1, count, params),
                Err(_) => self.entries.push((id, penalized(logits[id as usize], count, params))),
            }
        }
        self.entries.sort_unstable_by_key(|e| e.0);
    }
}

fn penalized(logit: f32, count: usize, params: &SamplerParams) -> f32 {
    // Dividing a negative logit would favour the token.
    let repeated = if logit <= 0.0 { logit * params.repeat_penalty } else { logit / params.repeat_penalty };
    repeated - count as f32 * params.frequency_penalty - params.presence_penalty
}

/// Sums the biases of equal ids, by rising id.
pub(super) fn merged_bias(pairs: &[(u32, f32)]) -> Vec<(u32, f32)> {
    let mut bias = pairs.to_vec();
    bias.sort_by_key(|b| b.0);
    bias.dedup_by(|next, kept| {
        let same = next.0 == kept.0;
        if same {
            kept.1 += next.1;
        }
        same
    });
    bias
}
