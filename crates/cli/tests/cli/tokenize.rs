//! `minfer tokenize` and `minfer detokenize`.

use std::fs;

use serde_json::{Value, json};

use crate::support::{TINY, json, minfer, shared, stderr, stdout};

#[test]
fn a_text_may_come_from_anywhere() {
    let folder = tempfile::tempdir().unwrap();
    let file = folder.path().join("text");
    fs::write(&file, "the cat").unwrap();
    let file = file.to_str().unwrap();
    let want = stdout(&minfer(["tokenize", TINY, "--ids", "the cat"]).assert().success());
    assert!(want.starts_with('[') && want.ends_with("]\n"), "{want}");
    for args in [
        &["tokenize", "-m", TINY, "--ids", "the cat"][..],
        &["tokenize", "--model", TINY, "--ids", "-p", "the cat"],
        &["tokenize", TINY, "--ids", "-f", file],
        &["tokenize", TINY, "--ids", "--file", "-"],
        &["tokenize", TINY, "--ids"],
    ] {
        let assert = minfer(args).write_stdin("the cat").assert().success();
        assert_eq!((stdout(&assert), stderr(&assert)), (want.clone(), String::new()), "{args:?}");
    }
}

#[test]
fn a_text_may_begin_with_a_dash() {
    let want = stdout(&minfer(["tokenize", TINY, "--", "-x"]).assert().success());
    assert_eq!(stdout(&minfer(["tokenize", TINY, "-p", "-x"]).assert().success()), want);
    assert!(want.contains("\"-\""), "{want}");
}

#[test]
fn each_token_is_shown_with_its_bytes() {
    let assert = minfer(["tokenize", TINY, "a\n\u{e9}"]).assert().success();
    let shown: Vec<_> =
        stdout(&assert).lines().map(|line| line.trim_start().split_once(' ').unwrap().1.to_owned()).collect();
    assert_eq!(shown, [r#""a""#, r#""\n""#, r#""\xc3""#, r#""\xa9""#]);
    let tokens = json(&minfer(["tokenize", TINY, "--json", "a\u{e9}"]).assert().success());
    assert_eq!(tokens[0]["text"], json!("a"));
    assert_eq!(tokens[0].get("bytes"), None);
    assert_eq!(tokens[1]["bytes"], json!([0xc3]));
}

#[test]
fn control_tokens_are_read_and_begin_and_end_added_unless_told_otherwise() {
    let add_bos = ["--override-kv", "tokenizer.ggml.add_bos_token=bool:true"];
    let ids = |args: &[&str]| -> Value {
        let all = ["tokenize", TINY, "--ids", "-p", "<|im_end|>"].iter().chain(&add_bos).chain(args);
        json(&minfer(all).assert().success())
    };
    assert_eq!(ids(&[]), json!([261, 263]));
    assert_eq!(ids(&["--no-special"]), json!([263]));
    assert_eq!(ids(&["--no-bos"]), json!([263]));
    assert!(ids(&["--no-special", "--no-parse-special"]).as_array().unwrap().len() > 5);
}

#[test]
fn what_was_tokenized_comes_back_byte_for_byte() {
    let text = "Hello,\n  w\u{f6}rld \u{1f980}\t<|im_end|>\n\n";
    let ids = stdout(&minfer(["tokenize", TINY, "--ids"]).write_stdin(text).assert().success());
    let piped = minfer(["detokenize", TINY]).write_stdin(ids.clone()).assert().success();
    assert_eq!(stdout(&piped), text);
    assert_eq!(stdout(&minfer(["detokenize", TINY, &ids]).assert().success()), text);
    let words: Vec<_> = ids.split(|c: char| !c.is_ascii_digit()).filter(|word| !word.is_empty()).collect();
    let spread = ["detokenize", "-m", TINY].iter().chain(&words);
    assert_eq!(stdout(&minfer(spread).assert().success()), text);
    let hidden = minfer(["detokenize", TINY, "--no-special", &ids]).assert().success();
    assert_eq!(stdout(&hidden), text.replace("<|im_end|>", ""));
}

#[test]
fn nothing_is_a_text_too() {
    assert_eq!(stdout(&minfer(["tokenize", TINY, "--ids", ""]).assert().success()), "[]\n");
    assert_eq!(stdout(&minfer(["detokenize", TINY]).write_stdin("[]").assert().success()), "");
}

#[test]
fn bytes_without_a_token_are_warned_about() {
    let Some(folder) = shared("fixtures/gguf-bad") else { return };
    let model = folder.join("tokens-byte-missing.gguf");
    let every_ascii: String = (0..128).map(char::from).collect();
    let mut args = vec!["tokenize".to_owned(), model.display().to_string(), "--ids".to_owned()];
    args.extend(["-p".to_owned(), every_ascii.replace('\0', "")]);
    let assert = minfer(args).assert().success();
    let warning = stderr(&assert);
    assert!(warning.starts_with("warning: 1 byte of the text has no token in this model"), "{warning}");
    assert_eq!(warning.lines().count(), 1);
}

#[test]
fn the_binary_gives_the_ids_of_the_fixtures() {
    let Some(folder) = shared("fixtures/tiny") else { return };
    let mut n_texts = 0;
    for name in ["llama-spm-f32", "llama-q4_1"] {
        let model = folder.join(format!("{name}.gguf"));
        let fixture = fs::read(folder.join(format!("{name}.json"))).unwrap();
        let fixture: Value = serde_json::from_slice(&fixture).unwrap();
        for case in fixture["texts"].as_array().unwrap() {
            let args = ["tokenize", model.to_str().unwrap(), "--ids", "--no-special"];
            let text = case["text"].as_str().unwrap().to_owned();
            let ids = json(&minfer(args).write_stdin(text).assert().success());
            assert_eq!(ids, case["ids"], "{name} {}", case["text"]);
            n_texts += 1;
        }
    }
    assert!(n_texts > 10, "only {n_texts} texts");
}
