//! The lines of the output, in OpenAI's shape.

use minfer_server::{ApiError, openai};
use serde_json::{Value, json};

use super::input::Line;

/// The line of a request that was answered.
pub(super) fn success(line: &Line<'_>, body: &Value) -> Value {
    reported(line, 200, body)
}

/// The line of a request that was refused.
pub(super) fn failure(line: &Line<'_>, error: &ApiError) -> Value {
    reported(line, error.status.as_u16(), &openai::error_body(error))
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
