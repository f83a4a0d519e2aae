//! The response object: what was asked for, what came of it, how it ended.

use serde_json::{Value, json};

use super::items::Items;
use crate::answer::{EndReason, Finished};
use crate::error::ApiError;
use crate::state::{App, unix_now};

/// What the object repeats of a request, with what it is if the request does not say it.
const REPEATED: [(&str, &str); 14] = [
    ("instructions", "null"),
    ("max_output_tokens", "null"),
    ("max_tool_calls", "null"),
    ("metadata", "{}"),
    ("parallel_tool_calls", "true"),
    ("reasoning", r#"{"effort":null,"summary":null}"#),
    ("temperature", "null"),
    ("text", r#"{"format":{"type":"text"}}"#),
    ("tool_choice", r#""auto""#),
    ("tools", "[]"),
    ("top_logprobs", "0"),
    ("top_p", "null"),
    ("truncation", r#""disabled""#),
    ("user", "null"),
];

/// The object as it is before there is an answer.
#[derive(Clone, Debug)]
pub(super) struct Object(Value);

impl Object {
    pub(super) fn of_request(app: &App, body: &Value) -> Self {
        let mut object = json!({
            "id": app.new_id("resp_"),
            "object": "response",
            "created_at": unix_now(),
            "status": "in_progress",
            "background": false,
            "error": null,
            "incomplete_details": null,
            "model": app.name(),
            "output": [],
            "previous_response_id": null,
            "service_tier": "default",
            "store": false,
            "usage": null,
        });
        for (name, default) in REPEATED {
            let asked = body.get(name).filter(|value| !value.is_null()).cloned();
            object[name] = asked.unwrap_or_else(|| serde_json::from_str(default).unwrap_or_default());
        }
        Self(object)
    }

    pub(super) fn value(&self) -> Value {
        self.0.clone()
    }

    /// The same when the answer is there.
    pub(super) fn finished(&self, items: &Items, finished: Option<&Finished>) -> Value {
        let mut object = self.value();
        let is_cut = finished.is_none_or(|finished| finished.reason == EndReason::Length);
        object["status"] = if is_cut { "incomplete" } else { "completed" }.into();
        if is_cut {
            object["incomplete_details"] = json!({ "reason": "max_output_tokens" });
        }
        object["output"] = items.done().into();
        object["usage"] = finished.map_or(Value::Null, usage);
        object
    }

    /// The same when it failed.
    pub(super) fn failed(&self, items: &Items, error: &ApiError) -> Value {
        let mut object = self.value();
        object["status"] = "failed".into();
        object["error"] = json!({ "code": error.code, "message": error.message });
        object["output"] = items.done().into();
        object
    }
}

fn usage(finished: &Finished) -> Value {
    let (n_prompt, n_completion) = (finished.n_prompt, finished.n_completion());
    json!({
        "input_tokens": n_prompt,
        "input_tokens_details": { "cached_tokens": finished.n_cached() },
        "output_tokens": n_completion,
        "output_tokens_details": { "reasoning_tokens": finished.n_reasoning },
        "total_tokens": n_prompt + n_completion,
    })
}
