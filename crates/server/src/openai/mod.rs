//! OpenAI's API: one file for each endpoint, and what they share.

mod chat;
mod chat_stream;
mod completion_body;
mod completion_stream;
mod completions;
mod embeddings;
mod format;
mod logprobs;
mod messages;
mod models;
mod prompt;
mod responses;
pub(crate) mod settings;
mod tools;
pub(crate) mod usage;

use axum::http::StatusCode;
use serde_json::{Value, json};

use crate::error::ApiError;
use crate::routes::Routes;

pub use chat::{ChatCall, chat_body};
pub use completion_body::{Parts, completion_body};
pub use completions::CompletionCall;
pub use prompt::Prompt;

/// Who made an answer, for clients that compare answers.
pub(crate) const FINGERPRINT: &str = concat!("minfer-", env!("CARGO_PKG_VERSION"));

/// The endpoints.
pub(crate) fn routes(routes: Routes) -> Routes {
    routes
        .post("/v1/chat/completions", chat::create)
        .post("/v1/completions", completions::create)
        .post("/v1/responses", responses::create)
        .post("/v1/embeddings", embeddings::create)
        .get("/v1/models", models::list)
        .get("/v1/models/{*model}", models::retrieve)
}

/// The body of an error.
pub fn error_body(error: &ApiError) -> Value {
    json!({
        "error": {
            "message": error.message,
            "type": error_type(error),
            "param": error.param,
            "code": error.code,
        },
    })
}

pub(crate) fn error_type(error: &ApiError) -> &'static str {
    match error.status {
        StatusCode::UNAUTHORIZED => "authentication_error",
        StatusCode::FORBIDDEN => "permission_error",
        StatusCode::NOT_FOUND => "not_found_error",
        StatusCode::TOO_MANY_REQUESTS => "rate_limit_error",
        status if status.is_client_error() => "invalid_request_error",
        _ => "server_error",
    }
}
