//! Where models are kept and how they are fetched.

use std::env;
use std::ffi::OsString;
use std::path::{self, PathBuf};

use crate::HubError;

/// Where models are kept and how they are fetched. The default is what the environment says.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct Options {
    /// The cache folder; `None` for the one the environment says.
    pub cache_dir: Option<PathBuf>,
    /// The pip command and its first arguments, the program being absolute or on `PATH`; `None` to look for one.
    pub pip_command: Option<Vec<OsString>>,
    /// Never fetch: a model that is not in the cache is an error.
    pub offline: bool,
}

impl Options {
    /// The absolute path of the cache folder, which need not exist yet.
    ///
    /// # Errors
    /// [`HubError::NoCacheFolder`] if nothing is set and the user has no home folder.
    pub fn cache_folder(&self) -> Result<PathBuf, HubError> {
        let folder = match &self.cache_dir {
            Some(folder) if !folder.as_os_str().is_empty() => Some(folder.clone()),
            _ => cache_folder(|key| env::var_os(key), env::home_dir()),
        };
        let folder = folder.ok_or(HubError::NoCacheFolder)?;
        // pip runs in another folder, where a relative path would be another one.
        path::absolute(&folder).map_err(HubError::io("find", &folder))
    }
}

fn cache_folder(var: impl Fn(&str) -> Option<OsString>, home: Option<PathBuf>) -> Option<PathBuf> {
    let set = |key| var(key).filter(|value| !value.is_empty()).map(PathBuf::from);
    let home = home.filter(|home| !home.as_os_str().is_empty());
    if let Some(folder) = set("MINFER_MODELS") {
        return Some(match (folder.strip_prefix("~"), &home) {
            (Ok(rest), Some(home)) => home.join(rest),
            _ => folder,
        });
    }
    // The XDG base directory specification has relative paths ignored.
    let caches = set("XDG_CACHE_HOME").filter(|path| path.is_absolute());
    Some(caches.or_else(|| Some(home?.join(".cache")))?.join("minfer").join("models"))
}

#[cfg(all(test, unix))]
mod tests {
    use super::*;

    fn folder(vars: &[(&str, &str)], home: Option<&str>) -> Option<PathBuf> {
        let var = |key: &str| vars.iter().find(|(k, _)| *k == key).map(|(_, v)| OsString::from(v));
        cache_folder(var, home.map(PathBuf::from))
    }

    #[test]
    fn the_environment_names_the_cache_folder() {
        let home = Some("/home/u");
        let both = [("MINFER_MODELS", "/m"), ("XDG_CACHE_HOME", "/x")];
        for (vars, home, want) in [
            (&both[..], home, Some("/m")),
            (&both[..], None, Some("/m")),
            (&[("MINFER_MODELS", ""), ("XDG_CACHE_HOME", "/x")], home, Some("/x/minfer/models")),
            (&[("MINFER_MODELS", "~/m")], home, Some("/home/u/m")),
            (&[("MINFER_MODELS", "rel")], home, Some("rel")),
            (&[("XDG_CACHE_HOME", "rel")], home, Some("/home/u/.cache/minfer/models")),
            (&[], home, Some("/home/u/.cache/minfer/models")),
            (&[], None, None),
            (&[], Some(""), None),
        ] {
            assert_eq!(folder(vars, home), want.map(PathBuf::from), "{vars:?} {home:?}");
        }
    }

    #[test]
    fn a_relative_folder_becomes_absolute() {
        let options = Options { cache_dir: Some("models".into()), ..Options::default() };
        assert_eq!(options.cache_folder().unwrap(), env::current_dir().unwrap().join("models"));
    }
}
