//! What there is to say about a model; serialized, it is the output of `--json`.

use std::collections::BTreeMap;
use std::path::PathBuf;

use minfer_gguf::{Gguf, Metadata, TensorInfo, TensorType, Value};
use minfer_text::chat::ChatTemplate;
use minfer_text::tokenizer::Tokenizer;
use serde::Serialize;

use super::value::Shown;

/// Everything about one model.
#[derive(Serialize)]
pub(super) struct Facts<'a> {
    pub(super) files: Vec<FileFacts>,
    pub(super) gguf_version: u32,
    /// What tensor data is aligned to, in bytes.
    pub(super) alignment: u64,
    pub(super) architecture: Option<&'a str>,
    pub(super) name: Option<&'a str>,
    /// Why minfer cannot run it; the tokenizer and the chat template have reasons of their own.
    pub(super) problem: Option<String>,
    /// Number of weights.
    pub(super) parameters: u64,
    /// Bytes of all tensors.
    pub(super) tensor_bytes: u64,
    /// `None` if there are no weights.
    pub(super) bits_per_weight: Option<f64>,
    /// The types of the tensors, the one with most bytes first.
    pub(super) types: Vec<TypeFacts>,
    pub(super) tokenizer: TokenizerFacts<'a>,
    pub(super) chat_template: TemplateFacts<'a>,
    pub(super) metadata: serde_json::Map<String, serde_json::Value>,
    pub(super) tensors: Vec<TensorFacts<'a>>,
    /// The metadata as the text output shows it.
    #[serde(skip)]
    pub(super) shown: Vec<(&'a str, Shown<'a>)>,
}

#[derive(Serialize)]
pub(super) struct FileFacts {
    pub(super) path: Option<PathBuf>,
    pub(super) bytes: u64,
}

#[derive(Serialize)]
pub(super) struct TypeFacts {
    #[serde(rename = "type")]
    pub(super) dtype: &'static str,
    pub(super) tensors: u64,
    pub(super) parameters: u64,
    pub(super) bytes: u64,
}

#[derive(Serialize)]
pub(super) struct TensorFacts<'a> {
    pub(super) name: &'a str,
    #[serde(rename = "type")]
    pub(super) dtype: &'static str,
    /// Dimension 0, the fastest, first.
    pub(super) shape: &'a [usize],
    pub(super) bytes: usize,
    /// Index into `files`.
    pub(super) file: usize,
    /// Where the data starts, in bytes from the start of the file.
    pub(super) offset: usize,
}

#[derive(Serialize)]
pub(super) struct TokenizerFacts<'a> {
    pub(super) model: Option<&'a str>,
    pub(super) pre: Option<&'a str>,
    /// Why minfer cannot use it.
    pub(super) problem: Option<String>,
    #[serde(flatten)]
    pub(super) usable: Option<UsableTokenizer>,
}

/// What only a tokenizer that works can tell.
#[derive(Serialize)]
pub(super) struct UsableTokenizer {
    /// Number of tokens.
    pub(super) tokens: usize,
    pub(super) add_bos: bool,
    pub(super) add_eos: bool,
    /// The tokens with a role, by role.
    pub(super) special: Vec<SpecialToken>,
    /// Ids that end generation.
    pub(super) end_ids: Vec<u32>,
}

#[derive(Serialize)]
pub(super) struct SpecialToken {
    pub(super) role: &'static str,
    pub(super) id: u32,
    pub(super) text: String,
}

#[derive(Serialize)]
pub(super) struct TemplateFacts<'a> {
    pub(super) present: bool,
    /// Length of the default template.
    pub(super) bytes: Option<usize>,
    /// Other templates, by name.
    pub(super) others: Vec<&'a str>,
    /// Why minfer cannot use the default one.
    pub(super) problem: Option<String>,
}

