//! The body of a completion: the answers of each prompt, the best of them if there are more than wanted.

use minfer_engine::{Model, StepLogprobs};
use minfer_text::tokenizer::StreamDecoder;
use serde_json::{Value, json};

use super::completions::CompletionCall;
use super::prompt::Prompt;
use super::usage::{Usage, finish_reason, timings};
use super::{FINGERPRINT, logprobs};
use crate::answer::{TokenReport, Whole};

/// What a response is made of, besides the answers.
#[derive(Clone, Copy)]
pub struct Parts<'a> {
    /// Its id.
    pub id: &'a str,
    /// Seconds since 1970.
    pub created: u64,
    /// The name that it carries.
    pub model_name: &'a str,
    /// The model.
    pub model: &'a Model,
    /// What was asked for.
    pub call: &'a CompletionCall,
    /// The tokens of each prompt.
    pub prompts: &'a [Vec<u32>],
}

/// The body of all answers, in the order of the jobs.
pub fn completion_body(parts: &Parts<'_>, all: Vec<Whole>) -> Value {
    let mut total = Usage::default();
    let mut choices = Vec::new();
    let timings = all.first().and_then(|whole| whole.finished.as_deref()).map(timings);
    for (at, group) in all.chunks(parts.call.settings.n.max(1)).enumerate() {
        let mut usage = Usage::default();
        group.iter().filter_map(|whole| whole.finished.as_deref()).for_each(|it| usage.add(it));
        total.add_prompt(&usage);
        for whole in best(group, parts.call.n) {
            choices.push(choice(parts, at, choices.len(), whole));
        }
    }
    let mut body = json!({
        "id": parts.id,
        "object": "text_completion",
        "created": parts.created,
        "model": parts.model_name,
        "choices": choices,
        "usage": total.json(),
        "system_fingerprint": FINGERPRINT,
    });
    if let Some(timings) = timings {
        body["timings"] = timings;
    }
    body
}

/// The `n` most probable answers, by the mean of their tokens, best first; all as they came if there are no more.
fn best(group: &[Whole], n: usize) -> Vec<&Whole> {
    let mut all: Vec<&Whole> = group.iter().collect();
    if all.len() > n {
        all.sort_by(|a, b| mean_logprob(b).total_cmp(&mean_logprob(a)));
        all.truncate(n);
    }
    all
}

fn mean_logprob(whole: &Whole) -> f64 {
    let Some(finished) = whole.finished.as_deref() else { return f64::NEG_INFINITY };
    let steps = &finished.generated.logprobs;
    let total: f64 = steps.iter().map(|step| step.logprob).sum();
    if steps.is_empty() { f64::NEG_INFINITY } else { total / steps.len() as f64 }
}

fn choice(parts: &Parts<'_>, at: usize, index: usize, whole: &Whole) -> Value {
    let finished = whole.finished.as_deref();
    let echoed = if parts.call.echo { prompt_text(parts, at) } else { String::new() };
    let logprobs =
        if parts.call.has_logprobs { choice_logprobs(parts, at, &echoed, whole) } else { Value::Null };
    json!({
        "index": index,
        "text": echoed + &whole.content,
        "logprobs": logprobs,
        "finish_reason": finished.map(|it| finish_reason(it.reason)),
    })
}

fn choice_logprobs(parts: &Parts<'_>, at: usize, echoed: &str, whole: &Whole) -> Value {
    let tokenizer = parts.model.tokenizer();
    let own = logprobs::of_completion(tokenizer, &whole.tokens, echoed.chars().count());
    let Some(finished) = whole.finished.as_deref().filter(|_| parts.call.echo) else { return own };
    let reports = prompt_reports(parts, at, &finished.generated.prompt_logprobs);
    let mut all = logprobs::of_completion(tokenizer, &reports, 0);
    // Nothing comes before the first token that it could be probable after.
    for name in ["token_logprobs", "top_logprobs"] {
        if let Some(first) = all[name].as_array_mut().and_then(|list| list.first_mut()) {
            *first = Value::Null;
        }
    }
    for name in ["tokens", "token_logprobs", "top_logprobs", "text_offset"] {
        if let (Some(list), Some(more)) = (all[name].as_array_mut(), own[name].as_array()) {
            list.extend(more.iter().cloned());
        }
    }
    all
}

/// The text of a prompt.
pub(super) fn prompt_text(parts: &Parts<'_>, at: usize) -> String {
    match &parts.call.prompts[at] {
        Prompt::Text(text) => text.clone(),
        Prompt::Tokens(tokens) => parts.model.tokenizer().decode(tokens, true).unwrap_or_default(),
    }
}

/// The tokens of a prompt, the first with a log-probability that means nothing.
fn prompt_reports(parts: &Parts<'_>, at: usize, logprobs: &[StepLogprobs]) -> Vec<TokenReport> {
    let (tokens, tokenizer) = (&parts.prompts[at], parts.model.tokenizer());
    let is_text = matches!(parts.call.prompts[at], Prompt::Text(_));
    let added = tokenizer.special_ids().bos.filter(|_| is_text && tokenizer.add_bos());
    let first = StepLogprobs { logprob: 0.0, top: Vec::new() };
    let logprobs = std::iter::once(&first).chain(logprobs);
    let (mut decoder, mut piece, mut offset) = (StreamDecoder::continuing(true), String::new(), 0);
    let report = |(i, (&id, logprobs)): (usize, (&u32, &StepLogprobs))| {
        let report = TokenReport { id, offset, is_thought: false, logprobs: logprobs.clone() };
        piece.clear();
        // The token that the tokenizer put in front is no part of the text.
        if !(i == 0 && added == Some(id)) && decoder.push(tokenizer, id, &mut piece).is_ok() {
            offset += piece.chars().count();
        }
        report
    };
    tokens.iter().zip(logprobs).enumerate().map(report).collect()
}
