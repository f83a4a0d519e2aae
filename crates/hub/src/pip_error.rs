//! What went wrong with pip, read from what it wrote.

use thiserror::Error;

use crate::Fault;

/// Why a pip command gave no wheel.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
#[non_exhaustive]
pub enum PipFailure {
    /// The package index could not be reached, or the connection broke.
    Network,
    /// The index has no such package, no such version, or no wheel of it for this machine.
    NotFound,
    /// pip had no space to write to.
    DiskFull,
    /// Anything else.
    Other,
}

/// pip is missing or failed.
#[derive(Debug, Clone, PartialEq, Eq, Error)]
#[non_exhaustive]
pub enum PipError {
    /// No pip command runs on this machine.
    #[error("no pip found to fetch with (tried {}): install Python with pip, or put the file into the model folder", tried.join(", "))]
    Missing {
        /// The commands that were tried.
        tried: Vec<String>,
    },
    /// pip ran and failed.
    #[error("{}: `{command}` failed: {telling_line}", failure.advice())]
    Failed {
        /// The command, which can be run again anywhere: it writes to the current folder.
        command: String,
        /// The line of its standard error that tells most, or how it ended.
        telling_line: String,
        /// What that means.
        failure: PipFailure,
    },
}

impl PipFailure {
    /// Reads pip's standard error.
    pub(crate) fn read(stderr: &str) -> Self {
        // The order matters: after a broken connection pip goes on to say that there is no such distribution.
        let known = [Self::DiskFull, Self::Network, Self::NotFound];
        known.into_iter().find(|failure| failure.is_told_by(stderr)).unwrap_or(Self::Other)
    }

    /// The last line that tells this failure, else the last line that is not empty.
    pub(crate) fn telling_line(self, stderr: &str) -> Option<&str> {
        let lines = || stderr.lines().rev().map(str::trim).filter(|line| !line.is_empty());
        lines().find(|line| self.is_told_by(line)).or_else(|| lines().next())
    }

    fn is_told_by(self, text: &str) -> bool {
        self.marks().iter().any(|mark| text.contains(mark))
    }

    fn marks(self) -> &'static [&'static str] {
        match self {
            Self::DiskFull => &["No space left on device", "[Errno 28]", "Disk quota exceeded"],
            Self::Network => &[
                "connection broken by",
                "Max retries exceeded",
                "timed out",
                "TimeoutError",
                "ConnectionError",
                "ProxyError",
                "IncompleteRead",
                "Could not fetch URL",
            ],
            Self::NotFound => &["No matching distribution found"],
            Self::Other => &[],
        }
    }

    fn advice(self) -> &'static str {
        match self {
            Self::Network => "cannot reach the package index (check the network and try again)",
            Self::NotFound => "no such package or version (check the name)",
            Self::DiskFull => "no space left on the disk (free some, or set MINFER_MODELS to another one)",
            Self::Other => "pip could not fetch the package",
        }
    }

    fn fault(self) -> Fault {
        match self {
            Self::Network => Fault::Network,
            Self::NotFound => Fault::Name,
            Self::DiskFull | Self::Other => Fault::Machine,
        }
    }
}

impl PipError {
    pub(crate) fn fault(&self) -> Fault {
        match self {
            Self::Missing { .. } => Fault::Machine,
            Self::Failed { failure, .. } => failure.fault(),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    // Shortened from what pip 23.2 writes.
    const NOT_FOUND: &str = "ERROR: Could not find a version that satisfies the requirement p==9 (from versions: 0.1)\n\
         ERROR: No matching distribution found for p==9\n";
    const BROKEN: &str = "WARNING: Retrying (Retry(total=0, connect=None)) after connection broken by \
         'NewConnectionError('[Errno 111] Connection refused')': /simple/p/\n";

    #[test]
    fn the_cause_is_read_from_what_pip_wrote() {
        assert_eq!(PipFailure::read(NOT_FOUND), PipFailure::NotFound);
        assert_eq!(PipFailure::read(&format!("{BROKEN}{NOT_FOUND}")), PipFailure::Network);
        let full = "ERROR: Could not install packages due to an OSError: [Errno 28] No space left on device";
        assert_eq!(PipFailure::read(full), PipFailure::DiskFull);
        assert_eq!(PipFailure::read("Segmentation fault"), PipFailure::Other);
        assert_eq!(PipFailure::read(""), PipFailure::Other);
    }

    #[test]
    fn the_line_that_tells_most_need_not_be_the_last() {
        let stderr = format!("{BROKEN}{NOT_FOUND}\n");
        assert_eq!(PipFailure::Network.telling_line(&stderr), Some(BROKEN.trim()));
        assert_eq!(PipFailure::NotFound.telling_line(&stderr), NOT_FOUND.lines().last());
        assert_eq!(PipFailure::Other.telling_line(" a\n b \n\n"), Some("b"));
        assert_eq!(PipFailure::Other.telling_line("\n"), None);
    }
}
