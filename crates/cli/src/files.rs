//! Which files a run reads and which it writes, so that no output replaces a file that the run reads, or another output.
//!
//! Every place that is about to read or write a file named by the user says so here, before any work is done.

use std::path::{Path, PathBuf};
use std::sync::{Mutex, PoisonError};

use crate::error::CliError;

/// What the run does with a file.
#[derive(Clone, Copy, PartialEq, Eq)]
enum Use {
    Read,
    Write,
}

struct Entry {
    identity: Identity,
    role: &'static str,
    use_: Use,
}

/// One process is one run.
static LEDGER: Mutex<Vec<Entry>> = Mutex::new(Vec::new());

/// Notes that the run reads `path` as `role`.
pub(crate) fn reads(path: &Path, role: &'static str) -> Result<(), CliError> {
    note(path, role, Use::Read)
}

/// Notes that the run writes `path` as `role`.
pub(crate) fn writes(path: &Path, role: &'static str) -> Result<(), CliError> {
    note(path, role, Use::Write)
}

fn note(path: &Path, role: &'static str, use_: Use) -> Result<(), CliError> {
    let identity = Identity::of(path);
    let mut ledger = LEDGER.lock().unwrap_or_else(PoisonError::into_inner);
    let clashes = |entry: &&Entry| {
        entry.identity.is(&identity) && entry.role != role && (entry.use_, use_) != READ_TWICE
    };
    if let Some(other) = ledger.iter().find(clashes) {
        return Err(CliError::SameFile { path: path.to_owned(), role, other: other.role });
    }
    ledger.push(Entry { identity, role, use_ });
    Ok(())
}

const READ_TWICE: (Use, Use) = (Use::Read, Use::Read);

/// What makes two names the same file: where they lead, or for files that are there, what the system calls them.
struct Identity {
    path: PathBuf,
    #[cfg(unix)]
    inode: Option<(u64, u64)>,
}

impl Identity {
    fn of(path: &Path) -> Identity {
        Identity {
            path: resolved(path),
            #[cfg(unix)]
            inode: std::fs::metadata(path).ok().filter(std::fs::Metadata::is_file).map(|it| {
                use std::os::unix::fs::MetadataExt;
                (it.dev(), it.ino())
            }),
        }
    }

    fn is(&self, other: &Identity) -> bool {
        #[cfg(unix)]
        if self.inode.is_some() && self.inode == other.inode {
            return true;
        }
        // Devices and pipes replace nothing.
        self.path == other.path && (!self.path.exists() || self.path.is_file())
    }
}

/// The path without links and dots; of a file that is not there yet, its folder's path and its name.
fn resolved(path: &Path) -> PathBuf {
    if let Ok(path) = path.canonicalize() {
        return path;
    }
    let folder = path.parent().filter(|it| !it.as_os_str().is_empty()).unwrap_or(Path::new("."));
    match (folder.canonicalize(), path.file_name()) {
        (Ok(folder), Some(name)) => folder.join(name),
        _ => path.to_owned(),
    }
}
