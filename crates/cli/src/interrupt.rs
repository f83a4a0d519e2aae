//! Ctrl-C: the first one asks what is running to stop, a second one before it has done so ends the process.

use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};

use crate::error::CliError;
use crate::fault::Fault;

/// Whether the user has asked to stop.
#[derive(Clone)]
pub(crate) struct Interrupt(Arc<AtomicBool>);

impl Interrupt {
    /// Takes over Ctrl-C for the rest of the process; can be done once.
    pub(crate) fn install() -> Result<Self, CliError> {
        let asked = Arc::new(AtomicBool::new(false));
        let flag = asked.clone();
        let handler = move || {
            if flag.swap(true, Ordering::Relaxed) {
                std::process::exit(Fault::Interrupted.exit_code().into());
            }
        };
        let failed =
            |error: ctrlc::Error| CliError::Setup { action: "listen to Ctrl-C", reason: error.to_string() };
        ctrlc::set_handler(handler).map_err(failed)?;
        Ok(Self(asked))
    }

    /// Whether the user has asked to stop since the last [`reset`](Self::reset).
    pub(crate) fn is_set(&self) -> bool {
        self.0.load(Ordering::Relaxed)
    }

    /// Forgets the request, so that the next thing can be run.
    pub(crate) fn reset(&self) {
        self.0.store(false, Ordering::Relaxed);
    }
}