impl<'a> Facts<'a> {
    /// Gathers; with `full`, long arrays and texts of the metadata are kept whole.
    pub(super) fn of(gguf: &'a Gguf, full: bool) -> Self {
        let metadata = gguf.metadata();
        let types = type_facts(gguf);
        let parameters = types.iter().map(|row| row.parameters).sum();
        let tensor_bytes = types.iter().map(|row| row.bytes).sum();
        let shown: Vec<_> = metadata.iter().map(|(key, value)| (key, Shown { value, full })).collect();
        Self {
            files: gguf
                .files()
                .map(|it| FileFacts { path: it.path.map(Into::into), bytes: it.n_bytes })
                .collect(),
            gguf_version: gguf.version(),
            alignment: gguf.alignment(),
            architecture: string(metadata, "general.architecture"),
            name: string(metadata, "general.name"),
            problem: minfer_models::describe(gguf).err().map(|error| error.to_string()),
            parameters,
            tensor_bytes,
            bits_per_weight: (parameters > 0).then(|| tensor_bytes as f64 * 8.0 / parameters as f64),
            types,
            tokenizer: TokenizerFacts::of(metadata),
            chat_template: TemplateFacts::of(metadata),
            metadata: shown.iter().map(|(key, value)| ((*key).to_owned(), value.to_json())).collect(),
            tensors: gguf.tensors().map(TensorFacts::of).collect(),
            shown,
        }
    }
}

impl<'a> TensorFacts<'a> {
    fn of(tensor: &'a TensorInfo) -> Self {
        Self {
            name: &tensor.name,
            dtype: tensor.dtype.name(),
            shape: &tensor.shape,
            bytes: tensor.n_bytes(),
            file: tensor.part(),
            offset: tensor.offset(),
        }
    }
}

fn type_facts(gguf: &Gguf) -> Vec<TypeFacts> {
    let mut by_type: BTreeMap<TensorType, TypeFacts> = BTreeMap::new();
    for tensor in gguf.tensors() {
        let new = || TypeFacts { dtype: tensor.dtype.name(), tensors: 0, parameters: 0, bytes: 0 };
        let row = by_type.entry(tensor.dtype).or_insert_with(new);
        row.tensors += 1;
        row.parameters += tensor.n_elems() as u64;
        row.bytes += tensor.n_bytes() as u64;
    }
    let mut rows: Vec<_> = by_type.into_values().collect();
    rows.sort_by_key(|row| std::cmp::Reverse(row.bytes));
    rows
}

impl<'a> TokenizerFacts<'a> {
    fn of(metadata: &'a Metadata) -> Self {
        let tokenizer = Tokenizer::from_metadata(metadata);
        Self {
            model: string(metadata, "tokenizer.ggml.model"),
            pre: string(metadata, "tokenizer.ggml.pre"),
            problem: tokenizer.as_ref().err().map(ToString::to_string),
            usable: tokenizer.ok().map(|tokenizer| UsableTokenizer::of(&tokenizer)),
        }
    }
}

impl UsableTokenizer {
    fn of(tokenizer: &Tokenizer) -> Self {
        let ids = tokenizer.special_ids();
        let roles = [
            ("bos", ids.bos),
            ("eos", ids.eos),
            ("eot", ids.eot),
            ("eom", ids.eom),
            ("unknown", ids.unknown),
        ];
        let special = |(role, id): (&'static str, Option<u32>)| {
            let text = String::from_utf8_lossy(tokenizer.token_bytes(id?)?).into_owned();
            Some(SpecialToken { role, id: id?, text })
        };
        Self {
            tokens: tokenizer.n_vocab(),
            add_bos: tokenizer.add_bos(),
            add_eos: tokenizer.add_eos(),
            special: roles.into_iter().filter_map(special).collect(),
            end_ids: tokenizer.eog_ids().to_vec(),
        }
    }
}

impl<'a> TemplateFacts<'a> {
    fn of(metadata: &'a Metadata) -> Self {
        const KEY: &str = "tokenizer.chat_template";
        let present = metadata.get(KEY).is_some();
        let problem = present.then(|| ChatTemplate::from_metadata(metadata, false).err()).flatten();
        Self {
            present,
            bytes: string(metadata, KEY).map(str::len),
            others: ChatTemplate::names(metadata),
            problem: problem.map(|error| error.to_string()),
        }
    }
}

/// A string, if the key is there and holds one.
fn string<'a>(metadata: &'a Metadata, key: &str) -> Option<&'a str> {
    match metadata.get(key) {
        Some(Value::String(text)) => Some(text),
        _ => None,
    }
}
