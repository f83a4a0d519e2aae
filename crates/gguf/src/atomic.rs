//! Files that appear whole or not at all.

use std::fs::{self, File, OpenOptions, TryLockError};
use std::io::{self, BufWriter, Seek, SeekFrom, Write};
use std::path::{Path, PathBuf};
use std::sync::atomic::{AtomicU64, Ordering};
use std::sync::{Mutex, MutexGuard, PoisonError};

/// Writes a file under a temporary name beside `path`, then gives it its name.
///
/// `fill` writes the contents. If it fails, or panics, or the disk does, the temporary file is removed and what was at
/// `path` before is untouched. After success the contents are on disk, not only in the system's cache. The names of
/// `fill`'s own errors stay; errors from here come as `io::Error` that names the path.
pub fn create_atomically<E: From<io::Error>>(
    path: &Path,
    fill: impl FnOnce(&mut BufWriter<File>) -> Result<(), E>,
) -> Result<(), E> {
    let mut file = AtomicFile::create(path)?;
    fill(&mut file.out)?;
    Ok(file.commit()?)
}

/// The same for a file that is written bit by bit: buffered, and gone unless [`commit`](Self::commit)ted.
///
/// A link stays a link: what it leads to is replaced. What is no file, such as `/dev/stdout` or a pipe, can't be
/// replaced and is written as it is.
#[derive(Debug)]
pub struct AtomicFile {
    // Closed before the temporary file is removed: some systems remove no open file.
    out: BufWriter<File>,
    // None for what is no file.
    temporary: Option<Temporary>,
    path: PathBuf,
}

impl AtomicFile {
    /// Begins the file that will be `path`. Errors name the path.
    pub fn create(path: &Path) -> io::Result<Self> {
        Self::begin(path).map_err(|e| naming(path, e))
    }

    fn begin(path: &Path) -> io::Result<Self> {
        let path = followed(path)?;
        let (temporary, file) = match existing(&path)? {
            Some(file) if !file.metadata()?.is_file() || is_descriptor(&path) => (None, file),
            Some(old) => {
                let (temporary, file) = Temporary::beside(&path)?;
                file.set_permissions(old.metadata()?.permissions())?;
                (Some(temporary), file)
            }
            None => {
                let (temporary, file) = Temporary::beside(&path)?;
                (Some(temporary), file)
            }
        };
        Ok(AtomicFile { out: BufWriter::new(file), temporary, path })
    }

    /// Writes everything to disk and gives the file its name. Errors name the path.
    pub fn commit(self) -> io::Result<()> {
        let AtomicFile { mut out, temporary, path } = self;
        let finish = || -> io::Result<()> {
            out.flush()?;
            let Some(temporary) = temporary else { return Ok(()) };
            out.get_ref().sync_all()?;
            temporary.rename_to(&path)?;
            sync_folder(folder_of(&path))
        };
        finish().map_err(|e| naming(&path, e))
    }
}

/// Most links that are followed; as many as Linux does.
const MAX_LINKS: usize = 40;

/// Where `path` leads; what it leads to need not exist.
fn followed(path: &Path) -> io::Result<PathBuf> {
    let mut path = path.to_owned();
    for _ in 0..MAX_LINKS {
        if is_descriptor(&path) {
            return Ok(path);
        }
        let Ok(next) = fs::read_link(&path) else { return Ok(path) };
        path = folder_of(&path).join(next);
    }
    Err(io::Error::other("too many links"))
}

/// Whether `path` names something that a process has open: it reads like a link and is none.
fn is_descriptor(path: &Path) -> bool {
    cfg!(unix) && (path.starts_with("/proc") || path.starts_with("/dev/fd"))
}

/// What is at `path`, opened to be written; an error if it may not be.
fn existing(path: &Path) -> io::Result<Option<File>> {
    match OpenOptions::new().write(true).open(path) {
        Ok(file) => Ok(Some(file)),
        Err(error) if error.kind() == io::ErrorKind::NotFound => Ok(None),
        Err(error) => Err(error),
    }
}

impl Write for AtomicFile {
    fn write(&mut self, bytes: &[u8]) -> io::Result<usize> {
        self.out.write(bytes)
    }

    fn flush(&mut self) -> io::Result<()> {
        self.out.flush()
    }
}

