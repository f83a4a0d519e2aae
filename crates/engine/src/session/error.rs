//! Why a session was not saved or restored.

use std::io;
use std::path::PathBuf;

use crate::error::Fault;

/// A session could not be saved or restored.
#[derive(Debug, thiserror::Error)]
#[non_exhaustive]
pub enum SessionError {
    /// The file could not be read or written.
    #[error("cannot {doing} the session {}: {source}", path.display())]
    Io {
        /// The file.
        path: PathBuf,
        /// `read` or `write`.
        doing: &'static str,
        /// Why not.
        source: io::Error,
    },
    /// The file is something else.
    #[error("{} is no session of minfer", path.display())]
    NotASession {
        /// The file.
        path: PathBuf,
    },
    /// The file was written by another version.
    #[error("the session {} has version {found}, this program reads version {expected}", path.display())]
    Version {
        /// The file.
        path: PathBuf,
        /// What it says.
        found: u32,
        /// What can be read.
        expected: u32,
    },
    /// The file belongs to another model, or to another state of its metadata.
    #[error("the session {} was saved with another model", path.display())]
    Model {
        /// The file.
        path: PathBuf,
    },
    /// The cache it was saved from has another form.
    #[error(
        "the session {} was saved with a cache of type {found}, this one has {expected} or lies elsewhere; run with \
         the settings that it was saved with",
        path.display()
    )]
    Cache {
        /// The file.
        path: PathBuf,
        /// The type of the saved cache.
        found: String,
        /// The type of this cache.
        expected: &'static str,
    },
    /// The sequence is longer than a sequence of this context can be.
    #[error("the session {} holds {n_tokens} tokens, the context {n_ctx}; make it larger", path.display())]
    TooLong {
        /// The file.
        path: PathBuf,
        /// What it holds.
        n_tokens: u64,
        /// What the context holds.
        n_ctx: usize,
    },
    /// The file is shorter or longer than it says.
    #[error("the session {} is cut short or torn: it has {found} bytes and should have {expected}", path.display())]
    Torn {
        /// The file.
        path: PathBuf,
        /// Its size.
        found: u64,
        /// The size that it says.
        expected: u64,
    },
    /// The file was changed since it was saved.
    #[error("the session {} is damaged: {what} is wrong", path.display())]
    Damaged {
        /// The file.
        path: PathBuf,
        /// What shows it.
        what: String,
    },
}

impl SessionError {
    /// Whose fault it is.
    pub(crate) fn fault(&self) -> Fault {
        match self {
            SessionError::Io { .. } => Fault::Device,
            SessionError::TooLong { .. } | SessionError::Cache { .. } => Fault::BadRequest,
            SessionError::Version { .. } => Fault::Unsupported,
            _ => Fault::BadModel,
        }
    }
}
