//! The end of the drain: whoever has no answer by then is told so, whether he waits in the queue, for a text to be read, or
//! sends his body still. Answers that have begun end by themselves: `crate::answer::respond`.

use std::sync::Arc;

use axum::extract::{Request, State};
use axum::middleware::Next;
use axum::response::Response;

use crate::error::ApiError;
use crate::front::Front;

/// Answers in the place of an endpoint that takes too long when the server stops.
pub(super) async fn check(
    State(front): State<Arc<Front>>,
    request: Request,
    next: Next,
) -> Result<Response, ApiError> {
    tokio::select! {
        biased;
        response = next.run(request) => Ok(response),
        () = front.cancelled() => Err(ApiError::stopping()),
    }
}
