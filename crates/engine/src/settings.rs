//! `fuse_qkv=off,threads=1`: what a run is set to, on one side of a comparison.
//!
//! `KEYS` is the grammar and its help. Parsing only records; [`Settings::apply`] puts what was said over what flags and
//! variables say.

use std::fmt;
use std::ops::RangeInclusive;
use std::str::FromStr;

use minfer_cpu::pool::MAX_THREADS;
use minfer_graph::{KvType, Stage};

use crate::gpu::GpuLayers;
use crate::params::ContextParams;

/// A key, what it takes, what it does.
struct Key {
    /// As it is written before `=`.
    name: &'static str,
    value: &'static str,
    help: &'static str,
    set: Set,
}

/// How the value of a key is read.
enum Set {
    Text(fn(&mut Settings, &str) -> Option<()>),
    /// A whole number in a range.
    Number(RangeInclusive<usize>, fn(&mut Settings, usize)),
}

/// Every key, in the order of the help.
const KEYS: [Key; 18] = [
    key("fuse", "on|off", "both fusions of decode steps", |s, v| {
        s.fuse_qkv = Some(switch(v)?);
        s.fuse_ffn = s.fuse_qkv;
        Some(())
    }),
    key("fuse_qkv", "on|off", "the fusion of query, key and value", |s, v| put(&mut s.fuse_qkv, switch(v))),
    key("fuse_ffn", "on|off", "the fusion of the feed-forward network", |s, v| {
        put(&mut s.fuse_ffn, switch(v))
    }),
    key("backend", "NAMES", "engines, joined by +", |s, v| put(&mut s.backends, Some(v.replace('+', ",")))),
    key("gpu_layers", "auto|all|N", "layers that a GPU takes", |s, v| put(&mut s.gpu_layers, v.parse().ok())),
    key("device", "NAME", "the GPU to use, by a part of its name", |s, v| put(&mut s.device, Some(v.into()))),
    key("gpu_import", "on|off", "weights that a GPU reads where their file is mapped", |s, v| {
        put(&mut s.gpu_import, switch(v))
    }),
    key("isa", "NAME", "instruction set of the cpu", |s, v| put(&mut s.isa, Some(v.into()))),
    number("threads", 1..=MAX_THREADS, "threads of the cpu", |s, n| s.n_threads = Some(n)),
    number("threads_batch", 1..=MAX_THREADS, "threads of the cpu for prompts", |s, n| {
        s.n_threads_batch = Some(n);
    }),
    key("kv", "f16|f32|q8_0", "type of the cache", |s, v| put(&mut s.kv_type, kv_type(v))),
    number("chunk", SOME, "most tokens of a prompt in one step", |s, n| s.n_ubatch = Some(n)),
    number("ctx", ANY, "tokens that fit into the context", |s, n| s.n_ctx = Some(n)),
    number("tokens", SOME, "as --tokens", |s, n| s.n_tokens = Some(n)),
    number("sequences", SOME, "as --sequences", |s, n| s.n_sequences = Some(n)),
    number("out_rows", ANY, "as --out-rows", |s, n| s.n_out = Some(n)),
    key("stage", "NAME", "as --stage", |s, v| put(&mut s.stage, stage(v))),
    key("model", "MODEL", "another model", |s, v| put(&mut s.model, Some(v.into()))),
];

const ANY: RangeInclusive<usize> = 0..=usize::MAX;
const SOME: RangeInclusive<usize> = 1..=usize::MAX;

/// Keys that say how large a step is or how far it is compiled: they mean nothing where a model runs.
const OF_GRAPHS: [&str; 4] = ["tokens", "sequences", "out_rows", "stage"];

const fn key(
    name: &'static str,
    value: &'static str,
    help: &'static str,
    set: fn(&mut Settings, &str) -> Option<()>,
) -> Key {
    Key { name, value, help, set: Set::Text(set) }
}

const fn number(
    name: &'static str,
    range: RangeInclusive<usize>,
    help: &'static str,
    set: fn(&mut Settings, usize),
) -> Key {
    Key { name, value: "N", help, set: Set::Number(range, set) }
}

impl Key {
    /// Reads and keeps a value; nothing if it makes no sense.
    fn set(&self, settings: &mut Settings, value: &str) -> Option<()> {
        match &self.set {
            Set::Text(set) => set(settings, value),
            Set::Number(range, set) => {
                let n = value.parse().ok().filter(|n| range.contains(n))?;
                set(settings, n);
                Some(())
            }
        }
    }

