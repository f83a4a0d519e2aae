//! What is in the cache folder.

use std::fs;
use std::io::ErrorKind;
use std::path::{Path, PathBuf};

use crate::{HubError, Options, catalogue};

/// A model file in the cache folder.
#[derive(Debug, Clone, PartialEq, Eq)]
#[non_exhaustive]
pub struct CachedModel {
    /// Name of the file.
    pub file: String,
    /// The file.
    pub path: PathBuf,
    /// Size in bytes.
    pub size: u64,
    /// The short name, if it is the file of one.
    pub short_name: Option<&'static str>,
}

/// The models in the cache folder, by name; none if there is no such folder.
///
/// # Errors
/// [`HubError::NoCacheFolder`], or [`HubError::Io`] if the folder cannot be read.
pub fn list_cached(options: &Options) -> Result<Vec<CachedModel>, HubError> {
    let folder = options.cache_folder()?;
    let names = gguf_files(&folder).map_err(HubError::io("read", &folder))?;
    Ok(names.into_iter().filter_map(|file| cached(&folder, file)).collect())
}

fn cached(folder: &Path, file: String) -> Option<CachedModel> {
    let path = folder.join(&file);
    let size = fs::metadata(&path).ok()?.len();
    let short_name = catalogue::by_file(&file).map(|entry| entry.name);
    Some(CachedModel { file, path, size, short_name })
}

/// Names of the `.gguf` files in a folder, sorted; none if there is no such folder.
pub(crate) fn gguf_files(folder: &Path) -> std::io::Result<Vec<String>> {
    let entries = match fs::read_dir(folder) {
        Err(error) if matches!(error.kind(), ErrorKind::NotFound | ErrorKind::NotADirectory) => {
            return Ok(Vec::new());
        }
        entries => entries?,
    };
    let names = entries.filter_map(|entry| entry.ok()?.file_name().into_string().ok());
    let mut names: Vec<_> = names.filter(|name| is_model(folder, name)).collect();
    names.sort();
    Ok(names)
}

fn is_model(folder: &Path, name: &str) -> bool {
    name.ends_with(".gguf") && !name.starts_with('.') && folder.join(name).is_file()
}

/// The file in the cache folder that `name` is the name or the stem of.
pub(crate) fn find(folder: &Path, name: &str) -> Option<String> {
    if name.contains(['/', '\\']) || name.starts_with('.') {
        return None;
    }
    [name.to_owned(), format!("{name}.gguf")].into_iter().find(|file| is_model(folder, file))
}
