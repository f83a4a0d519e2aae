//! A whole answer, and what its stream shares with it.

use serde_json::{Value, json};

use crate::answer::{EndReason, Finished, Whole};

/// The body of a whole answer.
pub fn message_body(id: &str, model: &str, whole: &Whole) -> Value {
    let finished = whole.finished.as_deref();
    let mut content = Vec::new();
    if !whole.reasoning.is_empty() {
        content.push(json!({ "type": "thinking", "thinking": whole.reasoning, "signature": "" }));
    }
    if !whole.content.is_empty() {
        content.push(json!({ "type": "text", "text": whole.content }));
    }
    for call in &whole.calls {
        // Arguments that were cut off are told as they came.
        let input = serde_json::from_str(&call.arguments)
            .unwrap_or_else(|_| json!({ "_incomplete": call.arguments }));
        content.push(json!({ "type": "tool_use", "id": call.id, "name": call.name, "input": input }));
    }
    json!({
        "id": id,
        "type": "message",
        "role": "assistant",
        "model": model,
        "content": content,
        "stop_reason": finished.map(stop_reason),
        "stop_sequence": finished.and_then(|it| it.generated.stop.as_deref()),
        "usage": finished.map(usage),
    })
}

/// Anthropic's word for the end of an answer.
pub(super) fn stop_reason(finished: &Finished) -> &'static str {
    match finished.reason {
        EndReason::Stop => "end_turn",
        EndReason::StopString => "stop_sequence",
        EndReason::Length => "max_tokens",
        EndReason::ToolCalls => "tool_use",
    }
}

/// Tokens that were found in the cache are counted apart from those that were read.
pub(super) fn usage(finished: &Finished) -> Value {
    json!({
        "input_tokens": finished.n_prompt.saturating_sub(finished.n_cached()),
        "cache_creation_input_tokens": 0,
        "cache_read_input_tokens": finished.n_cached(),
        "output_tokens": finished.n_completion(),
    })
}
