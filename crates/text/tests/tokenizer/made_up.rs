//! Small vocabularies made by hand.

use minfer_gguf::{Array, Metadata, Value};
use minfer_text::tokenizer::{EncodeOptions, Tokenizer};

/// Ids in [`byte_level`]; the 256 bytes come first, each under its own number.
pub(crate) const AB: u32 = 256;
pub(crate) const AAAA: u32 = 258;
pub(crate) const CONTROL: u32 = 261;
pub(crate) const USER: u32 = 262;
pub(crate) const UNUSED: u32 = 264;

/// Byte-level: all bytes, five merges, a control token, two user-defined ones and a gap.
pub(crate) fn byte_level() -> Metadata {
    let merged = ["ab", "aa", "aaaa", "ĠĠ", "ĠĠĠĠ"].map(String::from);
    let added = ["<s>", "<think>", "<think>more", "[PAD264]"].map(String::from);
    let tokens: Vec<String> = letters().map(String::from).chain(merged).chain(added).collect();
    let types = [1; 261].into_iter().chain([3, 4, 4, 5]).collect();
    let mut meta = Metadata::new();
    meta.set("tokenizer.ggml.model", string("gpt2"));
    meta.set("tokenizer.ggml.pre", string("gpt-2"));
    meta.set("tokenizer.ggml.tokens", strings(tokens));
    meta.set("tokenizer.ggml.token_type", Value::Array(Array::I32(types)));
    meta.set("tokenizer.ggml.merges", strings(["a b", "a a", "aa aa", "Ġ Ġ", "ĠĠ ĠĠ"]));
    meta
}

/// GPT-2's letter of every byte, in order of the bytes.
fn letters() -> impl Iterator<Item = char> {
    let mut hidden = '\u{100}'..;
    (0..=255u8).map(move |byte| match byte {
        33..=126 | 161..=172 | 174..=255 => char::from(byte),
        _ => hidden.next().expect("a letter"),
    })
}

/// SentencePiece: `<unk>`, the 256 bytes (ids 1 to 256), `▁` `a` `b` `▁a` `ab` (257 to 261).
pub(crate) fn sentence_piece() -> Metadata {
    let bytes = (0..=255).map(|byte: u8| format!("<0x{byte:02X}>"));
    let pieces = ["▁", "a", "b", "▁a", "ab"].map(String::from);
    let tokens: Vec<String> = ["<unk>".to_string()].into_iter().chain(bytes).chain(pieces).collect();
    let types = [2].into_iter().chain([6; 256]).chain([1; 5]).collect();
    let scores = [0.0; 257].into_iter().chain([-3.0, -4.0, -5.0, -1.0, -2.0]).collect();
    let mut meta = Metadata::new();
    meta.set("tokenizer.ggml.model", string("llama"));
    meta.set("tokenizer.ggml.tokens", strings(tokens));
    meta.set("tokenizer.ggml.token_type", Value::Array(Array::I32(types)));
    meta.set("tokenizer.ggml.scores", Value::Array(Array::F32(scores)));
    meta
}

pub(crate) fn strings<S: Into<String>>(all: impl IntoIterator<Item = S>) -> Value {
    Value::Array(Array::String(all.into_iter().map(Into::into).collect::<Vec<_>>().into()))
}

pub(crate) fn string(s: &str) -> Value {
    Value::String(s.into())
}

/// `meta` with one more value.
pub(crate) fn with(mut meta: Metadata, key: &str, value: Value) -> Metadata {
    meta.set(key, value);
    meta
}

/// `meta` without `key`.
pub(crate) fn without(meta: &Metadata, key: &str) -> Metadata {
    let mut rest = Metadata::new();
    for (k, v) in meta.iter().filter(|(k, _)| *k != key) {
        rest.set(k, v.clone());
    }
    rest
}

pub(crate) fn build(meta: &Metadata) -> Tokenizer {
    Tokenizer::from_metadata(meta).expect("sound metadata")
}

/// The ids of `text`, special tokens not recognised, nothing around it.
pub(crate) fn plain(tokenizer: &Tokenizer, text: &str) -> Vec<u32> {
    tokenizer.encode(text, EncodeOptions::default()).expect("short").ids
}
