//! Markers that a vocabulary has as control tokens.

use minfer_gguf::{Array, Metadata, Strings, Value};
use minfer_text::reply::ReplyFormat;
use minfer_text::tokenizer::{StreamDecoder, Tokenizer};

fn tokenizer() -> Tokenizer {
    let texts = ["a", "[TOOL_CALLS]", "[ARGS]", "</s>", "<s>"];
    let mut meta = Metadata::new();
    meta.set("tokenizer.ggml.model", Value::String("gpt2".into()));
    meta.set("tokenizer.ggml.pre", Value::String("gpt-2".into()));
    meta.set("tokenizer.ggml.tokens", Value::Array(Array::String(texts.into_iter().collect())));
    meta.set("tokenizer.ggml.token_type", Value::Array(Array::I32(vec![1, 3, 3, 3, 3])));
    meta.set("tokenizer.ggml.merges", Value::Array(Array::String(Strings::default())));
    meta.set("tokenizer.ggml.eos_token_id", Value::U32(3));
    Tokenizer::from_metadata(&meta).unwrap()
}

#[test]
fn markers_are_shown_and_other_control_tokens_are_not() {
    let tokenizer = tokenizer();
    let format = ReplyFormat { reasoning: None, tools: ReplyFormat::tool_format("mistral") };
    let shown = format.shown_tokens(&tokenizer);
    assert_eq!(shown, [1, 2]);
    let mut decoder = StreamDecoder::continuing(false).showing(&shown);
    let mut text = String::new();
    for id in [4, 1, 0, 2, 3] {
        decoder.push(&tokenizer, id, &mut text).unwrap();
    }
    assert_eq!(text, "[TOOL_CALLS]a[ARGS]");
}
