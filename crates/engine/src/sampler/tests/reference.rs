//! The chain against one that is written for reading: whole-row copies, full sorts, one step after the other.

use proptest::prelude::*;

use super::*;
use crate::sampler::top_logprobs;

#[derive(Clone, Debug)]
struct Entry {
    id: u32,
    logit: f32,
    p: f64,
}

fn normalize(entries: &mut [Entry], temperature: f64) {
    let max = entries.iter().map(|e| f64::from(e.logit)).fold(f64::NEG_INFINITY, f64::max);
    let weight = |e: &Entry| libm::exp((f64::from(e.logit) - max) / temperature);
    let total: f64 = entries.iter().map(weight).sum();
    entries.iter_mut().for_each(|e| e.p = weight(e) / total);
}

fn by_rank(entries: &mut [Entry]) {
    entries.sort_by(|a, b| b.logit.partial_cmp(&a.logit).unwrap().then(a.id.cmp(&b.id)));
}

/// Cuts after the first entry, not before number `min_keep`, at which the running sum is enough.
fn cut(entries: &mut Vec<Entry>, min_keep: usize, enough: impl Fn(f64) -> bool) {
    let sums = entries.iter().scan(0.0, |sum, e| {
        *sum += e.p;
        Some(*sum)
    });
    if let Some(at) = sums.enumerate().position(|(i, sum)| i + 1 >= min_keep && enough(sum)) {
        entries.truncate(at + 1);
    }
}

fn reference(p: &SamplerParams, logits: &[f32], history: &[u32], allowed: &[bool]) -> Vec<Entry> {
    let mut row = logits.to_vec();
    let mut bias = vec![0.0; row.len()];
    p.logit_bias.iter().for_each(|&(id, b)| bias[id as usize] += b);
    row.iter_mut().zip(bias).for_each(|(logit, b)| *logit += b);
    let window = if p.repeat_last_n < 0 { history.len() } else { p.repeat_last_n as usize };
    let recent = &history[history.len().saturating_sub(window)..];
    for (id, logit) in row.iter_mut().enumerate() {
        let count = recent.iter().filter(|&&t| t as usize == id).count();
        if count > 0 {
            *logit = if *logit > 0.0 { *logit / p.repeat_penalty } else { *logit * p.repeat_penalty };
            *logit = *logit - count as f32 * p.frequency_penalty - p.presence_penalty;
        }
    }
    let mut e: Vec<Entry> = (0..).zip(row).map(|(id, logit)| Entry { id, logit, p: 0.0 }).collect();
    e.retain(|e| allowed[e.id as usize] && e.logit > f32::NEG_INFINITY);
    if p.top_n_sigma > 0.0 && !e.is_empty() {
        let n = e.len() as f64;
        let mean = e.iter().map(|e| f64::from(e.logit)).sum::<f64>() / n;
        let variance =
            e.iter().map(|e| (f64::from(e.logit) - mean) * (f64::from(e.logit) - mean)).sum::<f64>() / n;
        let max = e.iter().map(|e| e.logit).fold(f32::MIN, f32::max);
        let floor = (f64::from(max) - f64::from(p.top_n_sigma) * variance.sqrt()) as f32;
        e.retain(|e| e.logit >= floor);
    }
    by_rank(&mut e);
    if p.top_k > 0 {
        e.truncate(p.top_k as usize);
    }
    let min_keep = p.min_keep as usize;
    if p.typical_p < 1.0 {
        normalize(&mut e, 1.0);
        let entropy: f64 = e.iter().map(|e| e.p * -libm::log(e.p)).sum();
        let distance = |e: &Entry| (-libm::log(e.p) - entropy).abs();
        e.sort_by(|a, b| distance(a).partial_cmp(&distance(b)).unwrap());
        cut(&mut e, min_keep, |sum| sum > f64::from(p.typical_p));
        by_rank(&mut e);
    }
    if p.top_p < 1.0 {
        normalize(&mut e, 1.0);
        cut(&mut e, min_keep, |sum| sum >= f64::from(p.top_p));
    }
    if p.min_p > 0.0 && !e.is_empty() {
        let floor = f64::from(e[0].logit) + libm::log(f64::from(p.min_p));
        let mut i = 0;
        e.retain(|e| {
            i += 1;
            i <= min_keep.max(1) || f64::from(e.logit) >= floor
        });
    }
    normalize(&mut e, f64::from(p.temperature));
    e
}

/// Quarter steps, so that ties are common, and some impossible tokens.
fn a_logit() -> impl Strategy<Value = f32> {
    prop_oneof![9 => (-40i32..40).prop_map(|x| x as f32 / 4.0), 1 => Just(f32::NEG_INFINITY)]
}

