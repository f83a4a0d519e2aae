//! Errors, written in the dialect of their path.

use axum::extract::Request;
use axum::http::{HeaderValue, header};
use axum::middleware::Next;
use axum::response::Response;

use crate::dialect::Dialect;
use crate::error::ApiError;

/// Writes out the error that a response carries.
pub(crate) async fn shape_errors(request: Request, next: Next) -> Response {
    let dialect = Dialect::of_path(request.uri().path());
    let response = next.run(request).await;
    let Some(error) = error_of(&response) else { return response };
    let mut shaped = error.response(dialect);
    // What other layers have said of it holds all the same.
    for (name, value) in response.headers() {
        if !shaped.headers().contains_key(name) && name != header::CONTENT_LENGTH {
            shaped.headers_mut().insert(name, value.clone());
        }
    }
    shaped
}

/// The error of a response. What was refused before an endpoint of ours could say why (an address that is no UTF-8) has
/// words of others, which are not passed on.
fn error_of(response: &Response) -> Option<ApiError> {
    if let Some(error) = response.extensions().get::<ApiError>() {
        return Some(error.clone());
    }
    let is_text = |kind: &HeaderValue| kind.as_bytes().starts_with(b"text/plain");
    let is_foreign = response.headers().get(header::CONTENT_TYPE).is_some_and(is_text);
    let is_error = response.status().is_client_error() || response.status().is_server_error();
    (is_error && is_foreign)
        .then(|| ApiError::new(response.status(), "invalid_request", "the request could not be understood"))
}
