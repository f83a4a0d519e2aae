//! Where recorded chats are, and how their templates are made ready.

use std::path::{Path, PathBuf};

use minfer_text::chat::TemplateContext;
use serde_json::Value;

/// The folder; says so and gives nothing where there is none.
pub(crate) fn fixtures() -> Option<PathBuf> {
    let shared = std::env::var_os("MINFER_SHARED").map_or_else(
        || PathBuf::from(concat!(env!("CARGO_MANIFEST_DIR"), "/../../../shared")),
        PathBuf::from,
    );
    let folder = shared.join("fixtures/chat");
    if !folder.is_dir() {
        eprintln!("skipped: no chat fixtures at {}", folder.display());
        return None;
    }
    Some(folder)
}

/// The files of the folder that are JSON, in order.
pub(crate) fn files(folder: &Path) -> Vec<PathBuf> {
    let mut paths: Vec<PathBuf> =
        std::fs::read_dir(folder).unwrap().map(|entry| entry.unwrap().path()).collect();
    paths.retain(|path| path.extension().is_some_and(|extension| extension == "json"));
    paths.sort();
    paths
}

pub(crate) fn load(path: &Path) -> Value {
    serde_json::from_str(&std::fs::read_to_string(path).unwrap()).unwrap()
}

/// The context of a template with these tokens.
pub(crate) fn context(tokens: &Value) -> TemplateContext {
    let tokens = tokens.as_object().into_iter().flatten();
    tokens.fold(TemplateContext::default(), |c, (name, text)| c.with_token(name, text.as_str().unwrap()))
}
