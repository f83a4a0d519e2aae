//! Where fixtures, models and vocabularies lie.

use std::path::{Path, PathBuf};

use minfer_gguf::Gguf;
use minfer_text::tokenizer::Tokenizer;

/// `path` in the shared folder, or `None` (said aloud) if it isn't there.
pub(crate) fn shared(path: &str) -> Option<PathBuf> {
    let default = concat!(env!("CARGO_MANIFEST_DIR"), "/../../../shared");
    existing(folder("MINFER_SHARED", || default.into()).join(path))
}

/// A vocabulary made by `scripts/fixture_vocabs.sh`.
pub(crate) fn vocab(name: &str) -> Option<PathBuf> {
    existing(folder("MINFER_VOCABS", || cache("vocabs")).join(format!("{name}.gguf")))
}

/// A real model.
pub(crate) fn model(file: &str) -> Option<PathBuf> {
    existing(folder("MINFER_MODELS", || cache("models")).join(file))
}

fn folder(variable: &str, default: impl Fn() -> PathBuf) -> PathBuf {
    std::env::var_os(variable).map_or_else(default, PathBuf::from)
}

fn cache(name: &str) -> PathBuf {
    Path::new(&std::env::var_os("HOME").unwrap_or_default()).join(".cache/minfer").join(name)
}

#[expect(clippy::print_stderr, reason = "a test that checks nothing has to say so")]
fn existing(path: PathBuf) -> Option<PathBuf> {
    if !path.exists() {
        eprintln!("skipped: no {}", path.display());
        return None;
    }
    Some(path)
}

pub(crate) fn load(path: &Path) -> Tokenizer {
    let gguf = Gguf::open(path).expect("the file is whole");
    Tokenizer::from_metadata(gguf.metadata()).unwrap_or_else(|e| panic!("{}: {e}", path.display()))
}

pub(crate) fn json(path: &Path) -> serde_json::Value {
    serde_json::from_str(&std::fs::read_to_string(path).expect("a readable file")).expect("JSON")
}

pub(crate) fn ids(value: &serde_json::Value) -> Vec<u32> {
    serde_json::from_value(value.clone()).expect("an array of ids")
}
