//! The order of the stages: each case leaves other tokens if the two stages it is about change places.

use super::*;

#[test]
fn defaults_are_llama_cpps() {
    let d = SamplerParams::default();
    assert_eq!((d.temperature, d.top_k, d.top_p, d.min_p), (0.8, 40, 0.95, 0.05));
    assert_eq!((d.typical_p, d.top_n_sigma, d.min_keep, d.seed), (1.0, -1.0, 0, None));
    assert_eq!((d.repeat_penalty, d.repeat_last_n), (1.0, 64));
    assert_eq!((d.presence_penalty, d.frequency_penalty), (0.0, 0.0));
    assert_eq!(serde_json::from_str::<SamplerParams>("{}").unwrap(), d);
}

#[test]
fn mask_comes_before_top_k() {
    let mut sampler = sampler(&SamplerParams { top_k: 1, ..plain() }, 3);
    let words = words_of(&[false, true, true]);
    let left = sampler.distribution(&[3.0, 1.0, 2.0], Some(TokenMask::new(&words))).unwrap();
    assert_eq!(left.iter().map(|c| c.id).collect::<Vec<_>>(), [2]);
}

#[test]
fn bias_comes_before_penalties() {
    let params = SamplerParams { logit_bias: vec![(0, 1.5), (0, 0.5)], repeat_penalty: 2.0, ..plain() };
    let mut sampler = sampler(&params, 2);
    sampler.accept(0).unwrap();
    assert_eq!(sampler.distribution(&[-1.0, -9.0], None).unwrap()[0].logit, 0.5);
}

#[test]
fn penalties_come_before_top_k() {
    let params = SamplerParams { presence_penalty: 2.0, top_k: 1, ..plain() };
    let mut sampler = sampler(&params, 2);
    sampler.accept(0).unwrap();
    assert_eq!(sampler.distribution(&[2.0, 1.0], None).unwrap()[0].id, 1);
}

#[test]
fn penalties_come_before_top_n_sigma() {
    // The penalized token is no longer the best, from which the distance is counted.
    let params = SamplerParams { presence_penalty: 10.0, top_n_sigma: 1.0, ..plain() };
    let mut sampler = sampler(&params, 4);
    sampler.accept(0).unwrap();
    let left = sampler.distribution(&[10.0, 3.0, 2.5, 0.0], None).unwrap();
    assert_eq!(left.iter().map(|c| c.id).collect::<Vec<_>>(), [1, 2]);
}

#[test]
fn top_n_sigma_comes_before_top_k() {
    let params = SamplerParams { top_n_sigma: 1.0, top_k: 2, ..plain() };
    assert_eq!(left(&params, &[10.0, 9.0, 0.0, 0.0, 0.0, 0.0, 0.0, 0.0]), [0, 1]);
}

#[test]
fn top_k_comes_before_top_p() {
    let params = SamplerParams { top_k: 2, top_p: 0.5, ..plain() };
    assert_eq!(left(&params, &logits_of(&[0.4, 0.3, 0.2, 0.1])), [0]);
}

#[test]
fn top_k_comes_before_typical_p() {
    // Over all six the entropy is near the surprise of the rare ones; over the best two it is nearest to token 0's.
    let params = SamplerParams { top_k: 2, typical_p: 0.1, ..plain() };
    assert_eq!(left(&params, &logits_of(&[0.3, 0.14, 0.14, 0.14, 0.14, 0.14])), [0]);
    let params = SamplerParams { top_k: 0, ..params };
    assert_eq!(left(&params, &logits_of(&[0.3, 0.14, 0.14, 0.14, 0.14, 0.14])), [1]);
}

#[test]
fn typical_p_comes_before_top_p() {
    let params = SamplerParams { typical_p: 0.2, top_p: 0.6, ..plain() };
    assert_eq!(left(&params, &logits_of(&[0.5, 0.26, 0.24])), [1]);
}

#[test]
fn top_p_comes_before_min_p() {
    let params = SamplerParams { top_p: 0.6, min_p: 0.5, ..plain() };
    assert_eq!(left(&params, &logits_of(&[0.5, 0.3, 0.2])), [0, 1]);
}

#[test]
fn temperature_comes_last() {
    let params = SamplerParams { top_p: 0.75, min_p: 0.1, ..plain() };
    let logits = logits_of(&[0.5, 0.3, 0.15, 0.05]);
    for temperature in [0.01, 1.0, 100.0] {
        assert_eq!(left(&SamplerParams { temperature, ..params.clone() }, &logits), [0, 1]);
    }
}

#[test]
fn greedy_takes_the_best_after_mask_bias_and_penalties() {
    let params = SamplerParams {
        temperature: 0.0,
        presence_penalty: 5.0,
        logit_bias: vec![(1, f32::NEG_INFINITY)],
        ..plain()
    };
    let mut sampler = sampler(&params, 5);
    sampler.accept(0).unwrap();
    let words = words_of(&[true, true, false, true, true]);
    let drawn = sampler.sample(&[9.0, 8.0, 7.0, 6.0, 6.0], Some(TokenMask::new(&words))).unwrap();
    assert_eq!((drawn.id, drawn.logprob), (3, 0.0));
}

#[test]
fn one_token_always_stays_and_min_keep_is_kept() {
    let logits = logits_of(&[0.6, 0.2, 0.1, 0.1]);
    let hard = SamplerParams { top_p: 0.0, min_p: 1.0, typical_p: 0.0, top_n_sigma: 1e-9, ..plain() };
    assert_eq!(left(&hard, &logits).len(), 1);
    for off in [SamplerParams { top_p: 0.0, ..plain() }, SamplerParams { min_p: 1.0, ..plain() }] {
        assert_eq!(left(&off, &logits), [0]);
        assert_eq!(left(&SamplerParams { min_keep: 3, ..off.clone() }, &logits), [0, 1, 2]);
        assert_eq!(left(&SamplerParams { min_keep: 9, ..off }, &logits), [0, 1, 2, 3]);
    }
    let typical = SamplerParams { typical_p: 0.0, min_keep: 3, ..plain() };
    assert_eq!(left(&typical, &logits).len(), 3);
}
