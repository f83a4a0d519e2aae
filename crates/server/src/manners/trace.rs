//! An id for every request, and a line in the log when its answer has been sent, or nobody waits for it any more.

use std::pin::Pin;
use std::sync::Arc;
use std::task::{Context, Poll};

use axum::body::Body;
use axum::extract::{Request, State};
use axum::http::{HeaderValue, Method};
use axum::middleware::Next;
use axum::response::Response;
use bytes::Bytes;
use hyper::body::{Body as HttpBody, Frame, SizeHint};

use crate::front::Front;
use crate::notes::Notes;

/// The header, in and out.
pub(super) const REQUEST_ID: &str = "x-request-id";

/// Longest id that is taken from a client.
const MAX_ID: usize = 128;

/// Gives the request an id, or keeps the client's; notes how it was answered.
pub(super) async fn trace(State(front): State<Arc<Front>>, request: Request, next: Next) -> Response {
    let id = given(&request).unwrap_or_else(|| front.new_id("req_"));
    let (method, path) = (request.method().clone(), request.uri().path().to_owned());
    let header = HeaderValue::from_str(&id);
    let mut line = Line { method, path, id, status: None, is_sent: false, notes: Notes::new() };
    let mut response = line.notes.clone().follow(next.run(request)).await;
    let status = response.status().as_u16();
    front.responses().note(status);
    line.status = Some(status);
    if let Ok(value) = header {
        response.headers_mut().insert(REQUEST_ID, value);
    }
    // Nobody asks a body that is over from the start for more (preflights, HEAD, 204, 304).
    line.is_sent = response.body().is_end_stream();
    response.map(|body| Body::new(Traced { body, line }))
}

/// The client's own id, if it may stand in a log.
fn given(request: &Request) -> Option<String> {
    let id = request.headers().get(REQUEST_ID)?.to_str().ok()?;
    let is_good = (1..=MAX_ID).contains(&id.len()) && id.chars().all(|c| c.is_ascii_graphic());
    is_good.then(|| id.to_owned())
}

/// The line of a request, written when it is dropped.
struct Line {
    method: Method,
    path: String,
    id: String,
    /// None if the client left before there was one.
    status: Option<u16>,
    /// Whether the body was taken to its end.
    is_sent: bool,
    notes: Arc<Notes>,
}

impl Drop for Line {
    fn drop(&mut self) {
        let Self { method, path, id, status, is_sent, notes } = self;
        let (ms, tally) = (millis(notes.elapsed()), notes.tally());
        let finish = tally.finish.or((!*is_sent).then_some("client_left"));
        tracing::info!(
            %method,
            path,
            status = *status,
            ms,
            prompt_tokens = tally.n_prompt,
            cached_tokens = tally.n_cached,
            completion_tokens = tally.n_completion,
            first_token_ms = tally.first_token.map(millis),
            finish,
            id,
            "request"
        );
    }
}

/// Milliseconds with two digits behind the point: what is below is noise.
fn millis(time: std::time::Duration) -> f64 {
    (time.as_secs_f64() * 1e5).round() / 1e2
}

/// A body that brings its line to the log when it goes.
struct Traced {
    body: Body,
    line: Line,
}

impl HttpBody for Traced {
    type Data = Bytes;
    type Error = axum::Error;

    fn poll_frame(
        mut self: Pin<&mut Self>,
        cx: &mut Context<'_>,
    ) -> Poll<Option<Result<Frame<Bytes>, axum::Error>>> {
        let frame = Pin::new(&mut self.body).poll_frame(cx);
        if matches!(frame, Poll::Ready(None)) || self.body.is_end_stream() {
            self.line.is_sent = true;
        }
        frame
    }

    fn is_end_stream(&self) -> bool {
        self.body.is_end_stream()
    }

    fn size_hint(&self) -> SizeHint {
        self.body.size_hint()
    }
}

#[cfg(test)]
mod tests {
    use std::time::Duration;

    use super::*;

    #[test]
    fn times_have_two_digits_behind_the_point() {
        for (nanos, want) in
            [(0, "0"), (1_234_567, "1.23"), (1_235_001, "1.24"), (98_765_432_109, "98765.43")]
        {
            assert_eq!(millis(Duration::from_nanos(nanos)).to_string(), want);
        }
    }
}
