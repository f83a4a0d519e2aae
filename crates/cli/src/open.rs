//! From what the user calls a model to an open file.

use std::path::PathBuf;

use minfer_gguf::{Gguf, OpenOptions};

use crate::args::OpenArgs;
use crate::files;
use crate::progress::FetchProgress;

/// Finds the model, fetching it if need be, opens it, and puts in the metadata that the user states.
pub(crate) fn open(name: &str, args: &OpenArgs) -> anyhow::Result<Gguf> {
    let path = find(name, args)?;
    let mut gguf = Gguf::open_with(&path, &OpenOptions { mmap: !args.no_mmap })?;
    for stated in &args.override_kv {
        stated.apply(gguf.metadata_mut());
    }
    Ok(gguf)
}

/// Finds the model, fetching it if need be.
pub(crate) fn find(name: &str, args: &OpenArgs) -> anyhow::Result<PathBuf> {
    let options = minfer_hub::Options { offline: args.offline, ..Default::default() };
    let mut progress = FetchProgress::new();
    let path = minfer_hub::resolve(name, &options, &mut |event| progress.event(event))?;
    files::reads(&path, "the model")?;
    Ok(path)
}
