//! Ctrl-C: it asks what is listening to stop; with nobody listening, and the second time, it ends the process. A request to
//! terminate ends it at once, unless a server has taken it over.
//!
//! Whichever it is, no half-written file stays. A file that grows beyond what the process may write is an error of the write,
//! as a full disk is.

use std::path::{Path, PathBuf};
use std::sync::atomic::{AtomicBool, AtomicU8, Ordering};
use std::sync::{Mutex, PoisonError};

use crate::error::CliError;
use crate::fault::Fault;

/// Nobody would notice a request.
const IDLE: u8 = 0;
/// An [`Interrupt`] is there to be asked.
const LISTENING: u8 = 1;
/// The user has asked to stop.
const ASKED: u8 = 2;

static STATE: AtomicU8 = AtomicU8::new(IDLE);

/// Whether somebody else does what a request to terminate asks for.
static TERMINATES_ELSEWHERE: AtomicBool = AtomicBool::new(false);

/// Takes over Ctrl-C and other signals for the rest of the process; can be done once.
pub(crate) fn take_over() -> Result<(), CliError> {
    let failed =
        |error: ctrlc::Error| CliError::Setup { action: "listen to Ctrl-C", reason: error.to_string() };
    ctrlc::set_handler(handle).map_err(failed)?;
    #[cfg(unix)]
    unix::take_over()
        .map_err(|error| CliError::Setup { action: "listen to signals", reason: error.to_string() })?;
    Ok(())
}

/// Leaves requests to terminate to a server, which ends in its own time.
pub(crate) fn leave_termination() {
    TERMINATES_ELSEWHERE.store(true, Ordering::Relaxed);
}

#[cfg(unix)]
mod unix {
    use std::io;
    use std::sync::Arc;
    use std::sync::atomic::{AtomicBool, Ordering};

    use signal_hook::consts::{SIGTERM, SIGXFSZ};
    use signal_hook::iterator::Signals;

    use super::TERMINATES_ELSEWHERE;

    /// As a shell sees a process that the signal has ended.
    const TERMINATED: i32 = 128 + SIGTERM;

    pub(super) fn take_over() -> io::Result<()> {
        // Caught, it no longer ends the process: the write fails.
        signal_hook::flag::register(SIGXFSZ, Arc::new(AtomicBool::new(false)))?;
        let mut signals = Signals::new([SIGTERM])?;
        let listen = move || {
            for _ in &mut signals {
                if !TERMINATES_ELSEWHERE.load(Ordering::Relaxed) {
                    super::clean_up();
                    std::process::exit(TERMINATED);
                }
            }
        };
        std::thread::Builder::new().name("minfer-signals".into()).spawn(listen).map(drop)
    }
}

/// Runs in a thread of its own, so it may do what a signal handler may not.
fn handle() {
    if STATE.compare_exchange(LISTENING, ASKED, Ordering::Relaxed, Ordering::Relaxed).is_err() {
        clean_up();
        std::process::exit(Fault::Interrupted.exit_code().into());
    }
}

/// Files that are there only as long as the process.
static PASSING: Mutex<Vec<PathBuf>> = Mutex::new(Vec::new());

/// Has a file removed if the process is stopped.
pub(crate) fn remove_when_stopped(path: &Path) {
    PASSING.lock().unwrap_or_else(PoisonError::into_inner).push(path.to_owned());
}

/// Leaves a file that the process has removed itself: another may have one by its name since.
pub(crate) fn keep_when_stopped(path: &Path) {
    PASSING.lock().unwrap_or_else(PoisonError::into_inner).retain(|passing| passing != path);
}

fn clean_up() {
    minfer_gguf::remove_unfinished();
    for path in PASSING.lock().unwrap_or_else(PoisonError::into_inner).drain(..) {
        // The process ends either way.
        let _ = std::fs::remove_file(path);
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
