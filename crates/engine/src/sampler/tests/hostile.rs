//! Parameters and logits that must be refused, with the words for it.

use super::*;
use crate::sampler::{ParamError, SampleError, SamplerState, logprob, top_logprobs};

const INF: f32 = f32::INFINITY;

fn refused_field(params: SamplerParams) -> &'static str {
    match Sampler::new(params, 10).unwrap_err() {
        ParamError::Range { field, .. } => field,
        other => panic!("{other}"),
    }
}

#[test]
fn numbers_out_of_range_are_named() {
    for bad in [f32::NAN, INF, -INF] {
        let cases = [
            ("temperature", SamplerParams { temperature: bad, ..plain() }),
            ("top_p", SamplerParams { top_p: bad, ..plain() }),
            ("min_p", SamplerParams { min_p: bad, ..plain() }),
            ("typical_p", SamplerParams { typical_p: bad, ..plain() }),
            ("top_n_sigma", SamplerParams { top_n_sigma: bad, ..plain() }),
            ("repeat_penalty", SamplerParams { repeat_penalty: bad, ..plain() }),
            ("presence_penalty", SamplerParams { presence_penalty: bad, ..plain() }),
            ("frequency_penalty", SamplerParams { frequency_penalty: bad, ..plain() }),
        ];
        for (field, params) in cases {
            assert_eq!(refused_field(params), field);
        }
    }
    assert_eq!(refused_field(SamplerParams { top_p: -0.1, ..plain() }), "top_p");
    assert_eq!(refused_field(SamplerParams { min_p: 1.1, ..plain() }), "min_p");
    assert_eq!(refused_field(SamplerParams { repeat_penalty: 0.0, ..plain() }), "repeat_penalty");
    assert_eq!(refused_field(SamplerParams { repeat_last_n: -2, ..plain() }), "repeat_last_n");
    let error = Sampler::new(SamplerParams { top_p: 1.5, ..plain() }, 10).unwrap_err();
    assert_eq!(error.to_string(), "top_p is 1.5; it must be from 0 to 1");
}

#[test]
fn bad_biases_are_named() {
    let with = |bias| Sampler::new(SamplerParams { logit_bias: vec![(2, -INF), bias], ..plain() }, 10);
    assert_eq!(with((10, 0.0)).unwrap_err(), ParamError::BiasToken { id: 10, n_vocab: 10 });
    assert_eq!(with((1, INF)).unwrap_err(), ParamError::BiasValue { id: 1, value: INF });
    assert!(matches!(with((1, f32::NAN)).unwrap_err(), ParamError::BiasValue { id: 1, .. }));
    assert!(with((1, -INF)).is_ok());
}

#[test]
fn unknown_and_mistyped_json_is_refused() {
    for text in [r#"{"top_kk": 1}"#, r#"{"top_k": -1}"#, r#"{"top_p": "high"}"#] {
        serde_json::from_str::<SamplerParams>(text).unwrap_err();
    }
}

#[test]
fn nan_and_positive_infinity_are_errors_wherever_they_are() {
    for n in [1, 31, 32, 33, 100] {
        for at in [0, n / 2, n - 1] {
            for bad in [f32::NAN, INF] {
                let mut logits = vec![0.0; n];
                logits[at] = bad;
                for temperature in [0.0, 1.0] {
                    let mut sampler = sampler(&SamplerParams { temperature, ..plain() }, n);
                    let error = sampler.sample(&logits, None).unwrap_err();
                    let named = matches!(error, SampleError::BadLogit { id, .. } if id as usize == at);
                    assert!(named, "{n} {at} {error}");
                }
                assert!(matches!(top_logprobs(&logits, 3), Err(SampleError::BadLogit { .. })));
            }
        }
    }
}

