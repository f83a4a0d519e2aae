//! An answer, as llama.cpp writes it.

use minfer_engine::{FinishReason, GenerateParams};
use serde_json::{Value, json};

use super::completion::RawCompletion;
use crate::answer::{Finished, TokenReport, Whole};
use crate::openai::usage::timings;
use crate::state::App;

/// The body of a whole answer.
pub(super) fn whole_body(
    app: &App,
    call: &RawCompletion,
    index: usize,
    prompt: &str,
    whole: &Whole,
) -> Value {
    let Some(finished) = whole.finished.as_deref() else { return Value::Null };
    let mut body = final_body(app, call, index, prompt, finished);
    body["content"] = whole.content.as_str().into();
    if call.return_tokens {
        body["tokens"] = finished.generated.tokens.as_slice().into();
    }
    if call.settings.params.n_logprobs.is_some() {
        body["completion_probabilities"] = probabilities(app, &whole.tokens);
    }
    body
}

/// What comes last, without the text.
pub(super) fn final_body(
    app: &App,
    call: &RawCompletion,
    index: usize,
    prompt: &str,
    finished: &Finished,
) -> Value {
    let generated = &finished.generated;
    json!({
        "index": index,
        "content": "",
        "tokens": [],
        "id_slot": -1,
        "stop": true,
        "model": app.name(),
        "tokens_predicted": finished.n_completion(),
        "tokens_evaluated": finished.n_prompt,
        "generation_settings": settings(app, &call.settings.params),
        "prompt": prompt,
        "has_new_line": generated.text.contains('\n'),
        "truncated": !generated.dropped.is_empty(),
        "stop_type": stop_type(generated.reason),
        "stopping_word": generated.stop.as_deref().unwrap_or_default(),
        "tokens_cached": finished.n_cached(),
        "timings": timings(finished),
    })
}

fn stop_type(reason: FinishReason) -> &'static str {
    match reason {
        FinishReason::EndOfGeneration | FinishReason::Complete => "eos",
        FinishReason::StopString => "word",
        FinishReason::Length | FinishReason::ContextFull | FinishReason::Deadline => "limit",
        FinishReason::Interrupted => "none",
    }
}

/// How an answer is made.
pub(super) fn settings(app: &App, params: &GenerateParams) -> Value {
    let sampler = &params.sampler;
    let n_predict = params.n_predict.map_or(json!(-1), Into::into);
    json!({
        "n_ctx": app.engine().n_ctx(),
        "n_predict": n_predict,
        "max_tokens": n_predict,
        "seed": sampler.seed.map_or(json!(u32::MAX), Into::into),
        "temperature": sampler.temperature,
        "top_k": sampler.top_k,
        "top_p": sampler.top_p,
        "min_p": sampler.min_p,
        "typical_p": sampler.typical_p,
        "top_n_sigma": sampler.top_n_sigma,
        "min_keep": sampler.min_keep,
        "repeat_penalty": sampler.repeat_penalty,
        "repeat_last_n": sampler.repeat_last_n,
        "presence_penalty": sampler.presence_penalty,
        "frequency_penalty": sampler.frequency_penalty,
        "logit_bias": sampler.logit_bias.iter().map(|(id, bias)| json!([id, bias])).collect::<Vec<_>>(),
        "stop": params.stop,
        "ignore_eos": params.ignore_eos,
        "n_probs": params.n_logprobs.unwrap_or(0),
    })
}

/// How probable tokens were, and those beside them.
pub(super) fn probabilities(app: &App, tokens: &[TokenReport]) -> Value {
    let tokenizer = app.model().tokenizer();
    let entry = |id: u32, logprob: f64| {
        let bytes = tokenizer.token_bytes(id).unwrap_or_default();
        json!({ "id": id, "token": String::from_utf8_lossy(bytes), "bytes": bytes, "logprob": logprob })
    };
    let report = |token: &TokenReport| {
        let mut report = entry(token.id, token.logprobs.logprob);
        report["top_logprobs"] = token.logprobs.top.iter().map(|it| entry(it.id, it.logprob)).collect();
        report
    };
    tokens.iter().map(report).collect()
}
