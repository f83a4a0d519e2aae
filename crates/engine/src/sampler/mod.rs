//! From a row of logits to a token.
//!
//! The chain, in llama.cpp's order; each stage sees what the one before it left:
//!
//! 1. mask (a grammar's), 2. logit bias, 3. repeat, frequency and presence penalties, 4. top-n-sigma, 5. top-k,
//!    6. typical-p, 7. top-p, 8. min-p, 9. temperature, 10. the draw.
//!
//! At a temperature of 0 or below stages 4 to 10 are "the best token". Equal logits are ordered by id everywhere. The
//! draw uses the sampler's own generator and arithmetic that rounds alike on every platform (f64 sums in a fixed order,
//! `libm` functions): equal seed and logits give equal tokens. After the first few tokens nothing is allocated.
//!
//! Trap: a sampler learns what was drawn only by [`Sampler::accept`]; the penalties of a prompt need its tokens
//! accepted too.

mod adjust;
mod error;
mod logprobs;
mod mask;
mod params;
mod rank;
mod rng;
mod scan;
#[cfg(test)]
mod tests;
mod truncate;

use std::collections::VecDeque;

use serde::{Deserialize, Serialize};

pub use error::SampleError;
pub use logprobs::{TokenLogprob, logprob, top_logprobs};
pub use mask::TokenMask;
pub use params::{ParamError, SamplerParams};

use adjust::Adjusted;
use rank::Ranked;
use rng::Generator;
use scan::Row;

/// History that is reserved at once; a longer window grows as it fills.
const HISTORY_RESERVE: usize = 4096;

/// Draws the tokens of one sequence.
#[derive(Clone, Debug)]
pub struct Sampler {
    params: SamplerParams,
    seed: u64,
    n_vocab: usize,
    /// Distinct ids, rising.
    bias: Vec<(u32, f32)>,
    rng: Generator,
    /// The last `repeat_last_n` accepted tokens, oldest first.
    history: VecDeque<u32>,
    adjusted: Adjusted,
    ranked: Vec<Ranked>,
    candidates: Vec<Candidate>,
}

/// A token that can be drawn.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct Candidate {
    /// The token.
    pub id: u32,
    /// Its logit after bias and penalties, before temperature.
    pub logit: f32,
    /// The probability with which it is drawn.
    pub p: f64,
}

/// A drawn token.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct Sampled {
    /// The token.
    pub id: u32,
    /// ln of the probability that the whole chain gave it (0 when greedy). The model's own: [`logprob`].
    pub logprob: f64,
}

/// All that decides the next draws besides parameters and logits.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct SamplerState {
    /// The seed that [`Sampler::reset`] goes back to.
    pub seed: u64,
    /// State of the generator, high word first.
    pub generator: [u64; 2],
    /// Recent tokens, oldest first.
    pub history: Vec<u32>,
}

impl Sampler {
    /// A sampler for rows of `n_vocab` logits. Errors name the bad parameter.
    pub fn new(params: SamplerParams, n_vocab: usize) -> Result<Self, ParamError> {
        params.validate()?;
        if let Some(&(id, _)) = params.logit_bias.iter().find(|b| b.0 as usize >= n_vocab) {
            return Err(ParamError::BiasToken { id, n_vocab });
        }
        let bias = adjust::merged_bias(&params.logit_bias);
        let seed = params.seed.unwrap_or_else(params::fresh_seed);
        let reserve = params.window().map_or(HISTORY_RESERVE, |n| n.min(HISTORY_RESERVE) + 1);
        Ok(Sampler {
            seed,
            n_vocab,
            bias,
            rng: Generator::seeded(seed),
            history: VecDeque::with_capacity(reserve),
            adjusted: Adjusted::default(),
            ranked: Vec::new(),
            candidates: Vec::new(),
            params,
        })
    }

    /// Draws a token. `logits: [n_vocab]`, one row; only tokens that `mask` allows are considered.
    ///
    /// Errors if the row has another length, a considered logit is NaN or positive infinity, or no token is left; the
    /// sampler is then as it was before.
    pub fn sample(&mut self, logits: &[f32], mask: Option<TokenMask<'_>>) -> Result<Sampled, SampleError> {
        self.distribution(logits, mask)?;
        let u = if self.params.is_greedy() { 0.0 } else { self.rng.unit() };
        Ok(draw(&self.candidates, u))
    }

    /// What [`sample`](Self::sample) would draw from: the tokens left by the chain, best first, with their
    /// probabilities. At least one; exactly one when greedy. Errors as `sample` does.
    pub fn distribution(
        &mut self,
        logits: &[f32],
        mask: Option<TokenMask<'_>>,
    ) -> Result<&[Candidate], SampleError> {
        if logits.len() != self.n_vocab {
            return Err(SampleError::Length { expected: self.n_vocab, found: logits.len() });
        }
        self.adjusted.compute(logits, &self.bias, &self.history, &self.params);
        let row = Row { logits, mask, adjusted: self.adjusted.entries() };
        collect(row, &self.params, &mut self.ranked)?;
        self.candidates.clear();
        self.candidates.extend(self.ranked.iter().map(|r| Candidate {
            id: r.id(),
            logit: r.logit(),
            p: 1.0,
        }));
        if !self.params.is_greedy() {
            truncate_all(&mut self.candidates, &self.params);
            truncate::softmax(&mut self.candidates, f64::from(self.params.temperature));
        }
        Ok(&self.candidates)
    }

