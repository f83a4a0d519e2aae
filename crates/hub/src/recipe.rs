//! How a file of the cache comes about.

use crate::catalogue::{self, CatalogueEntry};
use crate::spec::{Part, Spec};

/// What to join, under which name, and what the result must be.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) struct Recipe<'a> {
    /// The name for messages.
    pub(crate) name: &'a str,
    /// Name of the file in the cache folder.
    pub(crate) file: String,
    /// At least one.
    pub(crate) parts: Vec<Part<'a>>,
    /// Pinned size in bytes.
    pub(crate) size: Option<u64>,
    /// Pinned SHA-256, lower-case hexadecimal.
    pub(crate) sha256: Option<String>,
}

impl Recipe<'static> {
    pub(crate) fn of_entry(entry: &'static CatalogueEntry) -> Self {
        Self {
            name: entry.name,
            file: entry.file.to_owned(),
            parts: entry.parts.to_vec(),
            size: Some(entry.size),
            sha256: Some(entry.sha256.to_owned()),
        }
    }
}

impl<'a> Recipe<'a> {
    /// The packages of a short name are that short name, with its pins; a pin of the user's own comes first.
    pub(crate) fn of_spec(name: &'a str, spec: Spec<'a>) -> Self {
        match catalogue::by_parts(&spec.parts) {
            Some(entry) if spec.sha256.as_deref().is_none_or(|pin| pin == entry.sha256) => {
                Recipe::of_entry(entry)
            }
            _ => Self { name, file: spec.file_name(), parts: spec.parts, size: None, sha256: spec.sha256 },
        }
    }
}
