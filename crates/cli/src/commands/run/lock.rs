//! A session is for one run at a time: a second one would overwrite what the first has saved.

use std::fs::{File, OpenOptions, TryLockError};
use std::path::{Path, PathBuf};

use crate::error::CliError;
use crate::interrupt;

/// Holds a session until it is dropped. What is locked is a file beside it, since the session itself is replaced whenever it is
/// saved.
pub(super) struct SessionLock {
    path: PathBuf,
    _file: File,
}

impl SessionLock {
    /// Takes a session for this run; one that another run has is refused. What is no file, such as a pipe, is nobody's.
    pub(super) fn take(session: &Path) -> Result<Option<SessionLock>, CliError> {
        // By whatever name it is called, it has one lock.
        let session = session.canonicalize().unwrap_or_else(|_| session.to_owned());
        let Some(name) = session.file_name().filter(|_| !session.exists() || session.is_file()) else {
            return Ok(None);
        };
        let mut hidden = std::ffi::OsString::from(".");
        hidden.push(name);
        hidden.push(".lock");
        let path = session.with_file_name(hidden);
        loop {
            let file = OpenOptions::new().write(true).create(true).truncate(false).open(&path);
            let file = file.map_err(CliError::write_file(&session))?;
            match file.try_lock() {
                Ok(()) if is_at(&file, &path) => {
                    interrupt::remove_when_stopped(&path);
                    return Ok(Some(SessionLock { path, _file: file }));
                }
                // Its last holder has just removed it.
                Ok(()) => {}
                Err(TryLockError::WouldBlock) => return Err(CliError::SessionBusy { path: session }),
                Err(TryLockError::Error(source)) => return Err(CliError::WriteFile { path, source }),
            }
        }
    }
}

impl Drop for SessionLock {
    fn drop(&mut self) {
        interrupt::keep_when_stopped(&self.path);
        // Removed while it is held, so that nobody else has locked it; one that stays does no harm.
        let _ = std::fs::remove_file(&self.path);
    }
}

/// Whether this is the file that has the name now.
#[cfg(unix)]
fn is_at(file: &File, path: &Path) -> bool {
    use std::os::unix::fs::MetadataExt;
    let identity = |it: std::fs::Metadata| (it.dev(), it.ino());
    match (file.metadata(), std::fs::metadata(path)) {
        (Ok(ours), Ok(there)) => identity(ours) == identity(there),
        _ => false,
    }
}

/// An open file keeps its name here.
#[cfg(not(unix))]
fn is_at(_: &File, _: &Path) -> bool {
    true
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn one_at_a_time_holds_a_session_and_leaves_nothing_behind() {
        let folder = tempfile::tempdir().unwrap();
        let session = folder.path().join("s");
        let held = SessionLock::take(&session).unwrap();
        assert!(matches!(SessionLock::take(&session), Err(CliError::SessionBusy { .. })));
        assert!(SessionLock::take(&folder.path().join("t")).unwrap().is_some(), "another session is free");
        drop(held);
        assert!(SessionLock::take(&session).unwrap().is_some());
        assert_eq!(std::fs::read_dir(folder.path()).unwrap().count(), 0);
        assert!(SessionLock::take(Path::new("/dev/null")).unwrap().is_none());
    }
}
