//! Where fixtures and models are, and how to run a model over tokens.
#![allow(dead_code, reason = "each test file uses its own part")]

use std::path::{Path, PathBuf};
use std::sync::Arc;

use minfer_engine::{Context, ContextParams, LoadOptions, Model, Row, SeqId};
use serde_json::Value;

/// The models that are in the repository.
pub(crate) const COMMITTED: [&str; 3] = ["qwen2-tied-q4_0", "llama-q4_1", "qwen3-yarn-bf16"];

pub(crate) fn data() -> PathBuf {
    [env!("CARGO_MANIFEST_DIR"), "../../tests/data"].iter().collect()
}

/// A folder of the shared fixtures, if they are there.
pub(crate) fn shared(part: &str) -> Option<PathBuf> {
    let default = || [env!("CARGO_MANIFEST_DIR"), "../../../shared"].iter().collect();
    let root: PathBuf = std::env::var_os("MINFER_SHARED").map_or_else(default, PathBuf::from);
    there(root.join(part))
}

/// A real model in the cache, if it is there.
pub(crate) fn real(file: &str) -> Option<PathBuf> {
    let default = || Path::new(&std::env::var_os("HOME").unwrap_or_default()).join(".cache/minfer/models");
    let folder = std::env::var_os("MINFER_MODELS").map_or_else(default, PathBuf::from);
    there(folder.join(file))
}

fn there(path: PathBuf) -> Option<PathBuf> {
    if path.exists() {
        return Some(path);
    }
    eprintln!("skipped: {} is not there", path.display());
    None
}

/// Every tiny model of the three architectures, with what it should compute: the committed ones, and all others when the
/// shared fixtures are there.
pub(crate) fn tiny_models() -> Vec<(PathBuf, Value)> {
    let mut paths: Vec<PathBuf> = COMMITTED.iter().map(|n| data().join(format!("{n}.gguf"))).collect();
    if let Some(folder) = shared("fixtures/tiny") {
        paths = std::fs::read_dir(folder).unwrap().map(|e| e.unwrap().path()).collect();
        paths.retain(|p| p.extension().is_some_and(|e| e == "gguf"));
        let name = |p: &PathBuf| p.file_name().unwrap().to_string_lossy().into_owned();
        paths.retain(|p| !name(p).starts_with("qwen3moe") && !name(p).starts_with("gemma3"));
        assert_eq!(paths.len(), 14);
    }
    paths.sort();
    paths.into_iter().map(|p| (p.clone(), json(&p.with_extension("json")))).collect()
}

pub(crate) fn json(path: &Path) -> Value {
    serde_json::from_str(&std::fs::read_to_string(path).unwrap()).unwrap()
}

pub(crate) fn load(path: &Path) -> Arc<Model> {
    Model::load(path, &LoadOptions::default()).unwrap()
}

pub(crate) fn small() -> ContextParams {
    ContextParams { n_ctx: 256, ..ContextParams::default() }
}

pub(crate) fn context(model: &Arc<Model>, params: &ContextParams) -> Context {
    Context::new(model, params, &mut |_, _| {}).unwrap()
}

pub(crate) fn ids(value: &Value) -> Vec<u32> {
    value.as_array().unwrap().iter().map(|v| v.as_u64().unwrap() as u32).collect()
}

/// Logits after every token, in chunks of `chunk`.
pub(crate) fn all_logits(context: &mut Context, seq: SeqId, tokens: &[u32], chunk: usize) -> Vec<Vec<f32>> {
    let n_vocab = context.model().n_vocab();
    let mut out = Vec::new();
    for tokens in tokens.chunks(chunk) {
        let rows: Vec<Row> = tokens.iter().map(|&token| Row { seq, token, wants_logits: true }).collect();
        out.extend(context.step(&rows).unwrap().chunks(n_vocab).map(<[f32]>::to_vec));
    }
    out
}

pub(crate) fn argmax(logits: &[f32]) -> u32 {
    let best = (0..logits.len()).max_by(|&a, &b| logits[a].total_cmp(&logits[b]).then(b.cmp(&a)));
    best.unwrap() as u32
}

pub(crate) fn rms(pairs: impl IntoIterator<Item = (f64, f64)>) -> f64 {
    let (sum, n) = pairs.into_iter().fold((0.0, 0), |(s, n), (a, b)| (s + (a - b) * (a - b), n + 1));
    (sum / f64::from(n)).sqrt()
}