    /// What it takes, in words.
    fn expected(&self) -> String {
        match &self.set {
            Set::Text(_) => self.value.to_owned(),
            Set::Number(range, _) => match (range.start(), range.end()) {
                (least, &usize::MAX) => format!("a whole number from {least} on"),
                (least, most) => format!("a whole number from {least} to {most}"),
            },
        }
    }
}

fn put<T>(place: &mut Option<T>, value: Option<T>) -> Option<()> {
    *place = Some(value?);
    Some(())
}

fn switch(value: &str) -> Option<bool> {
    match value {
        "on" | "1" | "true" => Some(true),
        "off" | "0" | "false" => Some(false),
        _ => None,
    }
}

fn kv_type(value: &str) -> Option<KvType> {
    match value {
        "f16" => Some(KvType::F16),
        "f32" => Some(KvType::F32),
        "q8_0" => Some(KvType::Q8_0),
        _ => None,
    }
}

fn stage(value: &str) -> Option<Stage> {
    [Stage::Built, Stage::Assigned, Stage::Fused, Stage::Planned].into_iter().find(|s| s.name() == value)
}

/// What is set; the rest is as flags, variables and defaults say.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Settings {
    fuse_qkv: Option<bool>,
    fuse_ffn: Option<bool>,
    backends: Option<String>,
    gpu_layers: Option<GpuLayers>,
    device: Option<String>,
    gpu_import: Option<bool>,
    isa: Option<String>,
    n_threads: Option<usize>,
    n_threads_batch: Option<usize>,
    kv_type: Option<KvType>,
    n_ubatch: Option<usize>,
    /// Tokens that fit into the context.
    pub n_ctx: Option<usize>,
    /// Tokens of the step.
    pub n_tokens: Option<usize>,
    /// Sequences of the step.
    pub n_sequences: Option<usize>,
    /// Rows of logits of the step.
    pub n_out: Option<usize>,
    /// How far the graph is compiled.
    pub stage: Option<Stage>,
    /// Another model.
    pub model: Option<String>,
    text: String,
}

/// Settings that cannot be read.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
pub enum SettingsError {
    /// A piece is no `key=value`, or nobody knows its key.
    #[error("'{piece}' is not a setting; settings are key=value, joined by commas, with the keys {}", known.join(", "))]
    Unknown {
        /// What was given.
        piece: String,
        /// The keys that there are.
        known: Vec<&'static str>,
    },
    /// The value makes no sense.
    #[error("setting '{key}' is '{value}', expected {expected}")]
    Value {
        /// The key.
        key: &'static str,
        /// What was given.
        value: String,
        /// What it takes.
        expected: String,
    },
}

impl FromStr for Settings {
    type Err = SettingsError;

    /// Pieces are separated by commas; an empty text sets nothing. A comma within a value is written `\,`.
    fn from_str(text: &str) -> Result<Self, SettingsError> {
        parse(text, KEYS.iter().map(|key| key.name))
    }
}

/// Reads settings; `known` are the keys that an error names.
fn parse(text: &str, known: impl Iterator<Item = &'static str>) -> Result<Settings, SettingsError> {
    let mut settings = Settings { text: text.to_owned(), ..Default::default() };
    for piece in pieces(text).iter().map(|p| p.trim()).filter(|p| !p.is_empty()) {
        let found = piece.split_once('=').and_then(|(name, value)| Some((find(name)?, value.trim())));
        let Some((key, value)) = found else {
            return Err(SettingsError::Unknown { piece: piece.into(), known: known.collect() });
        };
        if key.set(&mut settings, value).is_none() {
            let (value, expected) = (value.into(), key.expected());
            return Err(SettingsError::Value { key: key.name, value, expected });
        }
    }
    Ok(settings)
}

fn find(name: &str) -> Option<&'static Key> {
    KEYS.iter().find(|key| key.name == name.trim())
}

fn pieces(text: &str) -> Vec<String> {
    let mut pieces = vec![String::new()];
    let mut chars = text.chars().peekable();
    while let Some(c) = chars.next() {
        match (c, pieces.last_mut()) {
            ('\\', Some(last)) if chars.next_if_eq(&',').is_some() => last.push(','),
            (',', _) => pieces.push(String::new()),
            (c, Some(last)) => last.push(c),
            (_, None) => {}
        }
    }
    pieces
}

/// As it was typed; `the defaults` if nothing was.
impl fmt::Display for Settings {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(if self.text.trim().is_empty() { "the defaults" } else { &self.text })
    }
}