/// Each stage is off about half of the time.
fn some_params(n_vocab: usize) -> impl Strategy<Value = SamplerParams> {
    let id = 0..n_vocab as u32;
    let cuts = (
        prop_oneof![Just(0u32), 1u32..50],
        prop_oneof![Just(1.0f32), 0.0f32..1.0],
        prop_oneof![Just(0.0f32), 0.0f32..1.0],
        prop_oneof![Just(1.0f32), 0.0f32..1.0],
        prop_oneof![Just(-1.0f32), 0.01f32..3.0],
        prop_oneof![Just(0u32), 1u32..5],
    );
    let changes = (
        prop_oneof![Just(1.0f32), 0.5f32..2.0],
        prop_oneof![Just(-1i32), 0i32..20],
        prop_oneof![Just(0.0f32), -2.0f32..2.0],
        prop_oneof![Just(0.0f32), -2.0f32..2.0],
        proptest::collection::vec((id, prop_oneof![3 => -5.0f32..5.0, 1 => Just(f32::NEG_INFINITY)]), 0..6),
    );
    (cuts, changes, 0.1f32..3.0).prop_map(|(cuts, changes, temperature)| SamplerParams {
        seed: Some(0),
        temperature,
        top_k: cuts.0,
        top_p: cuts.1,
        min_p: cuts.2,
        typical_p: cuts.3,
        top_n_sigma: cuts.4,
        min_keep: cuts.5,
        repeat_penalty: changes.0,
        repeat_last_n: changes.1,
        presence_penalty: changes.2,
        frequency_penalty: changes.3,
        logit_bias: changes.4,
    })
}

type Case = (SamplerParams, Vec<f32>, Vec<u32>, Vec<bool>);

fn a_case() -> impl Strategy<Value = Case> {
    (1usize..150).prop_flat_map(|n| {
        (
            some_params(n),
            proptest::collection::vec(a_logit(), n),
            proptest::collection::vec(0..n as u32, 0..40),
            prop_oneof![Just(vec![true; n]), proptest::collection::vec(any::<bool>(), n)],
        )
    })
}

proptest! {
    #[test]
    fn the_chain_leaves_what_the_reference_leaves((params, logits, history, allowed) in a_case()) {
        let expected = reference(&params, &logits, &history, &allowed);
        let mut sampler = sampler(&params, logits.len());
        for &id in &history {
            sampler.accept(id).unwrap();
        }
        let words = words_of(&allowed);
        let mask = if allowed.iter().all(|&a| a) { None } else { Some(TokenMask::new(&words)) };
        match sampler.distribution(&logits, mask) {
            Err(error) => {
                prop_assert!(expected.is_empty());
                prop_assert_eq!(error, crate::sampler::SampleError::NoCandidate);
            }
            Ok(found) => {
                let both = |e: &Entry| (e.id, e.logit);
                prop_assert_eq!(
                    found.iter().map(|c| (c.id, c.logit)).collect::<Vec<_>>(),
                    expected.iter().map(both).collect::<Vec<_>>()
                );
                for (f, e) in found.iter().zip(&expected) {
                    prop_assert!((f.p - e.p).abs() < 1e-12, "{} {}", f.p, e.p);
                }
            }
        }
    }

    #[test]
    fn partial_selection_is_a_full_sort(
        logits in proptest::collection::vec(-30i32..30, 1..3000),
        k in 1u32..400,
        rising in any::<bool>(),
    ) {
        let mut logits: Vec<f32> = logits.into_iter().map(|x| x as f32).collect();
        if rising {
            logits.sort_by(f32::total_cmp);
        }
        let mut order: Vec<u32> = (0..logits.len() as u32).collect();
        order.sort_by(|&a, &b| logits[b as usize].total_cmp(&logits[a as usize]).then(a.cmp(&b)));
        order.truncate(k as usize);
        prop_assert_eq!(left(&SamplerParams { top_k: k, ..plain() }, &logits), order);
    }

    #[test]
    fn greedy_is_the_first_of_the_best(logits in proptest::collection::vec(a_logit(), 1..200)) {
        let max = logits.iter().copied().fold(f32::NEG_INFINITY, f32::max);
        prop_assume!(max > f32::NEG_INFINITY);
        let first = logits.iter().position(|&x| x == max).unwrap() as u32;
        prop_assert_eq!(left(&SamplerParams { temperature: 0.0, ..plain() }, &logits), [first]);
    }

    #[test]
    fn logprobs_are_the_log_of_the_softmax(
        logits in proptest::collection::vec(a_logit(), 1..200),
        shift in prop_oneof![Just(0.0f32), Just(-65536.0), Just(65536.0)],
        n in 0usize..20,
    ) {
        // Quarter steps survive a shift by a power of two exactly.
        let shifted: Vec<f32> = logits.iter().map(|x| x + shift).collect();
        prop_assume!(logits.iter().any(|x| x.is_finite()));
        let total: f64 = logits.iter().map(|&x| f64::from(x).exp()).sum();
        let top = top_logprobs(&shifted, n).unwrap();
        let n_possible = logits.iter().filter(|x| x.is_finite()).count();
        prop_assert_eq!(top.len(), n.min(n_possible));
        for t in &top {
            let p = f64::from(logits[t.id as usize]).exp() / total;
            prop_assert!((t.logprob - p.ln()).abs() < 1e-9);
            prop_assert_eq!(t.logprob, crate::sampler::logprob(&shifted, t.id).unwrap());
        }
    }
}
