//! Answers as the body of a response, written while they are made.

use std::convert::Infallible;
use std::pin::Pin;
use std::task::{Context, Poll};
use std::time::Duration;

use axum::body::Body;
use axum::http::{HeaderValue, header};
use axum::response::Response;
use bytes::Bytes;
use futures_core::Stream;
use tokio::time::{Instant, Interval, MissedTickBehavior};

use super::{AnswerEvent, Answers};
use crate::error::ApiError;
use crate::frames::{Frames, Framing};

/// How often a silent stream says that it is alive.
const KEEP_ALIVE: Duration = Duration::from_secs(15);

/// Most bytes that are put together before they are handed on.
const MAX_CHUNK: usize = 64 << 10;

/// How a dialect writes a stream.
pub(crate) trait Render: Send + Unpin + 'static {
    /// What comes before anything else.
    fn begin(&mut self, answers: &Answers, out: &mut Frames);

    /// What is written of an event of a choice.
    fn event(&mut self, index: usize, event: AnswerEvent, out: &mut Frames);

    /// What is written when it ends with an error.
    fn error(&mut self, error: &ApiError, out: &mut Frames);

    /// What comes last when all went well.
    fn end(&mut self, out: &mut Frames);
}

/// The response of answers that have begun.
pub(crate) fn respond<R: Render>(answers: Answers, render: R, framing: Framing) -> Response {
    let mut alive = tokio::time::interval_at(Instant::now() + KEEP_ALIVE, KEEP_ALIVE);
    alive.set_missed_tick_behavior(MissedTickBehavior::Delay);
    let cancelled = Box::pin(answers.app().cancelled());
    let body = Streaming { answers, render, framing, alive, cancelled, state: State::New };
    let mut response = Response::new(Body::from_stream(body));
    let headers = response.headers_mut();
    headers.insert(header::CONTENT_TYPE, HeaderValue::from_static(framing.content_type()));
    headers.insert(header::CACHE_CONTROL, HeaderValue::from_static("no-cache"));
    // Proxies that know it do not hold events back.
    headers.insert("x-accel-buffering", HeaderValue::from_static("no"));
    response
}

#[derive(Clone, Copy, PartialEq, Eq)]
enum State {
    New,
    Running,
    Over,
}

struct Streaming<R> {
    answers: Answers,
    render: R,
    framing: Framing,
    alive: Interval,
    /// Ends when the server cannot wait for answers any longer.
    cancelled: Pin<Box<dyn Future<Output = ()> + Send>>,
    state: State,
}

impl<R: Render> Stream for Streaming<R> {
    type Item = Result<Bytes, Infallible>;

    fn poll_next(mut self: Pin<&mut Self>, cx: &mut Context<'_>) -> Poll<Option<Self::Item>> {
        let mut out = Frames::new(self.framing);
        self.write(cx, &mut out);
        if !out.is_empty() {
            self.alive.reset();
            return Poll::Ready(Some(Ok(out.into_bytes())));
        }
        if self.state == State::Over {
            return Poll::Ready(None);
        }
        match self.alive.poll_tick(cx) {
            Poll::Ready(_) if self.framing == Framing::Events => {
                // The next tick is not known to wake anybody before it is polled.
                let _ = self.alive.poll_tick(cx);
                Poll::Ready(Some(Ok(Bytes::from_static(b": alive\n\n"))))
            }
            Poll::Ready(_) => {
                let _ = self.alive.poll_tick(cx);
                Poll::Pending
            }
            Poll::Pending => Poll::Pending,
        }
    }
}

impl<R: Render> Streaming<R> {
    /// Writes all that is ready.
    fn write(&mut self, cx: &mut Context<'_>, out: &mut Frames) {
        if self.state == State::New {
            self.state = State::Running;
            self.render.begin(&self.answers, out);
        }
        if self.state == State::Running && self.cancelled.as_mut().poll(cx).is_ready() {
            self.render.error(&self.answers.cut_off(), out);
            self.state = State::Over;
        }
        while self.state == State::Running && out.len() < MAX_CHUNK {
            match self.answers.poll(cx) {
                Poll::Pending => return,
                Poll::Ready(Some((index, Ok(event)))) => self.render.event(index, event, out),
                Poll::Ready(Some((_, Err(error)))) => {
                    self.render.error(&error, out);
                    self.state = State::Over;
                }
                Poll::Ready(None) => {
                    self.render.end(out);
                    self.state = State::Over;
                }
            }
        }
    }
}
