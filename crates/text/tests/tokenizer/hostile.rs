//! Metadata that lies: every refusal names the key and, in arrays, the index.

use minfer_gguf::{Array, Metadata, Value};
use minfer_text::tokenizer::{EncodeOptions, StreamDecoder, Tokenizer, TokenizerError};

use crate::made_up::{build, byte_level, sentence_piece, string, strings, with, without};
use crate::support::shared;

fn refusal(meta: &Metadata) -> String {
    Tokenizer::from_metadata(meta).expect_err("has to be refused").to_string()
}

fn i32s(values: impl IntoIterator<Item = i32>) -> Value {
    Value::Array(Array::I32(values.into_iter().collect()))
}

fn f32s(values: impl IntoIterator<Item = f32>) -> Value {
    Value::Array(Array::F32(values.into_iter().collect()))
}

#[test]
fn every_refusal_says_where() {
    let (gpt2, llama) = (byte_level(), sentence_piece());
    let set = |meta: &Metadata, key: &str, value| with(meta.clone(), &format!("tokenizer.ggml.{key}"), value);
    let lacks = |meta: &Metadata, key: &str| without(meta, &format!("tokenizer.ggml.{key}"));
    let mut bad_byte: Vec<String> = (0..262).map(|i| format!("t{i}")).collect();
    bad_byte[1] = "<0xZZ>".into();
    let table = [
        (Metadata::new(), "metadata key 'tokenizer.ggml.model' is missing"),
        (
            set(&gpt2, "model", string("bert")),
            "unsupported tokenizer.ggml.model 'bert'; supported: gpt2, llama",
        ),
        (lacks(&gpt2, "tokens"), "metadata key 'tokenizer.ggml.tokens' is missing"),
        (
            set(&gpt2, "tokens", strings([] as [&str; 0])),
            "metadata key 'tokenizer.ggml.tokens' is an empty array",
        ),
        (
            set(&gpt2, "tokens", i32s([1])),
            "metadata key 'tokenizer.ggml.tokens' should be an array of strings, but it is array of 1 i32",
        ),
        (
            set(&gpt2, "token_type", i32s([1, 1])),
            "metadata key 'tokenizer.ggml.token_type' has 2 entries, but there are 265 tokens",
        ),
        (
            set(&gpt2, "token_type", i32s((0..265).map(|i| if i == 7 { 9 } else { 1 }))),
            "metadata key 'tokenizer.ggml.token_type' has 9 at index 7; types are 0 to 6",
        ),
        (lacks(&gpt2, "merges"), "metadata key 'tokenizer.ggml.merges' is missing"),
        (
            set(&gpt2, "merges", strings(["a b", "ab"])),
            "metadata key 'tokenizer.ggml.merges' has 'ab' at index 1; expected two pieces and a space",
        ),
        (
            set(&gpt2, "merges", strings(["a b", "b c"])),
            "metadata key 'tokenizer.ggml.merges' at index 1: 'b c' needs 'bc', which is no token",
        ),
        (
            set(&gpt2, "bos_token_id", Value::U32(u32::MAX)),
            "metadata key 'tokenizer.ggml.bos_token_id' is 4294967295, but there are only 265 tokens",
        ),
        (
            set(&gpt2, "eos_token_id", string("2")),
            "metadata key 'tokenizer.ggml.eos_token_id' should be an integer, but it is string",
        ),
        (
            set(&gpt2, "add_bos_token", Value::Bool(true)),
            "metadata key 'tokenizer.ggml.add_bos_token' is set, but 'tokenizer.ggml.bos_token_id' is missing",
        ),
        (lacks(&llama, "scores"), "metadata key 'tokenizer.ggml.scores' is missing"),
        (
            set(&llama, "scores", f32s([0.0; 3])),
            "metadata key 'tokenizer.ggml.scores' has 3 entries, but there are 262 tokens",
        ),
        (
            set(&llama, "scores", f32s((0..262).map(|i| if i == 5 { f32::NAN } else { 0.0 }))),
            "metadata key 'tokenizer.ggml.scores' has NaN at index 5",
        ),
        (
            set(&llama, "tokens", strings(bad_byte)),
            "token 1 has type 6 (byte), but its text '<0xZZ>' is not of the form <0xNN>",
        ),
    ];
    for (meta, expected) in &table {
        assert_eq!(refusal(meta), *expected);
    }
}

#[test]
fn an_unknown_pre_tokenizer_is_named_with_the_way_out() {
    let message = refusal(&with(byte_level(), "tokenizer.ggml.pre", string("zebra")));
    assert!(
        message.starts_with(
            "unknown pre-tokenizer 'zebra' in tokenizer.ggml.pre; state one with --override-kv "
        )
    );
    assert!(
        message.contains("tokenizer.ggml.pre=str:NAME") && message.contains("llama-bpe, llama-v3, llama3,")
    );
    let message = refusal(&without(&byte_level(), "tokenizer.ggml.pre"));
    assert!(
        message.starts_with("metadata key 'tokenizer.ggml.pre' is missing; state one with --override-kv ")
    );
}

#[test]
fn ids_beyond_the_vocabulary_are_refused() {
    let tokenizer = build(&byte_level());
    assert!(matches!(
        tokenizer.decode(&[97, 265], true),
        Err(TokenizerError::UnknownId { id: 265, n_vocab: 265 })
    ));
    assert_eq!(
        (tokenizer.token_bytes(265), tokenizer.token_text(u32::MAX), tokenizer.kind(265)),
        (None, None, None)
    );
    let mut decoder = StreamDecoder::new(&tokenizer, true);
    let mut out = String::new();
    assert!(decoder.push(&tokenizer, u32::MAX, &mut out).is_err());
    decoder.push(&tokenizer, 97, &mut out).expect("the decoder is still good");
    assert_eq!(out, "a");
}

/// Files of `fixtures/gguf-bad` whose fault is in the tokenizer, and whether it has to be refused.
const BAD_FILES: &[(&str, bool)] = &[
    ("missing-tokenizer-model", true),
    ("missing-tokens", true),
    ("missing-merges", true),
    ("tokens-of-numbers", true),
    ("tokens-empty", true),
    ("tokens-duplicate", false),
    ("tokens-empty-string", true),
    ("tokens-byte-missing", false),
    ("token-types-short", true),
    ("token-types-strings", true),
    ("token-types-odd", true),
    ("merges-unknown-token", true),
    ("eos-out-of-range", true),
    ("bos-max", true),
    ("eos-string", true),
    ("tokenizer-unknown", true),
    ("pre-unknown", true),
    ("spm-without-scores", true),
];

#[test]
fn bad_files_are_refused_or_usable() {
    let Some(folder) = shared("fixtures/gguf-bad") else { return };
    for &(name, is_refused) in BAD_FILES {
        let gguf = minfer_gguf::Gguf::open(&folder.join(format!("{name}.gguf"))).expect(name);
        let tokenizer = Tokenizer::from_metadata(gguf.metadata());
        assert_eq!(tokenizer.is_err(), is_refused, "{name}: {:?}", tokenizer.err());
        if let Ok(tokenizer) = tokenizer {
            let options = EncodeOptions { add_special: true, parse_special: true };
            let encoding = tokenizer.encode("Hello <|im_start|> wörld\0\u{10FFFF}", options).expect(name);
            tokenizer.decode(&encoding.ids, false).expect(name);
        }
    }
}
