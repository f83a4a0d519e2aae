//! What becomes of tokens in the text of an answer.
#![allow(clippy::unwrap_used, clippy::print_stderr, reason = "a test may panic and says what it skips")]

mod common;

use std::ops::ControlFlow;

use common::*;
use minfer_engine::sampler::SamplerParams;
use minfer_engine::{FinishReason, GenerateParams, Generated, generate};

fn answer(params: &GenerateParams) -> Generated {
    let model = load(&data().join("qwen2-tied-q4_0.gguf"));
    let mut context = context(&model, &small());
    let seq = context.new_sequence().unwrap();
    generate(&mut context, seq, &[5, 17, 99, 4], params, &mut |_| ControlFlow::Continue(())).unwrap()
}

/// Always this token.
fn only(token: u32) -> GenerateParams {
    let sampler =
        SamplerParams { temperature: 0.0, logit_bias: vec![(token, 1e6)], ..SamplerParams::default() };
    GenerateParams { n_predict: Some(2), ignore_eos: true, sampler, ..GenerateParams::default() }
}

#[test]
fn a_control_token_is_shown_if_it_is_asked_for() {
    let model = load(&data().join("qwen2-tied-q4_0.gguf"));
    let [start, end] = ["<|im_start|>", "<|im_end|>"].map(|text| model.tokenizer().token_id(text).unwrap());
    assert_eq!(answer(&only(start)).text, "");
    let shown = |token: u32| answer(&GenerateParams { shown: vec![start], ..only(token) }).text;
    assert_eq!(shown(start), "<|im_start|><|im_start|>");
    assert_eq!(shown(end), "");
}

#[test]
fn the_stop_string_that_ended_an_answer_is_named() {
    let greedy = |stop: &[&str]| {
        let sampler = SamplerParams { temperature: 0.0, ..SamplerParams::default() };
        let stop = stop.iter().map(|text| (*text).to_owned()).collect();
        answer(&GenerateParams {
            n_predict: Some(12),
            ignore_eos: true,
            sampler,
            stop,
            ..GenerateParams::default()
        })
    };
    let whole = greedy(&["never there"]);
    assert_eq!((whole.reason, &whole.stop), (FinishReason::Length, &None));
    let word: String = whole.text.chars().skip(2).take(2).collect();
    let stopped = greedy(&["never there", &word]);
    assert_eq!((stopped.reason, stopped.stop), (FinishReason::StopString, Some(word)));
}
