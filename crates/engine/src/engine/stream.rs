//! The events of one request, for code that blocks and for code that awaits.

use std::pin::Pin;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::task::{Context as TaskContext, Poll};

use async_channel::{Receiver, Sender};
use futures_core::Stream;

use crate::answer::{Event, Generated};
use crate::error::EngineError;

type Item = Result<Event, EngineError>;

/// The events of a request, the last of them [`Event::Done`] or an error. Dropping it cancels the request: its memory is
/// free before the next step.
///
/// It is a [`Stream`] for async code of any runtime, and has blocking calls for all other code.
pub struct EventStream {
    receiver: Pin<Box<Receiver<Item>>>,
    is_cancelled: Arc<AtomicBool>,
    is_over: bool,
}

/// The engine's end.
pub(super) struct Events {
    sender: Sender<Item>,
    is_cancelled: Arc<AtomicBool>,
}

/// Both ends.
pub(super) fn channel() -> (Events, EventStream) {
    // Not bounded: the engine's thread must not wait for one who reads slowly. What piles up is at most the answer, which
    // the context bounds, or `n_predict`; with neither, only whoever reads or cancels does.
    let (sender, receiver) = async_channel::unbounded();
    let is_cancelled = Arc::new(AtomicBool::new(false));
    let events = Events { sender, is_cancelled: is_cancelled.clone() };
    (events, EventStream { receiver: Box::pin(receiver), is_cancelled, is_over: false })
}

impl Events {
    /// Sends an item; `false` if nobody is there to take it.
    pub(super) fn send(&self, item: Item) -> bool {
        self.sender.try_send(item).is_ok()
    }

    /// Whether the answer is not wanted any more.
    pub(super) fn is_cancelled(&self) -> bool {
        self.sender.is_closed() || self.is_cancelled.load(Ordering::Relaxed)
    }
}

impl EventStream {
    /// Ends the request before the next step; the stream goes on to its end, with what was generated so far.
    pub fn cancel(&self) {
        self.is_cancelled.store(true, Ordering::Relaxed);
    }

    /// Waits for the next event; `None` after the last.
    pub fn next_blocking(&mut self) -> Option<Result<Event, EngineError>> {
        if self.is_over {
            return None;
        }
        let item = self.receiver.recv_blocking().ok();
        Some(self.note(item))
    }

    /// The next event; `None` after the last.
    pub async fn next_event(&mut self) -> Option<Result<Event, EngineError>> {
        if self.is_over {
            return None;
        }
        let item = self.receiver.recv().await.ok();
        Some(self.note(item))
    }

    /// The events as an iterator that blocks.
    pub fn blocking(&mut self) -> impl Iterator<Item = Result<Event, EngineError>> {
        std::iter::from_fn(|| self.next_blocking())
    }

    /// Waits for the whole answer.
    pub fn wait(mut self) -> Result<Generated, EngineError> {
        while let Some(item) = self.next_blocking() {
            if let Event::Done(answer) = item? {
                return Ok(*answer);
            }
        }
        Err(EngineError::EngineStopped)
    }

    /// The whole answer.
    pub async fn answer(mut self) -> Result<Generated, EngineError> {
        while let Some(item) = self.next_event().await {
            if let Event::Done(answer) = item? {
                return Ok(*answer);
            }
        }
        Err(EngineError::EngineStopped)
    }

    fn note(&mut self, item: Option<Item>) -> Item {
        // An engine that is gone without a word has failed.
        let item = item.unwrap_or(Err(EngineError::EngineStopped));
        self.is_over = matches!(item, Ok(Event::Done(_)) | Err(_));
        item
    }
}

impl Stream for EventStream {
    type Item = Result<Event, EngineError>;

    fn poll_next(mut self: Pin<&mut Self>, cx: &mut TaskContext<'_>) -> Poll<Option<Self::Item>> {
        if self.is_over {
            return Poll::Ready(None);
        }
        self.receiver.as_mut().poll_next(cx).map(|item| Some(self.note(item)))
    }
}
