//! The lines of the output, in OpenAI's shape.

use minfer_server::{ApiError, openai};
use serde_json::{Value, json};

use super::fingerprint::Fingerprint;
use super::input::Line;

/// The line of a request that was answered.
pub(super) fn success(line: &Line<'_>, setup: Fingerprint, body: &Value) -> Value {
    reported(line, setup, 200, body)
}

/// The line of a request that was refused.
pub(super) fn failure(line: &Line<'_>, setup: Fingerprint, error: &ApiError) -> Value {
    reported(line, setup, error.status.as_u16(), &openai::error_body(error))
}

fn reported(line: &Line<'_>, setup: Fingerprint, status: u16, body: &Value) -> Value {
    json!({
        "id": line.answer_id(),
        "custom_id": line.custom_id,
        "response": { "status_code": status, "request_id": line.request_id(setup), "body": body },
        "error": null,
    })
}
