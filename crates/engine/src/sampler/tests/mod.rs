mod chain;
mod draws;
mod hostile;
mod reference;

use super::{Sampler, SamplerParams, TokenMask};

/// Parameters under which every stage but the draw is off.
fn plain() -> SamplerParams {
    SamplerParams {
        seed: Some(1),
        temperature: 1.0,
        top_k: 0,
        top_p: 1.0,
        min_p: 0.0,
        ..SamplerParams::default()
    }
}

fn sampler(params: &SamplerParams, n_vocab: usize) -> Sampler {
    Sampler::new(params.clone(), n_vocab).unwrap()
}

/// The ids that the chain leaves, best first.
fn left(params: &SamplerParams, logits: &[f32]) -> Vec<u32> {
    let mut sampler = sampler(params, logits.len());
    sampler.distribution(logits, None).unwrap().iter().map(|c| c.id).collect()
}

/// Logits whose softmax is `p`.
fn logits_of(p: &[f64]) -> Vec<f32> {
    p.iter().map(|p| p.ln() as f32).collect()
}

fn words_of(allowed: &[bool]) -> Vec<u32> {
    let word = |bits: &[bool]| bits.iter().enumerate().fold(0, |w, (i, &bit)| w | u32::from(bit) << i);
    allowed.chunks(TokenMask::WORD_TOKENS).map(word).collect()
}
