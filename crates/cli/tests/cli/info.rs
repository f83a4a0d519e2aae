//! `minfer info`.

use serde_json::json;

use crate::support::{TINY, json, minfer, stdout};

#[test]
fn json_tells_everything() {
    let facts = json(&minfer(["info", TINY, "--json"]).assert().success());
    for (pointer, want) in [
        ("/files/0/path", json!(TINY)),
        ("/files/0/bytes", json!(24864)),
        ("/gguf_version", json!(3)),
        ("/alignment", json!(32)),
        ("/architecture", json!("qwen2")),
        ("/name", json!("tiny")),
        ("/problem", json!(null)),
        ("/parameters", json!(17824)),
        ("/tensor_bytes", json!(19408)),
        ("/types/0", json!({"type": "Q8_0", "tensors": 8, "parameters": 17664, "bytes": 18768})),
        ("/tokenizer/model", json!("gpt2")),
        ("/tokenizer/pre", json!("qwen2")),
        ("/tokenizer/problem", json!(null)),
        ("/tokenizer/tokens", json!(264)),
        ("/tokenizer/add_bos", json!(false)),
        ("/chat_template/present", json!(true)),
        ("/chat_template/bytes", json!(100)),
        ("/metadata/qwen2.attention.layer_norm_rms_epsilon", json!(1e-6)),
        ("/metadata/tokenizer.ggml.tokens/count", json!(264)),
        ("/metadata/tokenizer.ggml.tokens/first/7", json!("ć")),
        ("/tensors/0/name", json!("token_embd.weight")),
        ("/tensors/0/shape", json!([32, 264])),
    ] {
        assert_eq!(facts.pointer(pointer), Some(&want), "{pointer}");
    }
    assert_eq!(facts["tensors"].as_array().map(Vec::len), Some(14));
}

#[test]
fn full_json_has_whole_arrays() {
    let facts = json(&minfer(["info", TINY, "--json", "--full"]).assert().success());
    assert_eq!(facts["metadata"]["tokenizer.ggml.tokens"].as_array().map(Vec::len), Some(264));
}

#[test]
fn text_is_a_summary_with_the_tensors_on_demand() {
    let short = stdout(&minfer(["info", TINY]).assert().success());
    for part in ["architecture  qwen2\n", "17824 (17.8 k) in 14 tensors", "  Q8_0        8", "[\"Ā\", \"ā\","]
    {
        assert!(short.contains(part), "{part:?} is not in\n{short}");
    }
    assert!(!short.contains("blk.0.attn_q.weight"));
    let long = stdout(&minfer(["info", TINY, "--tensors"]).assert().success());
    assert!(long.starts_with(&short));
    assert!(long.contains("\n  blk.0.attn_q.weight"), "{long}");
}

#[test]
fn stated_metadata_counts() {
    let facts =
        json(&minfer(["info", TINY, "--json", "--override-kv", "general.name=str:Ann"]).assert().success());
    assert_eq!(facts["name"], json!("Ann"));
}

#[test]
fn reading_into_memory_gives_the_same() {
    let mapped = stdout(&minfer(["info", TINY, "--tensors"]).assert().success());
    assert_eq!(stdout(&minfer(["info", TINY, "--tensors", "--no-mmap"]).assert().success()), mapped);
}

#[test]
fn what_cannot_be_used_is_told_with_the_reason() {
    let stated =
        ["--override-kv", "tokenizer.ggml.pre=str:xyz", "--override-kv", "tokenizer.chat_template=str:{{"];
    let facts = json(&minfer(["info", TINY, "--json"].iter().chain(&stated)).assert().success());
    let problem = |pointer| facts.pointer(pointer).and_then(|it| it.as_str()).unwrap_or_default().to_owned();
    let other = ["info", TINY, "--json", "--override-kv", "general.architecture=str:xyz"];
    let other = json(&minfer(other).assert().success());
    assert!(
        other["problem"].as_str().is_some_and(|it| it.contains("unsupported architecture 'xyz'")),
        "{other:#}"
    );
    assert!(problem("/tokenizer/problem").contains("'xyz'"), "{facts:#}");
    assert!(problem("/chat_template/problem").contains("line 1"), "{facts:#}");
}
