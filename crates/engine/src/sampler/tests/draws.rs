//! Draws: their frequencies, and that they can be repeated.

use super::*;
use crate::sampler::SamplerState;

const N_VOCAB: usize = 1000;

/// The same on every platform: integers over a power of two.
fn row(step: usize) -> Vec<f32> {
    (0..N_VOCAB).map(|i| ((i * 7919 + step * 104_729) % 1009) as f32 / 128.0).collect()
}

fn busy(seed: u64) -> SamplerParams {
    SamplerParams {
        seed: Some(seed),
        repeat_penalty: 1.25,
        frequency_penalty: 0.125,
        ..SamplerParams::default()
    }
}

fn run(sampler: &mut Sampler, steps: std::ops::Range<usize>) -> Vec<u32> {
    steps
        .map(|step| {
            let id = sampler.sample(&row(step), None).unwrap().id;
            sampler.accept(id).unwrap();
            id
        })
        .collect()
}

#[test]
fn a_seed_gives_these_tokens_on_every_platform() {
    const GOLDEN: [u32; 24] = [
        930, 856, 215, 240, 265, 389, 658, 670, 563, 443, 857, 249, 439, 919, 456, 237, 229, 808, 411, 614,
        659, 750, 709, 114,
    ];
    assert_eq!(run(&mut sampler(&busy(42), N_VOCAB), 0..24), GOLDEN);
}

#[test]
fn seeds_differ_and_reset_repeats() {
    let mut a = sampler(&busy(1), N_VOCAB);
    let first = run(&mut a, 0..40);
    assert_ne!(first, run(&mut sampler(&busy(2), N_VOCAB), 0..40));
    a.reset();
    assert_eq!(first, run(&mut a, 0..40));
}

#[test]
fn a_seed_that_was_not_given_is_told() {
    let params = SamplerParams { seed: None, ..busy(0) };
    let (mut a, b) = (sampler(&params, N_VOCAB), sampler(&params, N_VOCAB));
    assert_ne!(a.seed(), b.seed());
    assert_eq!(run(&mut a, 0..20), run(&mut sampler(&busy(a.seed()), N_VOCAB), 0..20));
}

#[test]
fn a_clone_and_a_saved_state_go_on_alike() {
    let mut a = sampler(&busy(7), N_VOCAB);
    run(&mut a, 0..100);
    let saved = serde_json::to_string(&a.state()).unwrap();
    let mut cloned = a.clone();
    let mut restored = sampler(&busy(8), N_VOCAB);
    restored.restore(&serde_json::from_str::<SamplerState>(&saved).unwrap()).unwrap();

    let expected = run(&mut a, 100..140);
    assert_eq!(expected, run(&mut cloned, 100..140));
    assert_eq!(expected, run(&mut restored, 100..140));
    assert_eq!(a.state(), restored.state());
}

#[test]
fn an_error_and_a_look_at_the_distribution_change_no_draw() {
    let (mut a, mut b) = (sampler(&busy(3), N_VOCAB), sampler(&busy(3), N_VOCAB));
    run(&mut a, 0..5);
    run(&mut b, 0..5);
    a.sample(&[f32::NAN; N_VOCAB], None).unwrap_err();
    a.distribution(&row(5), None).unwrap();
    assert_eq!(run(&mut a, 5..30), run(&mut b, 5..30));
}

#[test]
fn frequencies_follow_the_probabilities() {
    let p = [0.4, 0.25, 0.15, 0.1, 0.07, 0.03];
    let n_draws = 20_000;
    let logits = logits_of(&p);
    let mut sampler = sampler(&plain(), p.len());
    let mut counts = [0u32; 6];
    for _ in 0..n_draws {
        let drawn = sampler.sample(&logits, None).unwrap();
        counts[drawn.id as usize] += 1;
        assert!((drawn.logprob - p[drawn.id as usize].ln()).abs() < 1e-6);
    }
    let chi_square: f64 = p
        .iter()
        .zip(counts)
        .map(|(p, count)| {
            let expected = p * f64::from(n_draws);
            (f64::from(count) - expected).powi(2) / expected
        })
        .sum();
    // 5 degrees of freedom, 0.1 % level.
    assert!(chi_square < 20.515, "{chi_square}: {counts:?}");
}

#[test]
fn nothing_is_allocated_after_the_first_tokens() {
    let params = SamplerParams { logit_bias: vec![(3, 1.0)], ..busy(5) };
    let mut sampler = sampler(&params, N_VOCAB);
    let capacities = |s: &Sampler| (s.history.capacity(), s.ranked.capacity(), s.candidates.capacity());
    run(&mut sampler, 0..100);
    let warm = capacities(&sampler);
    run(&mut sampler, 100..400);
    assert_eq!(capacities(&sampler), warm);
}
