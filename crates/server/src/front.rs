//! What a server has before its model is there: settings, ids, counts, how it stands; and the door to the endpoints.

use std::sync::OnceLock;
use std::sync::atomic::{AtomicBool, AtomicU64, Ordering};

use axum::Router;
use tokio::sync::watch;

use crate::config::ServerConfig;
use crate::metrics::Responses;
use crate::state::random;

/// Shared by all that is around the endpoints, and by [`App`](crate::App).
pub(crate) struct Front {
    config: ServerConfig,
    responses: Responses,
    /// A random number that all ids of this run begin with, and how many there were.
    ids: (u64, AtomicU64),
    is_draining: AtomicBool,
    is_cancelling: watch::Sender<bool>,
    endpoints: OnceLock<Router>,
}

impl Front {
    pub(crate) fn new(config: ServerConfig) -> Self {
        Self {
            config,
            responses: Responses::default(),
            ids: (random(), AtomicU64::new(0)),
            is_draining: AtomicBool::new(false),
            is_cancelling: watch::Sender::new(false),
            endpoints: OnceLock::new(),
        }
    }

    pub(crate) fn config(&self) -> &ServerConfig {
        &self.config
    }

    pub(crate) fn responses(&self) -> &Responses {
        &self.responses
    }

    /// An id that no other answer of any run has, as in `chatcmpl-…`.
    pub(crate) fn new_id(&self, prefix: &str) -> String {
        let n = self.ids.1.fetch_add(1, Ordering::Relaxed);
        format!("{prefix}{:016x}{n:08x}", self.ids.0)
    }

    /// Opens the door: from now on requests are answered by these endpoints.
    pub(crate) fn open(&self, endpoints: Router) {
        // Whoever opens has consumed the only value that could.
        let _ = self.endpoints.set(endpoints);
    }

    /// The endpoints, once the model is there.
    pub(crate) fn endpoints(&self) -> Option<Router> {
        self.endpoints.get().cloned()
    }

    /// Whether no new requests are taken.
    pub(crate) fn is_draining(&self) -> bool {
        self.is_draining.load(Ordering::Relaxed)
    }

    pub(crate) fn drain(&self) {
        self.is_draining.store(true, Ordering::Relaxed);
    }

    /// What runs and what waits is to end now.
    pub(crate) fn cancel(&self) {
        self.is_cancelling.send_replace(true);
    }

    /// Whether what runs is to end, for threads that ask from time to time.
    pub(crate) fn is_cancelling(&self) -> bool {
        *self.is_cancelling.borrow()
    }

    /// Waits until what runs is to end.
    pub(crate) fn cancelled(&self) -> impl Future<Output = ()> + Send + use<> {
        let mut receiver = self.is_cancelling.subscribe();
        async move {
            // The sender goes with the server, and so does who waits.
            let _ = receiver.wait_for(|is_cancelling| *is_cancelling).await;
        }
    }
}
