//! Bodies: JSON in, within the limit, and JSON out.

use axum::extract::{FromRequest, Request};
use axum::http::{HeaderValue, StatusCode, header};
use axum::response::{IntoResponse, Response};
use bytes::Bytes;
use http_body_util::{BodyExt, LengthLimitError, Limited};
use serde_json::Value;

use crate::error::ApiError;
use crate::state::SharedApp;

/// Longer bodies are parsed where it keeps nobody waiting.
const MAX_INLINE: usize = 256 << 10;

/// How many times the limit is read of a body that is too long, so that its sender comes to read the answer.
const DISCARDED: usize = 4;

/// The JSON body of a request, whatever type it says it has.
pub(crate) struct JsonBody(pub(crate) Value);

impl FromRequest<SharedApp> for JsonBody {
    type Rejection = ApiError;

    async fn from_request(request: Request, app: &SharedApp) -> Result<Self, ApiError> {
        let (limit, timeout) = (app.config().max_body, app.config().timeout);
        let read = tokio::time::timeout(timeout, read(request, limit)).await;
        let bytes = read.unwrap_or_else(|_| Err(too_slow()))?;
        parse(bytes).await.map(Self)
    }
}

fn too_slow() -> ApiError {
    ApiError::new(StatusCode::REQUEST_TIMEOUT, "timeout", "the body did not come in time")
}

async fn read(request: Request, limit: usize) -> Result<Bytes, ApiError> {
    let mut body = Limited::new(request.into_body(), limit.saturating_mul(DISCARDED));
    let mut bytes = Vec::new();
    let mut n_bytes = 0_usize;
    while let Some(frame) = body.frame().await {
        let frame = match frame {
            Ok(frame) => frame,
            Err(error) if error.is::<LengthLimitError>() => return Err(too_large(limit)),
            Err(_) => return Err(ApiError::bad("invalid_body", "the body could not be read to its end")),
        };
        let Ok(data) = frame.into_data() else { continue };
        n_bytes = n_bytes.saturating_add(data.len());
        if n_bytes <= limit {
            bytes.extend_from_slice(&data);
        } else {
            bytes = Vec::new();
        }
    }
    if n_bytes > limit { Err(too_large(limit)) } else { Ok(bytes.into()) }
}

fn too_large(limit: usize) -> ApiError {
    let message = format!("the body is larger than {limit} bytes");
    ApiError::new(StatusCode::PAYLOAD_TOO_LARGE, "body_too_large", message)
}

async fn parse(bytes: Bytes) -> Result<Value, ApiError> {
    let parsed = if bytes.len() <= MAX_INLINE {
        serde_json::from_slice(&bytes)
    } else {
        let parsed = tokio::task::spawn_blocking(move || serde_json::from_slice(&bytes)).await;
        parsed.map_err(|_| ApiError::internal())?
    };
    parsed.map_err(|error| ApiError::bad("invalid_json", format!("the body is not valid JSON: {error}")))
}

/// A JSON response.
#[derive(Debug)]
pub(crate) struct Json(pub(crate) Value);

impl IntoResponse for Json {
    fn into_response(self) -> Response {
        let json = (header::CONTENT_TYPE, HeaderValue::from_static("application/json"));
        ([json], self.0.to_string()).into_response()
    }
}