impl Settings {
    /// Puts what is set over `params`.
    pub fn apply(&self, params: ContextParams) -> ContextParams {
        ContextParams {
            n_ctx: self.n_ctx.unwrap_or(params.n_ctx),
            n_ubatch: self.n_ubatch.unwrap_or(params.n_ubatch),
            n_threads: self.n_threads.or(params.n_threads),
            n_threads_batch: self.n_threads_batch.or(params.n_threads_batch),
            isa: self.isa.clone().or(params.isa),
            kv_type: self.kv_type.unwrap_or(params.kv_type),
            backends: self.backends.clone().or(params.backends),
            gpu_layers: self.gpu_layers.unwrap_or(params.gpu_layers),
            device: self.device.clone().or(params.device),
            gpu_import: self.gpu_import.unwrap_or(params.gpu_import),
            fuse_qkv: self.fuse_qkv.unwrap_or(params.fuse_qkv),
            fuse_ffn: self.fuse_ffn.unwrap_or(params.fuse_ffn),
            ..params
        }
    }

    /// What `self` does not set is set as in `other`; the model counts for one side only.
    pub fn or(self, other: &Settings) -> Settings {
        Settings {
            fuse_qkv: self.fuse_qkv.or(other.fuse_qkv),
            fuse_ffn: self.fuse_ffn.or(other.fuse_ffn),
            backends: self.backends.or_else(|| other.backends.clone()),
            gpu_layers: self.gpu_layers.or(other.gpu_layers),
            device: self.device.or_else(|| other.device.clone()),
            gpu_import: self.gpu_import.or(other.gpu_import),
            isa: self.isa.or_else(|| other.isa.clone()),
            n_threads: self.n_threads.or(other.n_threads),
            n_threads_batch: self.n_threads_batch.or(other.n_threads_batch),
            kv_type: self.kv_type.or(other.kv_type),
            n_ubatch: self.n_ubatch.or(other.n_ubatch),
            n_ctx: self.n_ctx.or(other.n_ctx),
            n_tokens: self.n_tokens.or(other.n_tokens),
            n_sequences: self.n_sequences.or(other.n_sequences),
            n_out: self.n_out.or(other.n_out),
            stage: self.stage.or(other.stage),
            ..self
        }
    }

    /// A setting that means nothing where a model runs, if there is one.
    pub fn of_graphs_only(&self) -> Option<&'static str> {
        let set =
            [self.n_tokens.is_some(), self.n_sequences.is_some(), self.n_out.is_some(), self.stage.is_some()];
        OF_GRAPHS.into_iter().zip(set).find(|(_, set)| *set).map(|(name, _)| name)
    }

    /// Settings of a run: an error about a key that nobody knows names those that mean something there.
    pub fn of_run(text: &str) -> Result<Settings, SettingsError> {
        parse(text, keys().map(|(name, _, _)| name))
    }

    /// Whether both set the same, however it is written.
    pub fn sets_same(&self, other: &Settings) -> bool {
        *self == Settings { text: self.text.clone(), ..other.clone() }
    }

    /// Settings, or the name of a model: what has no `=`, or a key that nobody knows and is a file.
    pub fn or_model(text: &str) -> Result<Settings, SettingsError> {
        let is_model = !text.contains('=') || std::path::Path::new(text).is_file();
        match is_model && !text.trim().is_empty() {
            true => Ok(Settings { model: Some(text.into()), text: text.into(), ..Default::default() }),
            false => text.parse(),
        }
    }
}

/// Every key that means something where a model runs, what it takes and what it does.
pub fn keys() -> impl Iterator<Item = (&'static str, &'static str, &'static str)> {
    KEYS.iter().filter(|key| !OF_GRAPHS.contains(&key.name)).map(|key| (key.name, key.value, key.help))
}

/// The keys for a help page; with `of_graphs`, those of a step, too.
pub fn help(of_graphs: bool) -> String {
    let keys = KEYS.iter().filter(|key| of_graphs || !OF_GRAPHS.contains(&key.name));
    let lines: Vec<_> =
        keys.map(|key| format!("  {:<19} {}", format!("{}={}", key.name, key.value), key.help)).collect();
    format!("Settings (key=value, joined by commas; `\\,` is a comma within a value):\n{}", lines.join("\n"))
}

#[cfg(test)]
mod tests {
    use super::*;

    fn params(text: &str) -> ContextParams {
        text.parse::<Settings>().unwrap().apply(ContextParams::default())
    }

