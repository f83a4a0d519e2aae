//! Which of a model's templates to use.
//!
//! A GGUF file holds one template (`tokenizer.chat_template`) and perhaps named ones (`tokenizer.chat_template.NAME`,
//! listed in `tokenizer.chat_templates`). As `transformers` does, `tool_use` is taken when there are tools, otherwise the
//! default one.

use minfer_gguf::{Array, Metadata, Value};

use super::{ChatTemplate, TemplateContext, TemplateError};

const KEY: &str = "tokenizer.chat_template";
const NAMES_KEY: &str = "tokenizer.chat_templates";
const TOKENS_KEY: &str = "tokenizer.ggml.tokens";

/// Special tokens: the key of the id, and the variable that a template sees.
const SPECIAL_TOKENS: [(&str, &str); 7] = [
    ("tokenizer.ggml.bos_token_id", "bos_token"),
    ("tokenizer.ggml.eos_token_id", "eos_token"),
    ("tokenizer.ggml.unknown_token_id", "unk_token"),
    ("tokenizer.ggml.seperator_token_id", "sep_token"),
    ("tokenizer.ggml.padding_token_id", "pad_token"),
    ("tokenizer.ggml.cls_token_id", "cls_token"),
    ("tokenizer.ggml.mask_token_id", "mask_token"),
];

impl TemplateContext {
    /// The special tokens that the metadata names; a token without an id, or with one outside the vocabulary, is left
    /// out.
    pub fn from_metadata(metadata: &Metadata) -> Self {
        let Some(Value::Array(Array::String(tokens))) = metadata.get(TOKENS_KEY) else {
            return Self::default();
        };
        SPECIAL_TOKENS.iter().fold(Self::default(), |context, (key, variable)| {
            let id = metadata.get(key).and_then(token_id);
            match id.and_then(|id| tokens.get(id)) {
                Some(token) => context.with_token(*variable, token),
                None => context,
            }
        })
    }
}

fn token_id(value: &Value) -> Option<usize> {
    match *value {
        Value::U32(id) => usize::try_from(id).ok(),
        Value::I32(id) => usize::try_from(id).ok(),
        Value::U64(id) => usize::try_from(id).ok(),
        Value::I64(id) => usize::try_from(id).ok(),
        _ => None,
    }
}

impl ChatTemplate {
    /// The model's template; with `has_tools`, its variant `tool_use` if there is one. Special tokens come from the
    /// metadata, too.
    ///
    /// Errors if there is none ([`TemplateError::Missing`]), or as [`ChatTemplate::parse`] does.
    pub fn from_metadata(metadata: &Metadata, has_tools: bool) -> Result<Self, TemplateError> {
        Self::parse(source(metadata, has_tools)?, TemplateContext::from_metadata(metadata))
    }

    /// Names of the model's templates beside the default one, as listed in `tokenizer.chat_templates`.
    pub fn names(metadata: &Metadata) -> Vec<&str> {
        match metadata.get(NAMES_KEY) {
            Some(Value::Array(Array::String(names))) => names.iter().collect(),
            _ => Vec::new(),
        }
    }

    /// The text of the model's template called `name`, if there is one.
    pub fn named<'m>(metadata: &'m Metadata, name: &str) -> Result<Option<&'m str>, TemplateError> {
        Ok(metadata.opt_str(&format!("{KEY}.{name}"))?)
    }
}

fn source(metadata: &Metadata, has_tools: bool) -> Result<&str, TemplateError> {
    if has_tools && let Some(source) = ChatTemplate::named(metadata, "tool_use")? {
        return Ok(source);
    }
    match metadata.opt_str(KEY)? {
        Some(source) => Ok(source),
        None => ChatTemplate::named(metadata, "default")?.ok_or(TemplateError::Missing),
    }
}
