//! The folder of packed weights: room in it, and what goes to make room.

use std::fs::{self, DirBuilder, DirEntry, File, Metadata, TryLockError};
use std::io;
use std::path::Path;
use std::time::{Duration, SystemTime};

use super::PackedCacheOptions;
use super::file::TEMPORARY;

/// A file is written only if the disk has so many times its size free.
const FREE_FACTOR: u64 = 4;

/// Where files cannot be locked, a temporary file that was not written to for so long was left by a process that is gone.
const LEFT_BEHIND: Duration = Duration::from_secs(3600);

/// Packed weights cannot be kept.
#[derive(Debug, thiserror::Error)]
pub(super) enum RoomError {
    #[error("they take {}, and at most {} are to be kept", mib(*needed), mib(*max))]
    TooLarge { needed: u64, max: u64 },
    #[error("they take {}, more than a quarter of the {} that are free on the disk", mib(*needed), mib(*free))]
    DiskFull { needed: u64, free: u64 },
    #[error("{0}")]
    Io(#[from] io::Error),
}

fn mib(bytes: u64) -> String {
    format!("{:.1} MiB", bytes as f64 / (1 << 20) as f64)
}

/// Makes the folder, and room for `needed` more bytes in it. What is at `path`, where they will go, does not count: it is
/// replaced.
pub(super) fn make_room(options: &PackedCacheOptions, path: &Path, needed: u64) -> Result<(), RoomError> {
    if needed > options.max_bytes {
        return Err(RoomError::TooLarge { needed, max: options.max_bytes });
    }
    create(&options.folder)?;
    remove_leftovers(&options.folder)?;
    let mut kept = files(&options.folder, |name| name.ends_with(".packed"))?;
    kept.retain(|(entry, _)| entry.path() != path);
    kept.sort_by_key(|(_, about)| about.modified().unwrap_or(SystemTime::UNIX_EPOCH));
    let mut sum = kept.iter().fold(needed, |sum, (_, about)| sum.saturating_add(about.len()));
    for (entry, about) in kept {
        if sum <= options.max_bytes {
            break;
        }
        // Processes that have it mapped keep it until they end.
        remove(&entry)?;
        sum -= about.len();
    }
    let free = free_bytes(&options.folder)?;
    if needed > free / FREE_FACTOR {
        return Err(RoomError::DiskFull { needed, free });
    }
    Ok(())
}

/// Notes that the file was used; what was not used for longest goes first.
pub(super) fn touch(path: &Path) {
    // A folder that cannot be written to has files that nobody removes.
    let _ = File::open(path).and_then(|file| file.set_modified(SystemTime::now()));
}

fn create(folder: &Path) -> io::Result<()> {
    let mut builder = DirBuilder::new();
    builder.recursive(true);
    #[cfg(unix)]
    std::os::unix::fs::DirBuilderExt::mode(&mut builder, 0o700);
    builder.create(folder)
}

fn remove_leftovers(folder: &Path) -> io::Result<()> {
    for (entry, about) in files(folder, |name| name.starts_with(TEMPORARY))? {
        if is_left_behind(&entry, &about) {
            remove(&entry)?;
        }
    }
    Ok(())
}

/// Whether the process that wrote this temporary file is gone: it had it locked.
fn is_left_behind(entry: &DirEntry, about: &Metadata) -> bool {
    let old = || about.modified().is_ok_and(|at| at.elapsed().is_ok_and(|age| age > LEFT_BEHIND));
    match File::open(entry.path()).map(|file| file.try_lock()) {
        Ok(Ok(())) => true,
        Ok(Err(TryLockError::WouldBlock)) => false,
        Ok(Err(TryLockError::Error(_))) | Err(_) => old(),
    }
}

/// One that another process removed meanwhile is gone as well.
fn remove(entry: &DirEntry) -> io::Result<()> {
    match fs::remove_file(entry.path()) {
        Err(e) if e.kind() != io::ErrorKind::NotFound => Err(e),
        _ => Ok(()),
    }
}

fn files(folder: &Path, wanted: impl Fn(&str) -> bool) -> io::Result<Vec<(DirEntry, Metadata)>> {
    let mut found = Vec::new();
    for entry in fs::read_dir(folder)? {
        let entry = entry?;
        // One that another process removed meanwhile is no matter.
        let Ok(about) = entry.metadata() else { continue };
        if about.is_file() && entry.file_name().to_str().is_some_and(&wanted) {
            found.push((entry, about));
        }
    }
    Ok(found)
}

#[cfg(unix)]
fn free_bytes(folder: &Path) -> io::Result<u64> {
    let about = rustix::fs::statvfs(folder)?;
    Ok(about.f_bavail.saturating_mul(about.f_frsize))
}

/// Where it cannot be told, nothing is kept.
#[cfg(not(unix))]
fn free_bytes(_folder: &Path) -> io::Result<u64> {
    Ok(0)
}
