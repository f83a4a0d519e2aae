//! What a client is told when something goes wrong: one type, which each dialect spells in its own way.

use std::borrow::Cow;
use std::time::Duration;

use axum::http::{HeaderValue, StatusCode, header};
use axum::response::{IntoResponse, Response};
use minfer_engine::sampler::ParamError;
use minfer_engine::{EngineError, Fault};

use crate::dialect::Dialect;

/// How long a client should wait that finds the queue full, or the model not yet there.
const RETRY_AFTER: Duration = Duration::from_secs(1);

/// An error as it is told to a client.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
#[error("{message}")]
pub struct ApiError {
    /// The HTTP status.
    pub status: StatusCode,
    /// What a program can tell errors apart by.
    pub code: &'static str,
    /// The field of the request that is to blame, as in `messages[0].role`.
    pub param: Option<Cow<'static, str>>,
    /// What a person should read.
    pub message: String,
    /// When it may work.
    pub retry_after: Option<Duration>,
}

impl ApiError {
    /// An error with a status of its own.
    pub fn new(status: StatusCode, code: &'static str, message: impl Into<String>) -> Self {
        Self { status, code, param: None, message: message.into(), retry_after: None }
    }

    /// A request that makes no sense.
    pub fn bad(code: &'static str, message: impl Into<String>) -> Self {
        Self::new(StatusCode::BAD_REQUEST, code, message)
    }

    /// A field that is not what it must be: `what` completes "FIELD must be …".
    pub fn field(param: impl Into<Cow<'static, str>>, what: impl std::fmt::Display) -> Self {
        let param = param.into();
        Self::bad("invalid_value", format!("{param} must be {what}")).at(param)
    }

    /// A field that asks for something that cannot be had.
    pub fn unsupported(param: impl Into<Cow<'static, str>>, why: impl std::fmt::Display) -> Self {
        let param = param.into();
        Self::bad("unsupported_parameter", format!("{param}: {why}")).at(param)
    }

    /// The same, with the field that is to blame.
    #[must_use]
    pub fn at(mut self, param: impl Into<Cow<'static, str>>) -> Self {
        self.param = Some(param.into());
        self
    }

    /// Too much is going on; it may work later.
    pub fn busy(message: impl Into<String>) -> Self {
        let busy = Self::new(StatusCode::SERVICE_UNAVAILABLE, "overloaded", message);
        Self { retry_after: Some(RETRY_AFTER), ..busy }
    }

    /// The model is not there yet; the words are llama.cpp's, which clients know.
    pub fn loading() -> Self {
        let loading = Self::new(StatusCode::SERVICE_UNAVAILABLE, "model_loading", "Loading model");
        Self { retry_after: Some(RETRY_AFTER), ..loading }
    }

    /// The server is about to end.
    pub fn stopping() -> Self {
        Self::busy("the server is stopping")
    }

    /// A defect of this program, or one of the machine; what it is stands in the log.
    pub fn internal() -> Self {
        Self::new(StatusCode::INTERNAL_SERVER_ERROR, "internal_error", "the server failed; its log says how")
    }
}

impl From<&EngineError> for ApiError {
    fn from(error: &EngineError) -> Self {
        let message = error.to_string();
        match (error, error.fault()) {
            (EngineError::SamplerSetting(setting), _) => {
                Self::bad("invalid_value", message).at(field_of(setting))
            }
            (EngineError::Stop(_), _) => Self::bad("invalid_value", message).at("stop"),
            (EngineError::Token { .. } | EngineError::EmptyPrompt, _) => {
                Self::bad("invalid_value", message).at("prompt")
            }
            (EngineError::ContextFull { .. }, _) => Self::bad("context_length_exceeded", message),
            (EngineError::Template(_), Fault::BadRequest) => {
                Self::bad("invalid_messages", message).at("messages")
            }
            (EngineError::QueueFull { .. }, _) => Self {
                retry_after: Some(RETRY_AFTER),
                ..Self::new(StatusCode::TOO_MANY_REQUESTS, "queue_full", message)
            },
            (EngineError::EngineStopped, _) => Self::stopping(),
            (_, Fault::Busy) => Self::busy(message),
            (_, Fault::BadRequest) => Self::bad("invalid_value", message),
            (_, Fault::Unsupported) => Self::bad("unsupported", message),
            (_, Fault::OutOfMemory) => Self::busy(message),
            (_, Fault::BadModel | Fault::Device | Fault::Bug) => {
                tracing::error!(%error, "a request failed");
                Self::internal()
            }
        }
    }
}

fn field_of(error: &ParamError) -> &'static str {
    match error {
        ParamError::Range { field, .. } => field,
        ParamError::BiasToken { .. } | ParamError::BiasValue { .. } => "logit_bias",
    }
}

impl From<EngineError> for ApiError {
    fn from(error: EngineError) -> Self {
        Self::from(&error)
    }
}

/// Handlers do not know in which dialect they are spoken to: the error travels beside an empty response, and
/// `crate::manners::shape_errors` writes it out by the path.
impl IntoResponse for ApiError {
    fn into_response(self) -> Response {
        let mut response = self.status.into_response();
        response.extensions_mut().insert(self);
        response
    }
}

impl ApiError {
    /// The response of a dialect.
    pub(crate) fn response(&self, dialect: Dialect) -> Response {
        let body = dialect.error(self).to_string();
        let json = (header::CONTENT_TYPE, HeaderValue::from_static("application/json"));
        let mut response = (self.status, [json], body).into_response();
        if let Some(wait) = self.retry_after {
            let seconds = HeaderValue::from(wait.as_secs().max(1));
            response.headers_mut().insert(header::RETRY_AFTER, seconds);
        }
        response
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_fault_decides_the_status() {
        let status = |error: EngineError| ApiError::from(error).status.as_u16();
        assert_eq!(status(EngineError::ContextFull { n_tokens: 9, n_past: 0, n_ctx: 8 }), 400);
        assert_eq!(status(EngineError::QueueFull { n_waiting: 3 }), 429);
        assert_eq!(status(EngineError::WaitedTooLong { waited: Duration::ZERO }), 503);
        assert_eq!(status(EngineError::EngineStopped), 503);
        assert_eq!(status(EngineError::Thread { reason: "secret".into() }), 500);
        assert!(!ApiError::from(EngineError::Thread { reason: "secret".into() }).message.contains("secret"));
    }

    #[test]
    fn a_full_queue_says_when_to_come_back() {
        let response = ApiError::from(EngineError::QueueFull { n_waiting: 3 }).response(Dialect::OpenAi);
        assert_eq!(response.headers()[header::RETRY_AFTER], "1");
    }
}
