//! Models in several files: `name-00001-of-00003.gguf` and so on, each with keys that say which part it is.
//!
//! Part 1 holds the model's metadata. The keys `split.no` (from 0), `split.count` and `split.tensors.count` (of all
//! parts together) are in every part and must agree with the file names and with each other.

use std::path::{Path, PathBuf};

use crate::error::SplitFault;
use crate::{Metadata, Value};

const NO: &str = "split.no";
const COUNT: &str = "split.count";
const TENSORS: &str = "split.tensors.count";

/// The `split.*` keys of one of several parts.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct SplitKeys {
    /// Which part, from 0.
    pub(crate) no: u16,
    /// How many parts, at least 2.
    pub(crate) count: u16,
    n_tensors: Option<u64>,
}

impl SplitKeys {
    /// The keys, or `None` if the file is a whole model.
    pub(crate) fn read(metadata: &Metadata) -> Result<Option<SplitKeys>, SplitFault> {
        let count = integer(metadata, COUNT, u16::MAX.into())?.unwrap_or(0) as u16;
        if count <= 1 {
            return Ok(None);
        }
        let Some(no) = integer(metadata, NO, u64::from(count) - 1)? else {
            let expected = format!("0 to {}", count - 1);
            return Err(SplitFault::Key { key: NO, found: "missing".into(), expected });
        };
        let n_tensors = integer(metadata, TENSORS, u64::MAX)?;
        Ok(Some(SplitKeys { no: no as u16, count, n_tensors }))
    }

    /// What this part's file name ends in.
    pub(crate) fn suffix(self) -> String {
        suffix(self.no, self.count)
    }

    /// Whether `metadata` is that of part `index` (from 0) of the same model.
    pub(crate) fn check_part(self, metadata: &Metadata, index: usize) -> Result<(), SplitFault> {
        let found = SplitKeys::read(metadata)?;
        expect(COUNT, found.map(|f| f.count.into()), self.count.into())?;
        expect(NO, found.map(|f| f.no.into()), index as u64)?;
        match (found.and_then(|f| f.n_tensors), self.n_tensors) {
            (Some(found), Some(expected)) => expect(TENSORS, Some(found), expected),
            _ => Ok(()),
        }
    }

    /// Whether all parts together have as many tensors as promised.
    pub(crate) fn check_tensor_count(self, found: usize) -> Result<(), SplitFault> {
        match self.n_tensors {
            Some(expected) if expected != found as u64 => Err(SplitFault::TensorCount { found, expected }),
            _ => Ok(()),
        }
    }
}

fn expect(key: &'static str, found: Option<u64>, expected: u64) -> Result<(), SplitFault> {
    if found == Some(expected) {
        return Ok(());
    }
    let found = found.map_or_else(|| "missing or 1".into(), |n| n.to_string());
    Err(SplitFault::Key { key, found, expected: expected.to_string() })
}

/// The integer under `key`, at most `max`.
fn integer(metadata: &Metadata, key: &'static str, max: u64) -> Result<Option<u64>, SplitFault> {
    let Some(value) = metadata.get(key) else { return Ok(None) };
    match value.as_i128().and_then(|n| u64::try_from(n).ok()) {
        Some(n) if n <= max => Ok(Some(n)),
        _ => Err(SplitFault::Key {
            key,
            found: describe(value),
            expected: format!("an integer from 0 to {max}"),
        }),
    }
}

fn describe(value: &Value) -> String {
    value.as_i128().map_or_else(|| value.kind(), |n| n.to_string())
}

fn suffix(no: u16, count: u16) -> String {
    format!("-{:05}-of-{count:05}.gguf", u32::from(no) + 1)
}

/// The paths of all parts, of which `path` is one; every one is there.
pub(crate) fn part_paths(path: &Path, keys: SplitKeys) -> Result<Vec<PathBuf>, SplitFault> {
    let name = path.file_name().and_then(|name| name.to_str());
    let Some(prefix) = name.and_then(|name| name.strip_suffix(&keys.suffix())) else {
        return Err(SplitFault::Name { count: keys.count.into(), suffix: keys.suffix() });
    };
    let part = |no| {
        let part_path = path.with_file_name(format!("{prefix}{}", suffix(no, keys.count)));
        let missing = SplitFault::MissingPart { number: u32::from(no) + 1, count: keys.count.into() };
        if part_path.is_file() { Ok(part_path) } else { Err(missing) }
    };
    (0..keys.count).map(part).collect()
}
