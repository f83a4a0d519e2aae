//! `minfer models`, `minfer completions` and the help.

use std::fs;

use serde_json::json;

use crate::support::{TINY, json, minfer, stdout};

#[test]
fn short_names_and_cached_files_are_listed() {
    let folder = tempfile::tempdir().unwrap();
    fs::copy(TINY, folder.path().join("mine.gguf")).unwrap();
    let models = |args: &[&str]| minfer(args).env("MINFER_MODELS", folder.path()).assert().success();
    let listing = json(&models(&["models", "--json"]));
    assert_eq!(listing["folder"], json!(folder.path()));
    let row =
        |name: &str| listing["models"].as_array().unwrap().iter().find(|row| row["name"] == name).cloned();
    assert_eq!(row("smollm2-135m").unwrap()["default"], json!(true));
    assert_eq!(row("smollm2-135m").unwrap()["path"], json!(null));
    assert_eq!(row("mine.gguf").unwrap()["bytes"], json!(24864));
    let text = stdout(&models(&["models"]));
    assert!(text.contains("\nmine.gguf"), "{text}");
    // What is listed can be named.
    models(&["info", "mine.gguf"]);
    models(&["info", "mine"]);
}

#[test]
fn no_folder_is_an_empty_folder() {
    let listing = json(&minfer(["models", "--json"]).assert().success());
    assert!(listing["models"].as_array().unwrap().iter().all(|row| row["path"].is_null()), "{listing:#}");
}

#[test]
fn completions_know_the_commands() {
    for shell in ["bash", "zsh", "fish"] {
        let script = stdout(&minfer(["completions", shell]).assert().success());
        assert!(script.contains("detokenize") && script.contains("override-kv"), "{shell}");
    }
}

#[test]
fn help_lists_exit_codes_and_variables() {
    let help = stdout(&minfer(["--help"]).assert().success());
    for part in ["Exit codes:", "\n  130  stopped", "MINFER_MODELS=DIR", "MINFER_ISA=NAME"] {
        assert!(help.contains(part), "{part:?} is not in\n{help}");
    }
    let long = stdout(&minfer(["help", "tokenize"]).assert().success());
    assert!(long.contains("Examples:"), "{long}");
    assert_eq!(stdout(&minfer(["tokenize", "--help"]).assert().success()), long);
    let version = stdout(&minfer(["--version"]).assert().success());
    assert_eq!(version, concat!("minfer ", env!("CARGO_PKG_VERSION"), "\n"));
}
