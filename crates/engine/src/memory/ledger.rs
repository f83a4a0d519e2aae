//! What contexts of this process were promised. Memory that was planned and not yet touched is in no figure of the system,
//! so a second context must not count on it.

use std::sync::{Mutex, PoisonError};

use super::available;

struct Ledger {
    /// What the process took before the first of the contexts that are there now.
    base: usize,
    /// Promised to those contexts.
    promised: usize,
}

static LEDGER: Mutex<Ledger> = Mutex::new(Ledger { base: 0, promised: 0 });

/// Memory promised to a context, until it is dropped.
#[derive(Debug)]
pub(crate) struct Reservation(usize);

impl Reservation {
    /// Promises `bytes`.
    pub(crate) fn new(bytes: usize) -> Self {
        let mut ledger = LEDGER.lock().unwrap_or_else(PoisonError::into_inner);
        if ledger.promised == 0 {
            ledger.base = available::resident().unwrap_or(0);
        }
        ledger.promised = ledger.promised.saturating_add(bytes);
        Reservation(bytes)
    }
}

impl Drop for Reservation {
    fn drop(&mut self) {
        let mut ledger = LEDGER.lock().unwrap_or_else(PoisonError::into_inner);
        ledger.promised = ledger.promised.saturating_sub(self.0);
    }
}

/// What the process takes, or will when every promise is kept.
pub(super) fn in_use() -> usize {
    let resident = available::resident().unwrap_or(0);
    let ledger = LEDGER.lock().unwrap_or_else(PoisonError::into_inner);
    match ledger.promised {
        0 => resident,
        promised => resident.max(ledger.base.saturating_add(promised)),
    }
}

/// What was promised and is not in use yet.
pub(super) fn outstanding() -> usize {
    in_use().saturating_sub(available::resident().unwrap_or(0))
}
