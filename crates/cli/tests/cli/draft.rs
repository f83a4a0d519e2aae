//! A draft model: the same answers, by whatever command.

use std::fs;
use std::path::Path;

use serde_json::{Value, json};

use crate::support::*;

/// A model of another vocabulary.
fn other() -> String {
    let data = Path::new(env!("CARGO_MANIFEST_DIR")).join("../../tests/data");
    data.join("llama-q4_1.gguf").to_str().unwrap().to_owned()
}

#[test]
fn greedy_and_seeded_answers_are_the_same_tokens() {
    for sampling in [&["--temp", "0"][..], &["--seed", "7", "--temp", "0.9"]] {
        let answer = |more: &[&str]| {
            let args = ["generate", TINY, "-p", "abcabcabc", "-n", "60", "--ignore-eos", "--json"];
            let done = minfer(args.iter().chain(sampling).chain(more)).assert().success();
            json(&done)["generated"].clone()
        };
        let plain = answer(&[]);
        assert_eq!(plain.as_array().unwrap().len(), 60);
        for more in [
            &["-md", TINY][..],
            &["--model-draft", TINY, "--draft-max", "5", "--draft-min", "2"],
            &["-md", TINY, "--draft", "1", "-ctk", "f16"],
            &["-md", TINY, "--draft-n", "0"],
            &["--prompt-lookup", "8"],
        ] {
            assert_eq!(answer(more), plain, "{sampling:?} {more:?}");
        }
    }
}

#[test]
fn a_run_tells_how_many_guesses_were_right() {
    let args = ["run", TINY, "--no-template", "-p", "abc", "-n", "40", "--temp", "0", "--ignore-eos"];
    let plain = minfer(args).assert().success();
    assert!(!stderr(&plain).contains("guesses"), "{}", stderr(&plain));
    let guessed = minfer(args.iter().chain(&["-md", TINY])).assert().success();
    assert_eq!(stdout(&guessed), stdout(&plain));
    let told = stderr(&guessed);
    let (right, all) =
        told.split_once(" guesses right").and_then(|(head, _)| head.rsplit_once(" of ")).unwrap();
    let right = right.rsplit_once(' ').unwrap().1;
    assert_eq!(right, all, "a model guesses itself: {told}");
}

#[test]
fn a_batch_and_a_server_guess_for_all_their_requests() {
    let folder = tempfile::tempdir().unwrap();
    let requests: String = (0..6)
        .map(|i| {
            let body = json!({ "prompt": format!("abc{i}"), "max_tokens": 30, "temperature": 0 });
            let line = json!({ "custom_id": format!("{i}"), "method": "POST", "url": "/v1/completions", "body": body });
            format!("{line}\n")
        })
        .collect();
    let input = folder.path().join("in.jsonl");
    fs::write(&input, requests).unwrap();
    let texts = |name: &str, more: &[&str]| {
        let output = folder.path().join(name);
        let args = ["batch", input.to_str().unwrap(), output.to_str().unwrap(), "-m", TINY];
        minfer(args.iter().chain(more)).assert().success();
        let lines = fs::read_to_string(&output).unwrap();
        let lines = lines.lines().map(|line| serde_json::from_str::<Value>(line).unwrap());
        let text =
            |a: Value| (a["custom_id"].to_string(), a["response"]["body"]["choices"][0]["text"].clone());
        let mut texts: Vec<_> = lines.map(text).collect();
        texts.sort_by(|a, b| a.0.cmp(&b.0));
        texts
    };
    let plain = texts("plain", &[]);
    assert_eq!(plain.len(), 6);
    for (name, more) in
        [("draft", &["-md", TINY, "-np", "2"][..]), ("lookup", &["--prompt-lookup", "6", "-np", "3"])]
    {
        assert_eq!(texts(name, more), plain, "{name}");
    }
}

#[test]
fn what_cannot_guess_for_the_model_is_refused() {
    let other = other();
    let args = ["generate", TINY, "-p", "abc", "-n", "4", "--temp", "0"];
    let refused = minfer(args.iter().chain(&["-md", &other])).assert().code(3);
    let told = stderr(&refused);
    assert!(
        told.contains("the draft model has 423 tokens, the model 264") && told.contains("must be the same"),
        "{told}"
    );
    let missing = minfer(args.iter().chain(&["-md", "/nonexistent/m.gguf"])).assert().code(3);
    assert!(stderr(&missing).contains("no such file: /nonexistent/m.gguf"), "{}", stderr(&missing));
    for wrong in [
        &["-md", TINY, "--draft-min", "9", "--draft-max", "8"][..],
        &["-md", TINY, "--prompt-lookup", "3"],
        &["--draft-max", "3"],
        &["-md", TINY, "--draft", "65"],
    ] {
        minfer(args.iter().chain(wrong)).assert().code(2);
    }
}

#[test]
fn the_plan_includes_it() {
    let plan = |more: &[&str]| json(&minfer(["plan", TINY, "--json"].iter().chain(more)).assert().success());
    let (plain, with) = (plan(&[]), plan(&["-md", TINY]));
    let bytes = |plan: &Value, part: &str| plan[part].as_u64().unwrap();
    assert_eq!(bytes(&plain, "draft"), 0);
    let draft = bytes(&with, "draft");
    assert!(draft > bytes(&plain, "weights") + bytes(&plain, "kv"), "{with}");
    assert!(bytes(&with, "missing") >= bytes(&plain, "missing") + draft);
    let table = stdout(&minfer(["plan", TINY, "-md", TINY]).assert().success());
    assert!(table.contains("\ndraft model "), "{table}");
    // What there is room for alone is refused beside a draft model, before anything is loaded.
    let limit = (bytes(&plain, "total") + draft / 2).to_string();
    let args = ["generate", TINY, "-p", "abc", "-n", "1", "--memory", &limit];
    minfer(args).assert().success();
    let refused = minfer(args.iter().chain(&["-md", TINY])).assert().code(5);
    assert!(stderr(&refused).contains("draft model"), "{}", stderr(&refused));
}
