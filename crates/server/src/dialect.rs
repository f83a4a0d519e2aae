//! Which API a path belongs to, and what its errors look like.

use serde_json::{Value, json};

use crate::error::ApiError;
use crate::openai;

/// An API that clients speak.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Dialect {
    /// OpenAI's; also that of paths which belong to nobody.
    OpenAi,
    /// Anthropic's.
    Anthropic,
    /// Ollama's.
    Ollama,
    /// llama.cpp's own.
    LlamaCpp,
}

/// Paths of llama.cpp's server that are no prefix of another dialect's.
const LLAMA_CPP: [&str; 10] = [
    "/completion",
    "/completions",
    "/tokenize",
    "/detokenize",
    "/apply-template",
    "/infill",
    "/props",
    "/slots",
    "/health",
    "/v1/health",
];

impl Dialect {
    /// The dialect of a path.
    pub fn of_path(path: &str) -> Self {
        if path == "/v1/messages" || path.starts_with("/v1/messages/") {
            Dialect::Anthropic
        } else if path.starts_with("/api/") {
            Dialect::Ollama
        } else if LLAMA_CPP.contains(&path) {
            Dialect::LlamaCpp
        } else {
            Dialect::OpenAi
        }
    }

    /// The body of an error.
    pub fn error(self, error: &ApiError) -> Value {
        match self {
            Dialect::OpenAi => openai::error_body(error),
            Dialect::Anthropic => json!({
                "type": "error",
                "error": { "type": anthropic_type(error), "message": error.message },
            }),
            Dialect::Ollama => json!({ "error": error.message }),
            Dialect::LlamaCpp => llama_cpp_error(error),
        }
    }
}

/// Clients look for the types that say whether the server is there at all, and whether it can do what was asked.
fn llama_cpp_error(error: &ApiError) -> Value {
    let kind = match error.status.as_u16() {
        501 => "not_supported_error",
        503 => "unavailable_error",
        _ => openai::error_type(error),
    };
    let mut body = json!({ "code": error.status.as_u16(), "message": error.message, "type": kind });
    if let Some(param) = &error.param {
        body["param"] = param.as_ref().into();
    }
    json!({ "error": body })
}

fn anthropic_type(error: &ApiError) -> &'static str {
    match error.status.as_u16() {
        401 => "authentication_error",
        403 => "permission_error",
        404 => "not_found_error",
        413 => "request_too_large",
        429 => "rate_limit_error",
        503 => "overloaded_error",
        400..500 => "invalid_request_error",
        _ => "api_error",
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_path_decides() {
        for (path, dialect) in [
            ("/v1/chat/completions", Dialect::OpenAi),
            ("/v1/messages", Dialect::Anthropic),
            ("/v1/messages/count_tokens", Dialect::Anthropic),
            ("/v1/messagesx", Dialect::OpenAi),
            ("/api/chat", Dialect::Ollama),
            ("/completion", Dialect::LlamaCpp),
            ("/nowhere", Dialect::OpenAi),
        ] {
            assert_eq!(Dialect::of_path(path), dialect, "{path}");
        }
    }
}
