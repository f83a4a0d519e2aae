//! Bodies: JSON in, within the limit, and JSON out.

use axum::extract::{FromRequest, Request};
use axum::http::{HeaderValue, StatusCode, header};
use axum::response::{IntoResponse, Response};
use bytes::Bytes;
use http_body_util::{BodyExt, LengthLimitError, Limited};
use serde_json::Value;

use crate::error::ApiError;
use crate::state::SharedApp;

/// Longer bodies are read where it keeps nobody waiting.
const MAX_INLINE: usize = 256 << 10;

/// How many times the limit is read of a body that is too long, so that its sender comes to read the answer.
const DISCARDED: usize = 4;

/// The body of a request that may be long.
pub(crate) struct RawBody(Bytes);

/// The JSON body of a request, whatever type it says it has.
pub(crate) struct JsonBody(pub(crate) Value);

impl FromRequest<SharedApp> for RawBody {
    type Rejection = ApiError;

    async fn from_request(request: Request, app: &SharedApp) -> Result<Self, ApiError> {
        check_encoding(&request)?;
        let (limit, timeout) = (app.config().max_body, app.config().timeout);
        let read = tokio::time::timeout(timeout, read(request, limit)).await;
        read.unwrap_or_else(|_| Err(too_slow())).map(Self)
    }
}

impl RawBody {
    /// Parses the body and has `read` make of it what is asked for. Of a long one, both are done where they keep nobody
    /// waiting: millions of values take a while to be looked at, and to be dropped.
    pub(crate) async fn read<T: Send + 'static>(
        self,
        read: impl FnOnce(Value) -> Result<T, ApiError> + Send + 'static,
    ) -> Result<T, ApiError> {
        let Self(bytes) = self;
        let n_bytes = bytes.len();
        let work = move || parse(&bytes).and_then(read);
        if n_bytes <= MAX_INLINE {
            return work();
        }
        tokio::task::spawn_blocking(work).await.map_err(|_| ApiError::internal())?
    }
}

impl FromRequest<SharedApp> for JsonBody {
    type Rejection = ApiError;

    async fn from_request(request: Request, app: &SharedApp) -> Result<Self, ApiError> {
        RawBody::from_request(request, app).await?.read(Ok).await.map(Self)
    }
}

/// A compressed body is no JSON; that it was compressed is what its sender should be told.
fn check_encoding(request: &Request) -> Result<(), ApiError> {
    let encoding = request.headers().get(header::CONTENT_ENCODING);
    if encoding.is_none_or(|encoding| encoding.as_bytes().eq_ignore_ascii_case(b"identity")) {
        return Ok(());
    }
    let message = "the body must be plain, without a Content-Encoding";
    Err(ApiError::new(StatusCode::UNSUPPORTED_MEDIA_TYPE, "unsupported_encoding", message))
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

fn parse(bytes: &[u8]) -> Result<Value, ApiError> {
    let parsed = serde_json::from_slice(bytes);
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
