//! The lines of the output, in OpenAI's shape.

use std::time::{SystemTime, UNIX_EPOCH};

use minfer_engine::sampler::TokenLogprob;
use minfer_engine::{FinishReason, Generated, StepLogprobs};
use minfer_text::tokenizer::{StreamDecoder, Tokenizer};
use serde_json::{Map, Value, json};

use super::body::ApiError;
use super::input::Line;

/// The line of a request that was answered.
pub(super) fn success(line: &Line<'_>, body: Value) -> Value {
    reported(line, 200, &body)
}

/// The line of a request that was refused.
pub(super) fn failure(line: &Line<'_>, error: &ApiError) -> Value {
    let kind = if error.status < 500 { "invalid_request_error" } else { "server_error" };
    let body = json!({
        "error": { "message": error.message, "type": kind, "param": error.param, "code": error.code }
    });
    reported(line, error.status, &body)
}

fn reported(line: &Line<'_>, status: u16, body: &Value) -> Value {
    let id = line.answer_id();
    json!({
        "id": id,
        "custom_id": line.custom_id,
        "response": { "status_code": status, "request_id": id, "body": body },
        "error": null,
    })
}

/// A finished answer and what belongs to it.
pub(super) struct Answer<'a> {
    pub(super) line: &'a Line<'a>,
    pub(super) tokenizer: &'a Tokenizer,
    pub(super) model: &'a str,
    pub(super) n_prompt: usize,
    pub(super) done: &'a Generated,
}

impl Answer<'_> {
    /// The body of the response.
    pub(super) fn body(&self, is_chat: bool) -> Value {
        let (done, reason) = (self.done, finish_reason(self.done.reason));
        let choice = match is_chat {
            true => json!({
                "index": 0,
                "message": { "role": "assistant", "content": done.text },
                "logprobs": self.chat_logprobs(),
                "finish_reason": reason,
            }),
            false => json!({
                "index": 0,
                "text": done.text,
                "logprobs": self.completion_logprobs(),
                "finish_reason": reason,
            }),
        };
        let n_completion = done.tokens.len();
        json!({
            "id": format!("{}-{}", if is_chat { "chatcmpl" } else { "cmpl" }, self.line.answer_id()),
            "object": if is_chat { "chat.completion" } else { "text_completion" },
            "created": SystemTime::now().duration_since(UNIX_EPOCH).map_or(0, |d| d.as_secs()),
            "model": self.model,
            "choices": [choice],
            "usage": {
                "prompt_tokens": self.n_prompt,
                "completion_tokens": n_completion,
                "total_tokens": self.n_prompt + n_completion,
                "prompt_tokens_details": { "cached_tokens": done.timings.n_cached },
            },
        })
    }

    /// Each token of the text, and how many characters come before it. The token that ended the answer is not part of the
    /// text, and neither are those that lie wholly in or after the stop string.
    fn steps(&self) -> impl Iterator<Item = (usize, TokenLogprob, &StepLogprobs)> {
        let n_end = usize::from(self.done.reason == FinishReason::EndOfGeneration);
        let n_text = self.done.tokens.len().saturating_sub(n_end);
        let steps = self.done.tokens.iter().zip(&self.done.logprobs).take(n_text);
        let is_cut = self.done.reason == FinishReason::StopString;
        let mut decoder = StreamDecoder::continuing(false);
        let (mut piece, mut n_chars, mut n_bytes) = (String::new(), 0, 0);
        steps.map_while(move |(&id, step)| {
            if is_cut && n_bytes >= self.done.text.len() {
                return None;
            }
            let offset = n_chars;
            piece.clear();
            decoder.push(self.tokenizer, id, &mut piece).ok()?;
            n_chars += piece.chars().count();
            n_bytes += piece.len();
            Some((offset, TokenLogprob { id, logprob: step.logprob }, step))
        })
    }

    fn chat_logprobs(&self) -> Value {
        if self.done.logprobs.is_empty() {
            return Value::Null;
        }
        let entry = |it: &TokenLogprob| {
            let bytes = self.bytes(it.id);
            json!({ "token": String::from_utf8_lossy(bytes), "logprob": it.logprob, "bytes": bytes })
        };
        let with_top = |(_, token, step): (usize, TokenLogprob, &StepLogprobs)| {
            let mut entry_of = entry(&token);
            entry_of["top_logprobs"] = step.top.iter().map(entry).collect();
            entry_of
        };
        json!({ "content": self.steps().map(with_top).collect::<Vec<_>>() })
    }

    fn completion_logprobs(&self) -> Value {
        if self.done.logprobs.is_empty() {
            return Value::Null;
        }
        let text = |id: u32| String::from_utf8_lossy(self.bytes(id)).into_owned();
        let (mut tokens, mut logprobs, mut tops, mut offsets) =
            (Vec::new(), Vec::new(), Vec::new(), Vec::new());
        for (offset, token, step) in self.steps() {
            offsets.push(offset);
            tokens.push(text(token.id));
            logprobs.push(token.logprob);
            tops.push(step.top.iter().map(|t| (text(t.id), json!(t.logprob))).collect::<Map<_, _>>());
        }
        json!({
            "tokens": tokens, "token_logprobs": logprobs, "top_logprobs": tops, "text_offset": offsets
        })
    }

    fn bytes(&self, id: u32) -> &[u8] {
        self.tokenizer.token_bytes(id).unwrap_or_default()
    }
}

fn finish_reason(reason: FinishReason) -> &'static str {
    match reason {
        FinishReason::EndOfGeneration | FinishReason::StopString | FinishReason::Complete => "stop",
        FinishReason::Length
        | FinishReason::ContextFull
        | FinishReason::Deadline
        | FinishReason::Interrupted => "length",
    }
}
