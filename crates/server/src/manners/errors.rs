//! Errors, written in the dialect of their path.

use axum::extract::Request;
use axum::middleware::Next;
use axum::response::Response;

use crate::dialect::Dialect;
use crate::error::ApiError;

/// Writes out the error that a response carries.
pub(crate) async fn shape_errors(request: Request, next: Next) -> Response {
    let dialect = Dialect::of_path(request.uri().path());
    let response = next.run(request).await;
    let Some(error) = response.extensions().get::<ApiError>() else { return response };
    let mut shaped = error.response(dialect);
    // What other layers have said of it holds all the same.
    for (name, value) in response.headers() {
        if !shaped.headers().contains_key(name) && name != axum::http::header::CONTENT_LENGTH {
            shaped.headers_mut().insert(name, value.clone());
        }
    }
    shaped
}
