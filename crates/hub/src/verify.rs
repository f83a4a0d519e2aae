//! The full check of a file that has a pin.

use std::fs;
use std::path::Path;

use crate::catalogue::{self, CatalogueEntry};
use crate::{HubError, Progress, digest};

/// Reads all of a file of the [`catalogue`](crate::catalogue) and compares it with its pinned size and SHA-256. Which
/// entry it is, its file name says.
///
/// # Errors
/// [`HubError::NoPin`] if no entry has this file name, [`HubError::Mismatch`] if the bytes are others, and
/// [`HubError::Io`] if they cannot be read.
pub fn verify(path: &Path, progress: &mut dyn FnMut(Progress)) -> Result<&'static CatalogueEntry, HubError> {
    let file = path.file_name().and_then(|name| name.to_str());
    let entry = file.and_then(catalogue::by_file).ok_or_else(|| HubError::NoPin { path: path.to_owned() })?;
    let found_bytes = fs::metadata(path).map_err(HubError::io("read", path))?.len();
    progress(Progress::Verifying { path: path.to_owned() });
    let mut on_bytes = |done| progress(Progress::Bytes { done, total: Some(found_bytes) });
    let found = digest::sha256_of(path, &mut on_bytes).map_err(HubError::io("read", path))?;
    if found == entry.sha256 {
        return Ok(entry);
    }
    Err(HubError::Mismatch {
        name: path.display().to_string(),
        found_bytes,
        expected_bytes: Some(entry.size),
        found,
        expected: entry.sha256.to_owned(),
    })
}
