//! Every case of `fixtures/tokenizer`: ids with special tokens recognised and not, decoded text, prefix, raw bytes.
//!
//! [`Unlike`] lists where a file has to give something else than the fixture, which was made from `tokenizer.json`.

use minfer_text::tokenizer::{EncodeOptions, StreamDecoder, TokenKind, Tokenizer};
use serde_json::Value;

use crate::support::{ids, json, load, model, shared, vocab};

/// Where a GGUF file knows better than the fixture.
#[derive(Default)]
struct Unlike {
    /// Texts with tokens that are control tokens in the file, and user-defined ones in `tokenizer.json`.
    plain: &'static [&'static str],
    /// What goes before a text.
    prefix: Option<&'static [u32]>,
    /// Tokens whose bytes the fixture gives as spelled, while its decoded texts have spaces.
    spelled_bytes: bool,
}

/// Compares everything that the fixture `name` has to say about `tokenizer`; panics with all differences.
fn check(name: &str, tokenizer: &Tokenizer, unlike: &Unlike) {
    let Some(path) = shared(&format!("fixtures/tokenizer/{name}.json")) else { return };
    let fixture = json(&path);
    let cases = fixture["cases"].as_array().expect("cases");
    let mut faults: Vec<String> = cases.iter().flat_map(|case| check_case(tokenizer, case, unlike)).collect();
    for (id, hex) in fixture["bytes"].as_object().expect("bytes") {
        let id = id.parse().expect("an id");
        let is_user_defined = tokenizer.kind(id) == Some(TokenKind::UserDefined);
        let bytes = match unlike.spelled_bytes && is_user_defined {
            true => tokenizer.token_text(id).unwrap_or_default().as_bytes(),
            false => tokenizer.token_bytes(id).unwrap_or_default(),
        };
        let ours: String = bytes.iter().map(|b| format!("{b:02x}")).collect();
        if Some(&*ours) != hex.as_str() {
            faults.push(format!("bytes of {id}: {ours}, expected {hex}"));
        }
    }
    let prefix = EncodeOptions { add_special: true, parse_special: true };
    let ours = tokenizer.encode("", prefix).expect("short").ids;
    if ours != unlike.prefix.map_or_else(|| ids(&fixture["prefix_ids"]), Into::into) {
        faults.push(format!("prefix {ours:?}, expected {}", fixture["prefix_ids"]));
    }
    assert!(cases.len() > 300, "{name}: only {} cases", cases.len());
    assert!(faults.is_empty(), "{name}: {} differences\n{}", faults.len(), faults.join("\n"));
}

fn check_case(tokenizer: &Tokenizer, case: &Value, unlike: &Unlike) -> Vec<String> {
    let text = case["text"].as_str().expect("text");
    let expected = ids(&case["ids"]);
    let plain = case.get("plain").map_or_else(|| expected.clone(), ids);
    let decoded = case.get("decoded").map_or(text, |d| d.as_str().expect("a string"));
    let mut faults = Vec::new();
    let mut compare = |what: &str, ours: String, theirs: String| {
        if ours != theirs {
            faults.push(format!("{text:?} {what}: {ours}, expected {theirs}"));
        }
    };
    let encode = |parse_special| {
        tokenizer.encode(text, EncodeOptions { add_special: false, parse_special }).expect("short").ids
    };
    compare("ids", format!("{:?}", encode(true)), format!("{expected:?}"));
    if !unlike.plain.contains(&text) {
        compare("plain", format!("{:?}", encode(false)), format!("{plain:?}"));
    }
    compare(
        "decoded",
        format!("{:?}", tokenizer.decode(&expected, true)),
        format!("{:?}", Ok::<_, ()>(decoded)),
    );
    compare("streamed", stream(tokenizer, &expected), decoded.to_string());
    faults
}

fn stream(tokenizer: &Tokenizer, ids: &[u32]) -> String {
    let mut decoder = StreamDecoder::new(tokenizer, true);
    let mut out = String::new();
    for &id in ids {
        decoder.push(tokenizer, id, &mut out).expect("a known id");
    }
    decoder.finish(&mut out);
    out
}

fn check_vocab(name: &str, unlike: &Unlike) {
    if let Some(path) = vocab(name) {
        check(name, &load(&path), unlike);
    }
}

macro_rules! vocabularies {
    ($($test:ident: $name:literal,)*) => {
        $(#[test] fn $test() { check_vocab($name, &Unlike::default()); })*
    };
}

vocabularies! {
    qwen2_5: "qwen2.5",
    qwen3: "qwen3",
    smollm2: "smollm2",
    llama3_1: "llama3.1",
    mistral_v1: "mistral-v1",
    mistral_nemo: "mistral-nemo",
    gpt_oss: "gpt-oss",
}

#[test]
fn deepseek_v3() {
    // Its tokenizer_config.json, and so the GGUF file, asks for bos; its tokenizer.json doesn't.
    check_vocab("deepseek-v3", &Unlike { prefix: Some(&[0]), ..Unlike::default() });
}

#[test]
fn gemma3() {
    check_vocab("gemma3", &Unlike { spelled_bytes: true, ..Unlike::default() });
}

#[test]
fn the_real_smollm2_file() {
    if let Some(path) = model("smollm2-135m-instruct-q4_1.gguf") {
        check("smollm2", &load(&path), &Unlike::default());
    }
}

#[test]
fn the_real_qwen_file() {
    if let Some(path) = model("qwen2.5-coder-0.5b-instruct-q4_k_m.gguf") {
        let plain = &[
            "<|fim_prefix|>def f(<|fim_suffix|>):<|fim_middle|>",
            "<|repo_name|>x/y<|file_sep|>main.rs\nfn main() {}",
        ];
        check("qwen2.5", &load(&path), &Unlike { plain, ..Unlike::default() });
    }
}
