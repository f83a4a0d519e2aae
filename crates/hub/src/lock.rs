//! One fetch of a file at a time.

use std::fs::{File, OpenOptions, TryLockError};
use std::io::{self, ErrorKind};
use std::path::Path;

/// An exclusive lock on a file in the cache folder, let go when dropped or when the process ends.
///
/// The lock file stays behind, empty: removing it would let a third process lock a new one while a second holds the
/// old one.
pub(crate) struct FetchLock {
    _file: File,
    exclusive: bool,
}

impl FetchLock {
    /// Locks `.{file}.lock` in `folder`, calling `waiting` once if another process holds it.
    pub(crate) fn take(folder: &Path, file: &str, waiting: impl FnOnce()) -> io::Result<Self> {
        let lock = OpenOptions::new().create(true).append(true).open(folder.join(format!(".{file}.lock")))?;
        let taken = match lock.try_lock() {
            Err(TryLockError::WouldBlock) => {
                waiting();
                lock.lock()
            }
            Err(TryLockError::Error(error)) => Err(error),
            Ok(()) => Ok(()),
        };
        match taken {
            // Some network file systems have no locks; the rename at the end is atomic there too.
            Err(error) if error.kind() == ErrorKind::Unsupported => {
                Ok(Self { _file: lock, exclusive: false })
            }
            taken => taken.map(|()| Self { _file: lock, exclusive: true }),
        }
    }

    /// Whether nobody else can be fetching the file now.
    pub(crate) fn is_exclusive(&self) -> bool {
        self.exclusive
    }
}
