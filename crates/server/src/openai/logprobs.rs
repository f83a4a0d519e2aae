//! Log-probabilities, in the shape of chats and in that of completions.

use minfer_engine::sampler::TokenLogprob;
use minfer_text::tokenizer::Tokenizer;
use serde_json::{Map, Value, json};

use crate::answer::TokenReport;

/// Those of a chat: a list of tokens.
pub(crate) fn of_chat(tokenizer: &Tokenizer, tokens: &[TokenReport]) -> Value {
    json!({ "content": list(tokenizer, tokens), "refusal": null })
}

/// Tokens with what was most probable beside them.
pub(super) fn list(tokenizer: &Tokenizer, tokens: &[TokenReport]) -> Vec<Value> {
    let entry = |it: &TokenLogprob| {
        let bytes = tokenizer.token_bytes(it.id).unwrap_or_default();
        json!({ "token": String::from_utf8_lossy(bytes), "logprob": finite(it.logprob), "bytes": bytes })
    };
    let with_top = |token: &TokenReport| {
        let mut own = entry(&TokenLogprob { id: token.id, logprob: token.logprobs.logprob });
        own["top_logprobs"] = token.logprobs.top.iter().map(entry).collect();
        own
    };
    tokens.iter().map(with_top).collect()
}

/// Those of a completion: lists side by side; `offset` characters come before the first token's own.
pub(crate) fn of_completion(tokenizer: &Tokenizer, tokens: &[TokenReport], offset: usize) -> Value {
    let text = |id: u32| String::from_utf8_lossy(tokenizer.token_bytes(id).unwrap_or_default()).into_owned();
    let tops = |token: &TokenReport| -> Map<String, Value> {
        token.logprobs.top.iter().map(|t| (text(t.id), finite(t.logprob))).collect()
    };
    json!({
        "tokens": tokens.iter().map(|token| text(token.id)).collect::<Vec<_>>(),
        "token_logprobs": tokens.iter().map(|token| finite(token.logprobs.logprob)).collect::<Vec<_>>(),
        "top_logprobs": tokens.iter().map(tops).collect::<Vec<_>>(),
        "text_offset": tokens.iter().map(|token| token.offset + offset).collect::<Vec<_>>(),
    })
}

/// JSON has no infinity; OpenAI writes this for what is as good as impossible.
fn finite(logprob: f64) -> Value {
    json!(if logprob.is_finite() { logprob } else { -9999.0 })
}