#[test]
fn the_best_of_a_row_found_elsewhere_is_what_the_row_gives() {
    let rows: [&[f32]; 8] = [
        &[0.5, 2.0, 2.0, -1.0],
        &[-0.0, 0.0, -1.0, -1.0],
        &[-INF, -INF, -3e38, -INF],
        &[-INF; 4],
        &[1.0, INF, f32::NAN, 5.0],
        &[1.0, 7.0, 6.0, INF],
        &[f32::NAN, INF, 0.0, 0.0],
        &[0.0; 4],
    ];
    for row in rows {
        let mut sampler = sampler(&SamplerParams { temperature: 0.0, ..plain() }, row.len());
        assert!(sampler.takes_best());
        let mut best = [0.0; 2];
        minfer_cpu::ops::argmax(row, row.len(), &mut best).unwrap();
        let (found, wanted) = (sampler.take_best(best[0], best[1]), sampler.sample(row, None));
        // NaN is not equal to itself, and its text is.
        let text = |e: SampleError| e.to_string();
        assert_eq!(found.map_err(text), wanted.map(|s| s.id).map_err(text), "{row:?}");
    }
    for params in [
        SamplerParams { temperature: 0.1, ..plain() },
        SamplerParams { repeat_penalty: 1.1, temperature: 0.0, ..plain() },
        SamplerParams { logit_bias: vec![(1, -1.0)], temperature: 0.0, ..plain() },
    ] {
        assert!(!sampler(&params, 4).takes_best(), "{params:?}");
    }
}

#[test]
fn a_penalty_that_overflows_is_an_error() {
    let mut sampler = sampler(&SamplerParams { repeat_penalty: 1e-38, ..plain() }, 2);
    sampler.accept(1).unwrap();
    assert_eq!(sampler.sample(&[0.0, 10.0], None), Err(SampleError::BadLogit { id: 1, value: INF }));
}

#[test]
fn nothing_to_draw_is_an_error() {
    for params in [
        plain(),
        SamplerParams { temperature: 0.0, ..plain() },
        SamplerParams { top_n_sigma: 1.0, ..plain() },
    ] {
        let mut sampler = sampler(&params, 40);
        assert_eq!(sampler.sample(&[-INF; 40], None), Err(SampleError::NoCandidate));
        let none = [0, 0];
        assert_eq!(sampler.sample(&[0.0; 40], Some(TokenMask::new(&none))), Err(SampleError::NoCandidate));
        assert_eq!(sampler.sample(&[0.0; 40], Some(TokenMask::new(&[]))), Err(SampleError::NoCandidate));
    }
    assert_eq!(top_logprobs(&[-INF; 4], 2), Err(SampleError::NoCandidate));
    assert_eq!(top_logprobs(&[], 2), Err(SampleError::NoCandidate));
    assert_eq!(sampler(&plain(), 0).sample(&[], None), Err(SampleError::NoCandidate));
}

#[test]
fn rows_and_tokens_of_another_vocabulary_are_errors() {
    let mut sampler = sampler(&plain(), 4);
    assert_eq!(sampler.sample(&[0.0; 5], None), Err(SampleError::Length { expected: 4, found: 5 }));
    assert_eq!(sampler.accept(4), Err(SampleError::Token { id: 4, n_vocab: 4 }));
    assert_eq!(logprob(&[0.0; 4], 4), Err(SampleError::Token { id: 4, n_vocab: 4 }));
}

#[test]
fn a_damaged_state_is_refused_and_changes_nothing() {
    let mut sampler = sampler(&plain(), 4);
    let good = sampler.state();
    let generator = SamplerState { generator: [0, 4], ..good.clone() };
    assert_eq!(sampler.restore(&generator), Err(SampleError::Generator(4)));
    let history = SamplerState { history: vec![1, 4], ..good.clone() };
    assert_eq!(sampler.restore(&history), Err(SampleError::Token { id: 4, n_vocab: 4 }));
    assert_eq!(sampler.state(), good);
}

#[test]
fn extreme_logits_and_temperatures_still_draw() {
    let logits = [f32::MAX, f32::MIN, 1e-45, -0.0, 0.0, -INF];
    for temperature in [1e-45, 1e-30, 1.0, f32::MAX] {
        for typical_p in [0.5, 1.0] {
            let params = SamplerParams { temperature, typical_p, top_n_sigma: 2.0, ..plain() };
            let drawn = sampler(&params, logits.len()).sample(&logits, None).unwrap();
            assert!(drawn.id != 5 && drawn.logprob <= 0.0, "{temperature} {drawn:?}");
        }
    }
}

#[test]
fn a_mask_shorter_than_the_vocabulary_forbids_the_rest() {
    let mut sampler = sampler(&SamplerParams { temperature: 0.0, ..plain() }, 70);
    let mut logits = vec![0.0; 70];
    logits[69] = 5.0;
    logits[40] = 3.0;
    let words = [u32::MAX, u32::MAX];
    let mask = TokenMask::new(&words);
    assert_eq!(sampler.sample(&logits, Some(mask)).unwrap().id, 40);
    assert!(mask.allows(63) && !mask.allows(64));
}
