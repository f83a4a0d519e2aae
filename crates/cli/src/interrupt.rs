//! Ctrl-C: it asks what is listening to stop; with nobody listening, and the second time, it ends the process.
//!
//! Either way no half-written file stays.

use std::sync::atomic::{AtomicU8, Ordering};

use crate::error::CliError;
use crate::fault::Fault;

/// Nobody would notice a request.
const IDLE: u8 = 0;
/// An [`Interrupt`] is there to be asked.
const LISTENING: u8 = 1;
/// The user has asked to stop.
const ASKED: u8 = 2;

static STATE: AtomicU8 = AtomicU8::new(IDLE);

/// Takes over Ctrl-C for the rest of the process; can be done once.
pub(crate) fn take_over() -> Result<(), CliError> {
    let failed =
        |error: ctrlc::Error| CliError::Setup { action: "listen to Ctrl-C", reason: error.to_string() };
    ctrlc::set_handler(handle).map_err(failed)
}

/// Runs in a thread of its own, so it may do what a signal handler may not.
fn handle() {
    if STATE.compare_exchange(LISTENING, ASKED, Ordering::Relaxed, Ordering::Relaxed).is_err() {
        minfer_gguf::remove_unfinished();
        std::process::exit(Fault::Interrupted.exit_code().into());
    }
}

/// Somebody who looks now and then whether the user has asked to stop; one at a time.
pub(crate) struct Interrupt(());

impl Interrupt {
    /// Begins to listen.
    pub(crate) fn listen() -> Self {
        STATE.store(LISTENING, Ordering::Relaxed);
        Self(())
    }

    /// Whether the user has asked to stop since the last [`reset`](Self::reset).
    pub(crate) fn is_set(&self) -> bool {
        STATE.load(Ordering::Relaxed) == ASKED
    }

    /// Forgets the request, so that the next thing can be run.
    pub(crate) fn reset(&self) {
        STATE.store(LISTENING, Ordering::Relaxed);
    }
}

impl Drop for Interrupt {
    fn drop(&mut self) {
        STATE.store(IDLE, Ordering::Relaxed);
    }
}
