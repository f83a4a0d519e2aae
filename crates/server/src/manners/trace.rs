//! An id for every request, and a line in the log.

use std::sync::Arc;
use std::time::Instant;

use axum::extract::{Request, State};
use axum::http::HeaderValue;
use axum::middleware::Next;
use axum::response::Response;

use crate::state::App;

/// The header, in and out.
pub(super) const REQUEST_ID: &str = "x-request-id";

/// Longest id that is taken from a client.
const MAX_ID: usize = 128;

/// Gives the request an id, or keeps the client's; notes how it was answered.
pub(super) async fn trace(State(app): State<Arc<App>>, request: Request, next: Next) -> Response {
    let start = Instant::now();
    let id = given(&request).unwrap_or_else(|| app.new_id("req_"));
    let (method, path) = (request.method().clone(), request.uri().path().to_owned());
    let mut response = next.run(request).await;
    let (status, ms) = (response.status().as_u16(), start.elapsed().as_secs_f64() * 1e3);
    app.metrics().note_response(status);
    tracing::info!(%method, path, status, ms, id, "request");
    if let Ok(value) = HeaderValue::from_str(&id) {
        response.headers_mut().insert(REQUEST_ID, value);
    }
    response
}

/// The client's own id, if it may stand in a log.
fn given(request: &Request) -> Option<String> {
    let id = request.headers().get(REQUEST_ID)?.to_str().ok()?;
    let is_good = (1..=MAX_ID).contains(&id.len()) && id.chars().all(|c| c.is_ascii_graphic());
    is_good.then(|| id.to_owned())
}
