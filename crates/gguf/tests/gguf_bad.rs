//! The table of malformed files: each does at this layer what its README says, in little memory.
#![allow(clippy::unwrap_used, reason = "a helper that fails fails its test")]

mod common;

use std::path::Path;

use common::alloc::{Metered, peak_of};
use minfer_gguf::{FaultClass, Gguf, OpenOptions};

#[global_allocator]
static ALLOCATOR: Metered = Metered;

/// Far below the promise of 64 MiB: the largest file has 265 KB.
const MAX_BYTES: usize = 2 << 20;

/// Files whose container is sound. What is wrong with them is for whoever reads hyper-parameters and weights
/// (`models`) or the vocabulary (`text`) to find; here they must load.
const LEFT_TO_LATER_LAYERS: &[&str] = &[
    "architecture-",
    "block-count-",
    "embedding-length-",
    "feed-forward-",
    "head-count-",
    "key-length-wrong",
    "merges-",
    "missing-",
    "no-attn-norm",
    "no-attn-q",
    "no-embedding",
    "no-ffn-down",
    "no-output-norm",
    "rope-dimensions-",
    "shape-",
    "spm-without-scores",
    "tensor-count-minus-one",
    "tensor-count-zero",
    "token-types-",
    "tokenizer-unknown",
    "tokens-",
];

struct Row {
    file: String,
    expected: String,
}

fn table(folder: &Path) -> Vec<Row> {
    let readme = std::fs::read_to_string(folder.join("README.md")).unwrap();
    let rows = readme.lines().filter(|line| line.contains(".gguf |"));
    let cells = rows.map(|line| line.split('|').map(str::trim).map(String::from).collect::<Vec<_>>());
    cells.map(|c| Row { file: c[1].clone(), expected: c[3].clone() }).collect()
}

fn left_to_later(file: &str) -> bool {
    LEFT_TO_LATER_LAYERS.iter().any(|prefix| file.starts_with(prefix))
}

/// What is wrong with the way the file of `row` was treated, if anything.
fn complaint(folder: &Path, row: &Row, mmap: bool) -> Option<String> {
    let path = folder.join(&row.file);
    let (result, peak) = peak_of(|| Gguf::open_with(&path, &OpenOptions { mmap }));
    if peak > MAX_BYTES {
        return Some(format!("{}: {peak} bytes of memory", row.file));
    }
    let must_load = row.expected == "load" || row.expected == "error" && left_to_later(&row.file);
    match result {
        Ok(_) if row.expected == "error" && !must_load => Some(format!("{}: loaded", row.file)),
        Err(e) if must_load => Some(format!("{}: refused: {e}", row.file)),
        Err(e) => bad_message(&row.file, &e.to_string()),
        Ok(_) => None,
    }
}

/// A message is one line of bounded length that names the file exactly once.
fn bad_message(file: &str, message: &str) -> Option<String> {
    let good =
        message.matches(file).count() == 1 && message.len() < 600 && !message.contains(char::is_control);
    (!good).then(|| format!("{file}: message {message:?}"))
}

#[test]
fn every_file_loads_or_is_refused_as_the_table_says() {
    let Some(folder) = common::fixtures("gguf-bad") else { return };
    let rows = table(&folder);
    assert_eq!(rows.len(), 174);
    let both = rows.iter().flat_map(|row| [complaint(&folder, row, true), complaint(&folder, row, false)]);
    let complaints: Vec<String> = both.flatten().collect();
    assert!(complaints.is_empty(), "{}", complaints.join("\n"));
    let errors = rows.iter().filter(|row| row.expected == "error");
    for prefix in LEFT_TO_LATER_LAYERS {
        assert!(rows.iter().any(|row| row.file.starts_with(prefix)), "no file starts with {prefix}");
    }
    assert!(errors.filter(|row| !left_to_later(&row.file)).count() > 60);
}

#[test]
fn faults_are_classified() {
    let Some(folder) = common::fixtures("gguf-bad") else { return };
    let cases = [
        ("html-page", FaultClass::NotGguf, "web page"),
        ("lfs-pointer", FaultClass::NotGguf, "git-lfs"),
        ("safetensors", FaultClass::NotGguf, "safetensors"),
        ("text-file", FaultClass::NotGguf, "text file"),
        ("empty", FaultClass::NotGguf, "empty"),
        ("zeros", FaultClass::NotGguf, "zeros"),
        ("three-bytes", FaultClass::NotGguf, "fewer than 4 bytes"),
        ("bad-magic", FaultClass::NotGguf, "'ggml'"),
        ("swapped-magic", FaultClass::NotGguf, "FUGG"),
        ("version-1", FaultClass::Unsupported, "version 1"),
        ("big-endian-version", FaultClass::Unsupported, "big-endian GGUF (version 3)"),
        ("type-removed", FaultClass::Unsupported, "type 4 (Q4_2, removed from GGML)"),
        ("type-unknown", FaultClass::Unsupported, "unknown type 99"),
        ("truncated-in-data", FaultClass::Truncated, "but the data section has"),
        ("last-byte-missing", FaultClass::Truncated, "but the data section has"),
        ("truncated-in-tokens", FaultClass::Truncated, "tokenizer.ggml.tokens"),
        ("alignment-3", FaultClass::Malformed, "expected a power of two"),
        ("array-nested-deep", FaultClass::Malformed, "deeper than 8"),
        ("split-first-of-two", FaultClass::Access, "-00001-of-00002.gguf"),
    ];
    for (name, class, text) in cases {
        let error = Gguf::open(&folder.join(format!("{name}.gguf"))).expect_err(name);
        assert_eq!(error.class(), class, "{error}");
        assert!(error.to_string().contains(text), "{error}");
    }
}
