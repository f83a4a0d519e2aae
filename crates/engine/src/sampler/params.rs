//! What a user sets about sampling, and what is refused before the first token.

use std::hash::{BuildHasher, Hasher};

use serde::{Deserialize, Serialize};

/// Settings of a [`Sampler`](super::Sampler): names and defaults are llama.cpp's.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
#[serde(default, deny_unknown_fields)]
pub struct SamplerParams {
    /// Seed of the draws; equal seeds give equal tokens on every platform. `None`: a fresh one per sampler.
    pub seed: Option<u64>,
    /// Divides the logits before the draw; at 0 and below the best token is always taken.
    pub temperature: f32,
    /// How many of the best tokens stay; 0 keeps all.
    pub top_k: u32,
    /// The fewest best tokens whose probabilities reach this stay; 1 keeps all.
    pub top_p: f32,
    /// Tokens with at least this fraction of the best one's probability stay; 0 keeps all.
    pub min_p: f32,
    /// The tokens whose surprise is nearest to the entropy stay, up to this probability in all; 1 keeps all.
    pub typical_p: f32,
    /// Tokens within this many standard deviations of the best logit stay; 0 and below keep all.
    pub top_n_sigma: f32,
    /// What `top_p`, `min_p` and `typical_p` leave at least; 0 means 1.
    pub min_keep: u32,
    /// Divides positive logits, and multiplies others, of recent tokens; 1 changes nothing.
    pub repeat_penalty: f32,
    /// How many recent tokens the penalties look at; 0 none, -1 all.
    pub repeat_last_n: i32,
    /// Taken off the logit of every recent token.
    pub presence_penalty: f32,
    /// Taken off the logit of a recent token once per occurrence.
    pub frequency_penalty: f32,
    /// `(token id, what is added to its logit)`; several for one token add up. Negative infinity forbids the token (JSON
    /// can't say so).
    pub logit_bias: Vec<(u32, f32)>,
}

impl Default for SamplerParams {
    fn default() -> Self {
        SamplerParams {
            seed: None,
            temperature: 0.8,
            top_k: 40,
            top_p: 0.95,
            min_p: 0.05,
            typical_p: 1.0,
            top_n_sigma: -1.0,
            min_keep: 0,
            repeat_penalty: 1.0,
            repeat_last_n: 64,
            presence_penalty: 0.0,
            frequency_penalty: 0.0,
            logit_bias: Vec::new(),
        }
    }
}

/// A setting that can't be meant.
#[derive(Clone, Debug, PartialEq, thiserror::Error)]
pub enum ParamError {
    /// A number outside its range, or no number.
    #[error("{field} is {value}; it must be {range}")]
    Range {
        /// The field of [`SamplerParams`].
        field: &'static str,
        /// What it was.
        value: f64,
        /// What it may be, in words.
        range: &'static str,
    },
    /// A bias for a token that the vocabulary doesn't have.
    #[error("logit_bias names token {id}; the vocabulary has {n_vocab}")]
    BiasToken {
        /// The token id.
        id: u32,
        /// Size of the vocabulary.
        n_vocab: usize,
    },
    /// A bias that no sum can be made with.
    #[error("logit_bias of token {id} is {value}; it must be a number below infinity")]
    BiasValue {
        /// The token id.
        id: u32,
        /// The bias.
        value: f32,
    },
}

impl SamplerParams {
    /// Checks every field; the first bad one is named with its range.
    pub fn validate(&self) -> Result<(), ParamError> {
        let probability = |p: f32| (0.0..=1.0).contains(&p);
        let table: [(&'static str, f32, bool, &'static str); 9] = [
            ("temperature", self.temperature, self.temperature.is_finite(), FINITE),
            ("top_p", self.top_p, probability(self.top_p), PROBABILITY),
            ("min_p", self.min_p, probability(self.min_p), PROBABILITY),
            ("typical_p", self.typical_p, probability(self.typical_p), PROBABILITY),
            ("top_n_sigma", self.top_n_sigma, self.top_n_sigma.is_finite(), FINITE),
            ("repeat_penalty", self.repeat_penalty, positive(self.repeat_penalty), "finite and above 0"),
            ("repeat_last_n", self.repeat_last_n as f32, self.repeat_last_n >= -1, "-1 or more"),
            ("presence_penalty", self.presence_penalty, self.presence_penalty.is_finite(), FINITE),
            ("frequency_penalty", self.frequency_penalty, self.frequency_penalty.is_finite(), FINITE),
        ];
        for (field, value, good, range) in table {
            if !good {
                return Err(ParamError::Range { field, value: f64::from(value), range });
            }
        }
        self.logit_bias.iter().try_for_each(|&(id, value)| check_bias(id, value))
    }

    /// Whether the best token is always taken.
    pub fn is_greedy(&self) -> bool {
        self.temperature <= 0.0
    }

    /// Whether recent tokens change any logit.
    pub(super) fn penalizes(&self) -> bool {
        self.repeat_penalty != 1.0 || self.presence_penalty != 0.0 || self.frequency_penalty != 0.0
    }

    /// The longest history that the penalties can ask for; `None` is without limit.
    pub(super) fn window(&self) -> Option<usize> {
        usize::try_from(self.repeat_last_n).ok()
    }
}

const FINITE: &str = "finite";
const PROBABILITY: &str = "from 0 to 1";

fn positive(x: f32) -> bool {
    x.is_finite() && x > 0.0
}

fn check_bias(id: u32, value: f32) -> Result<(), ParamError> {
    // Negative infinity compares below infinity, as it should; no NaN does.
    if value < f32::INFINITY { Ok(()) } else { Err(ParamError::BiasValue { id, value }) }
}

/// A seed that differs between calls and between runs.
pub(super) fn fresh_seed() -> u64 {
    std::hash::RandomState::new().build_hasher().finish()
}