    /// Whether the token is the best of the logits as they are, whatever came before.
    pub fn takes_best(&self) -> bool {
        self.params.is_greedy() && self.bias.is_empty() && !self.params.penalizes()
    }

    /// The token where [`Self::takes_best`] holds, from the place of the best logit and that logit: the first NaN or positive
    /// infinity if there is one. Errors as [`Self::sample`] does.
    pub fn take_best(&self, place: f32, logit: f32) -> Result<u32, SampleError> {
        let id = place as u32;
        if logit.is_nan() || logit == f32::INFINITY {
            return Err(SampleError::BadLogit { id, value: logit });
        }
        if logit == f32::NEG_INFINITY {
            return Err(SampleError::NoCandidate);
        }
        Ok(id)
    }

    /// Records that `id` now belongs to the text, drawn or given. Errors if the vocabulary doesn't have it.
    pub fn accept(&mut self, id: u32) -> Result<(), SampleError> {
        check_token(id, self.n_vocab)?;
        self.history.push_back(id);
        self.forget_old();
        Ok(())
    }

    /// Replaces the tokens that the penalties look at; the generator stays where it is.
    pub fn set_history(&mut self, tokens: &[u32]) -> Result<(), SampleError> {
        tokens.iter().try_for_each(|&id| check_token(id, self.n_vocab))?;
        self.history.clear();
        let n_kept = self.params.window().map_or(tokens.len(), |window| window.min(tokens.len()));
        self.history.extend(&tokens[tokens.len() - n_kept..]);
        Ok(())
    }

    /// Back to the state of a new sampler with the same seed.
    pub fn reset(&mut self) {
        self.rng = Generator::seeded(self.seed);
        self.history.clear();
    }

    /// Takes a saved state. Errors, and stays as it is, if the state is damaged or of a larger vocabulary.
    pub fn restore(&mut self, state: &SamplerState) -> Result<(), SampleError> {
        let rng =
            Generator::from_state(u128::from(state.generator[0]) << 64 | u128::from(state.generator[1]))?;
        state.history.iter().try_for_each(|&id| check_token(id, self.n_vocab))?;
        self.rng = rng;
        self.seed = state.seed;
        self.history.clear();
        self.history.extend(&state.history);
        self.forget_old();
        Ok(())
    }

    /// The state, to be saved.
    pub fn state(&self) -> SamplerState {
        let generator = self.rng.state();
        SamplerState {
            seed: self.seed,
            generator: [(generator >> 64) as u64, generator as u64],
            history: self.history.iter().copied().collect(),
        }
    }

    /// The parameters it was made with.
    pub fn params(&self) -> &SamplerParams {
        &self.params
    }

    /// The seed in use, also when none was given: with it the run can be repeated.
    pub fn seed(&self) -> u64 {
        self.seed
    }

    fn forget_old(&mut self) {
        let excess = self.params.window().map_or(0, |window| self.history.len().saturating_sub(window));
        self.history.drain(..excess);
    }
}

/// Top-n-sigma and top-k, which need only one walk each over the row; or the best token.
fn collect(row: Row<'_>, params: &SamplerParams, ranked: &mut Vec<Ranked>) -> Result<(), SampleError> {
    if params.is_greedy() {
        ranked.clear();
        ranked.push(row.best()?);
        return Ok(());
    }
    let floor =
        if params.top_n_sigma > 0.0 { row.sigma_floor(params.top_n_sigma)? } else { f32::NEG_INFINITY };
    row.best_k(params.top_k, floor, ranked)
}

fn truncate_all(candidates: &mut Vec<Candidate>, params: &SamplerParams) {
    let min_keep = params.min_keep as usize;
    truncate::typical_p(candidates, params.typical_p, min_keep);
    truncate::top_p(candidates, params.top_p, min_keep);
    truncate::min_p(candidates, params.min_p, min_keep);
}

/// The candidate in whose share of `[0, 1)` `u` falls; `candidates` isn't empty and its probabilities add up to 1.
fn draw(candidates: &[Candidate], u: f64) -> Sampled {
    let mut drawn = &candidates[0];
    let mut sum = 0.0;
    // Rounding may leave the sum a little below 1: then the last one that has a probability is drawn.
    for c in candidates.iter().filter(|c| c.p > 0.0) {
        drawn = c;
        sum += c.p;
        if u < sum {
            break;
        }
    }
    Sampled { id: drawn.id, logprob: libm::log(drawn.p) }
}

fn check_token(id: u32, n_vocab: usize) -> Result<(), SampleError> {
    if (id as usize) < n_vocab { Ok(()) } else { Err(SampleError::Token { id, n_vocab }) }
}
