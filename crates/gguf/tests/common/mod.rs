//! Where fixtures and models are, and what to do without them.
#![allow(dead_code, reason = "each test binary uses some of it")]
#![allow(clippy::print_stderr, reason = "a skipped test says so")]

pub(crate) mod alloc;

use std::path::{Path, PathBuf};

/// The folder `fixtures/NAME`, or `None` with a note on stderr.
pub(crate) fn fixtures(name: &str) -> Option<PathBuf> {
    let beside_repo = Path::new(env!("CARGO_MANIFEST_DIR")).join("../../../shared");
    let shared = std::env::var_os("MINFER_SHARED").map_or(beside_repo, PathBuf::from);
    let found = shared.join("fixtures").join(name);
    if found.is_dir() {
        return Some(found);
    }
    eprintln!("skipped: no {}", found.display());
    None
}

/// A real model, or `None` with a note on stderr.
pub(crate) fn model(file_name: &str) -> Option<PathBuf> {
    let folder = match std::env::var_os("MINFER_MODELS") {
        Some(folder) => PathBuf::from(folder),
        None => std::env::home_dir()?.join(".cache/minfer/models"),
    };
    let found = folder.join(file_name);
    if found.is_file() {
        return Some(found);
    }
    eprintln!("skipped: no {}", found.display());
    None
}