impl Seek for AtomicFile {
    fn seek(&mut self, to: SeekFrom) -> io::Result<u64> {
        self.out.seek(to)
    }
}

fn naming(path: &Path, error: io::Error) -> io::Error {
    io::Error::new(error.kind(), format!("{}: {error}", path.display()))
}

/// How much of a file's name is in that of the temporary one: what is added has to fit, too.
const MAX_NAME_CHARS: usize = 50;

/// A file that is removed unless it is renamed. Its writer holds a lock on it, by which a file that a killed process has
/// left behind is known.
#[derive(Debug)]
struct Temporary(Option<PathBuf>);

/// Temporary files of this process.
static UNFINISHED: Mutex<Vec<PathBuf>> = Mutex::new(Vec::new());

/// Removes the temporary files of everything that is being written. To be called before a process ends without going
/// back to `main`, as on a signal; what is written afterwards is lost.
pub fn remove_unfinished() {
    for path in unfinished().drain(..) {
        let _ = fs::remove_file(path);
    }
}

fn unfinished() -> MutexGuard<'static, Vec<PathBuf>> {
    // A list of paths is whole at any moment.
    UNFINISHED.lock().unwrap_or_else(PoisonError::into_inner)
}

impl Temporary {
    fn beside(path: &Path) -> io::Result<(Temporary, File)> {
        let name = path.file_name().ok_or(io::ErrorKind::InvalidInput)?.to_string_lossy();
        let prefix = format!(".{}.", name.chars().take(MAX_NAME_CHARS).collect::<String>());
        remove_abandoned(folder_of(path), &prefix);
        loop {
            let temporary = Temporary(Some(folder_of(path).join(format!("{prefix}{}", unique_suffix()))));
            if let Some(file) = temporary.create()? {
                return Ok((temporary, file));
            }
        }
    }

    /// Makes the file; `None` if another process took it for abandoned before it was locked.
    fn create(&self) -> io::Result<Option<File>> {
        let Some(path) = &self.0 else { return Ok(None) };
        let file = OpenOptions::new().write(true).create_new(true).open(path)?;
        unfinished().push(path.clone());
        // Some network file systems have no locks; nothing is taken for abandoned there, either.
        let is_taken = matches!(file.try_lock(), Err(TryLockError::WouldBlock)) || !path.exists();
        Ok((!is_taken).then_some(file))
    }

    fn rename_to(mut self, path: &Path) -> io::Result<()> {
        if let Some(temporary) = &self.0 {
            fs::rename(temporary, path)?;
            forget(temporary);
        }
        self.0 = None;
        Ok(())
    }
}

impl Drop for Temporary {
    fn drop(&mut self) {
        if let Some(path) = &self.0 {
            // Nobody is left to tell; the name says what the file is.
            let _ = fs::remove_file(path);
            forget(path);
        }
    }
}

fn forget(path: &Path) {
    unfinished().retain(|other| other != path);
}

const SUFFIX: &str = ".partial";

fn unique_suffix() -> String {
    static NEXT: AtomicU64 = AtomicU64::new(0);
    format!("{}-{}{SUFFIX}", std::process::id(), NEXT.fetch_add(1, Ordering::Relaxed))
}

/// Removes what processes that were killed have left in `folder` of files whose temporary names begin with `prefix`.
fn remove_abandoned(folder: &Path, prefix: &str) {
    let Ok(entries) = fs::read_dir(folder) else { return };
    let is_temporary = |name: &str| name.starts_with(prefix) && name.ends_with(SUFFIX);
    let temporary = entries.flatten().filter(|entry| entry.file_name().to_str().is_some_and(is_temporary));
    for path in temporary.map(|entry| entry.path()) {
        if File::open(&path).is_ok_and(|file| file.try_lock().is_ok()) {
            let _ = fs::remove_file(path);
        }
    }
}

fn folder_of(path: &Path) -> &Path {
    match path.parent() {
        Some(folder) if !folder.as_os_str().is_empty() => folder,
        _ => Path::new("."),
    }
}

/// Makes a rename in `folder` last through a power cut, where the system can.
fn sync_folder(folder: &Path) -> io::Result<()> {
    if cfg!(unix) { File::open(folder)?.sync_all() } else { Ok(()) }
}
