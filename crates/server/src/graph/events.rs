//! Events from a thread that computes to a client, as server-sent events.

use std::convert::Infallible;
use std::pin::Pin;
use std::task::{Context, Poll};

use axum::body::Body;
use axum::http::{HeaderValue, header};
use axum::response::Response;
use bytes::Bytes;
use futures_core::Stream;
use serde_json::{Value, json};
use tokio::sync::mpsc::{Receiver, Sender, channel};

use crate::error::ApiError;
use crate::frames::{Frames, Framing};

/// Events that may wait for a client that reads slowly; then the run waits, too.
const N_WAITING: usize = 256;

/// Where a run tells what goes on.
pub(super) struct Teller(Sender<Value>);

impl Teller {
    /// Tells an event; `what` is an object.
    pub(super) fn tell(&self, kind: &str, mut what: Value) {
        what["type"] = kind.into();
        // A client that went away is seen by `is_gone`.
        let _ = self.0.blocking_send(what);
    }

    /// Tells an event if there is room for it; for those of which the next says more.
    pub(super) fn mention(&self, kind: &str, mut what: Value) {
        what["type"] = kind.into();
        let _ = self.0.try_send(what);
    }

    /// Tells what went wrong.
    pub(super) fn fail(&self, error: &ApiError) {
        self.tell("error", json!({ "message": error.message, "code": error.code }));
    }

    /// Whether nobody listens any more.
    pub(super) fn is_gone(&self) -> bool {
        self.0.is_closed()
    }
}

/// A teller, and the response in which its events are.
pub(super) fn response() -> (Teller, Response) {
    let (sender, receiver) = channel(N_WAITING);
    let mut response = Response::new(Body::from_stream(Events(receiver)));
    let headers = response.headers_mut();
    headers.insert(header::CONTENT_TYPE, HeaderValue::from_static(Framing::Events.content_type()));
    headers.insert(header::CACHE_CONTROL, HeaderValue::from_static("no-cache"));
    (Teller(sender), response)
}

struct Events(Receiver<Value>);

impl Stream for Events {
    type Item = Result<Bytes, Infallible>;

    fn poll_next(mut self: Pin<&mut Self>, cx: &mut Context<'_>) -> Poll<Option<Self::Item>> {
        self.0.poll_recv(cx).map(|event| {
            let mut frames = Frames::new(Framing::Events);
            frames.value(&event?);
            Some(Ok(frames.into_bytes()))
        })
    }
}
