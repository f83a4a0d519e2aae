//! Who runs: one at a time, on a thread of its own, and what the last run left to be looked at.

use std::sync::Arc;
use std::time::{Duration, Instant};

use axum::http::StatusCode;
use minfer_engine::insight::LiveRun;
use tokio::sync::{Mutex, OwnedSemaphorePermit, Semaphore};

use crate::error::ApiError;

/// The longest that a run or a comparison goes on.
const MAX_TIME: Duration = Duration::from_secs(300);

/// The last run; whoever looks at it waits for the step that goes on.
pub(super) type LastRun = Arc<Mutex<Option<LiveRun>>>;

/// What runs of the graph page share.
pub(crate) struct Lab {
    turn: Arc<Semaphore>,
    run: LastRun,
}

impl Default for Lab {
    fn default() -> Self {
        Self { turn: Arc::new(Semaphore::new(1)), run: LastRun::default() }
    }
}

impl Lab {
    /// The last run.
    pub(super) fn last_run(&self) -> LastRun {
        self.run.clone()
    }

    /// Takes the turn, or says that somebody else has it.
    pub(super) fn begin(&self) -> Result<Turn, ApiError> {
        let busy = "another run or comparison of the graph page goes on; one goes at a time";
        let permit = self.turn.clone().try_acquire_owned();
        let permit = permit.map_err(|_| ApiError::new(StatusCode::CONFLICT, "run_in_progress", busy))?;
        Ok(Turn { until: Instant::now() + MAX_TIME, _permit: permit })
    }
}

/// The turn, until it is dropped.
pub(super) struct Turn {
    until: Instant,
    _permit: OwnedSemaphorePermit,
}

impl Turn {
    /// Whether it has lasted as long as it may.
    pub(super) fn is_over(&self) -> bool {
        Instant::now() >= self.until
    }
}

/// Does `work` on a thread of its own.
pub(super) fn on_thread(work: impl FnOnce() + Send + 'static) -> Result<(), ApiError> {
    let spawned = std::thread::Builder::new().name("minfer-graph".into()).spawn(work);
    spawned.map(drop).map_err(|error| {
        tracing::error!(%error, "a thread could not be started");
        ApiError::internal()
    })
}

/// Does `work`, which takes some time, where it keeps nobody waiting.
pub(super) async fn aside<T: Send + 'static>(
    work: impl FnOnce() -> Result<T, ApiError> + Send + 'static,
) -> Result<T, ApiError> {
    tokio::task::spawn_blocking(work).await.map_err(|_| ApiError::internal())?
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn one_goes_at_a_time() {
        let lab = Lab::default();
        let turn = lab.begin().unwrap();
        assert!(!turn.is_over());
        let refused = lab.begin().err().unwrap();
        assert_eq!((refused.status, refused.code), (StatusCode::CONFLICT, "run_in_progress"));
        drop(turn);
        assert!(lab.begin().is_ok());
    }
}