    #[test]
    fn settings_are_put_over_params() {
        let p = params("fuse=off, threads=3,kv=f32,chunk=16,isa=scalar,backend=cpu+cuda,ctx=64");
        assert!(!p.fuse_qkv && !p.fuse_ffn);
        assert_eq!((p.n_threads, p.kv_type, p.n_ubatch, p.n_ctx), (Some(3), KvType::F32, 16, 64));
        assert_eq!((p.isa.as_deref(), p.backends.as_deref()), (Some("scalar"), Some("cpu,cuda")));
        let p = params("fuse=off,fuse_ffn=on");
        assert!(!p.fuse_qkv && p.fuse_ffn, "the last one counts");
        assert_eq!(params("").n_ubatch, ContextParams::default().n_ubatch);
        let p = params("threads=1,threads_batch=2");
        assert_eq!((p.n_threads, p.n_threads_batch), (Some(1), Some(2)));
        let p = params("gpu_layers=12,device=radeon");
        assert_eq!((p.gpu_layers, p.device.as_deref()), (GpuLayers::Count(12), Some("radeon")));
        assert_eq!(params("gpu_layers=all").gpu_layers, GpuLayers::Count(usize::MAX));
        assert_eq!(params("threads=1").gpu_layers, GpuLayers::Auto);
    }

    #[test]
    fn a_comma_in_a_path_can_be_written() {
        let settings: Settings = r"model=a\,b=c\d.gguf,threads=1".parse().unwrap();
        assert_eq!(settings.model.as_deref(), Some(r"a,b=c\d.gguf"));
        assert_eq!(settings.n_threads, Some(1));
    }

    #[test]
    fn nonsense_is_named() {
        for text in ["threads", "thread=1", "=1", "fuse=off;threads=1=2x"] {
            let error = text.parse::<Settings>().unwrap_err().to_string();
            assert!(
                error.contains(text.split([',', ';']).next().unwrap()) || error.contains("fuse"),
                "{error}"
            );
        }
        for (text, part) in [
            ("threads=0", &*format!("expected a whole number from 1 to {MAX_THREADS}")),
            ("threads=x", "expected a whole number from 1"),
            ("chunk=0", "expected a whole number from 1 on"),
            ("ctx=-1", "expected a whole number from 0 on"),
            ("threads_batch=-1", "expected a whole number from 1"),
            ("fuse=maybe", "expected on|off"),
            ("kv=q8", "f16|f32|q8_0"),
            ("gpu_layers=some", "auto|all|N"),
        ] {
            assert!(text.parse::<Settings>().unwrap_err().to_string().contains(part), "{text}");
        }
    }

    #[test]
    fn an_unknown_key_is_answered_with_those_that_mean_something_there() {
        let known = |error: SettingsError| match error {
            SettingsError::Unknown { known, .. } => known,
            error => panic!("{error}"),
        };
        let of_graph = known("thread=1".parse::<Settings>().unwrap_err());
        assert_eq!(of_graph.len(), KEYS.len());
        let of_run = known(Settings::of_run("thread=1").unwrap_err());
        assert!(of_run.contains(&"threads") && OF_GRAPHS.iter().all(|name| !of_run.contains(name)));
    }

    #[test]
    fn what_is_set_the_same_is_the_same_however_it_is_written() {
        let same = |a: &str, b: &str| a.parse::<Settings>().unwrap().sets_same(&b.parse().unwrap());
        assert!(same("", " ") && same("fuse=off, threads=2", "threads=2,fuse_qkv=0,fuse_ffn=off"));
        assert!(!same("", "threads=1") && !same("model=a", "model=b"));
    }

    #[test]
    fn what_is_no_setting_is_a_model() {
        assert_eq!(Settings::or_model("dir/m.gguf").unwrap().model.as_deref(), Some("dir/m.gguf"));
        assert_eq!(Settings::or_model("threads=2").unwrap().n_threads, Some(2));
        assert!(Settings::or_model("x=2").is_err());
        assert_eq!("stage=built".parse::<Settings>().unwrap().of_graphs_only(), Some("stage"));
    }

    #[test]
    fn keys_are_distinct_and_those_of_graphs_exist() {
        let names: std::collections::HashSet<_> = KEYS.iter().map(|k| k.name).collect();
        assert_eq!(names.len(), KEYS.len());
        assert!(OF_GRAPHS.iter().all(|name| names.contains(name)));
    }
}
