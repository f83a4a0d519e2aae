//! What a model is called in results.

use std::collections::BTreeMap;

use minfer_engine::Model;
use minfer_gguf::{Gguf, Value};

use crate::units;

/// Names and sizes of a model.
#[derive(Clone, Debug)]
pub(super) struct ModelFacts {
    /// Path of the file.
    pub(super) filename: String,
    /// Architecture, size and weight type: `qwen2 0.5B Q4_K - Medium`.
    pub(super) kind: String,
    /// Bytes of all tensors.
    pub(super) n_bytes: u64,
    /// Number of weights.
    pub(super) n_params: u64,
    /// Whether the file is mapped into memory.
    pub(super) is_mapped: bool,
}

impl ModelFacts {
    pub(super) fn of(model: &Model, is_mapped: bool) -> Self {
        let file = model.file();
        let n_params = file.tensors().map(|tensor| tensor.n_elems() as u64).sum();
        let architecture = model.description().architecture();
        let size = match file.metadata().get("general.size_label") {
            Some(Value::String(label)) => label.clone(),
            _ => units::count(n_params).replace(' ', ""),
        };
        let path = file.files().next().and_then(|file| file.path.map(|path| path.display().to_string()));
        Self {
            filename: path.unwrap_or_default(),
            kind: format!("{architecture} {size} {}", weight_type(file)),
            n_bytes: model.weight_bytes() as u64,
            n_params,
            is_mapped,
        }
    }
}

/// What llama.cpp calls the mixture of types, or else the type that has most bytes.
fn weight_type(file: &Gguf) -> String {
    let stated = file.metadata().u32("general.file_type").ok();
    stated.and_then(mixture).map_or_else(|| most_common_type(file).to_owned(), Into::into)
}

fn most_common_type(file: &Gguf) -> &'static str {
    let mut bytes: BTreeMap<&'static str, usize> = BTreeMap::new();
    for tensor in file.tensors() {
        *bytes.entry(tensor.dtype.name()).or_default() += tensor.n_bytes();
    }
    bytes.into_iter().max_by_key(|row| row.1).map_or("empty", |row| row.0)
}

/// Names of `general.file_type`.
fn mixture(file_type: u32) -> Option<&'static str> {
    Some(match file_type {
        0 => "all F32",
        1 => "F16",
        2 => "Q4_0",
        3 => "Q4_1",
        7 => "Q8_0",
        8 => "Q5_0",
        9 => "Q5_1",
        10 => "Q2_K - Medium",
        11 => "Q3_K - Small",
        12 => "Q3_K - Medium",
        13 => "Q3_K - Large",
        14 => "Q4_K - Small",
        15 => "Q4_K - Medium",
        16 => "Q5_K - Small",
        17 => "Q5_K - Medium",
        18 => "Q6_K",
        25 => "IQ4_NL - 4.5 bpw",
        30 => "IQ4_XS - 4.25 bpw",
        32 => "BF16",
        38 => "MXFP4 MoE",
        _ => return None,
    })
}
