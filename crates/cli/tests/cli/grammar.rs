//! Grammars and schemas, as llama.cpp's users give them.

use std::fs;

use crate::support::{TINY, json, minfer, stderr, stdout};

/// What a model with random weights says under a grammar.
fn answer(command: &str, args: &[&str]) -> String {
    let all = [command, TINY, "the cat", "-n", "100", "--temp", "2", "--seed", "3"];
    stdout(&minfer(all.iter().chain(args)).assert().success())
}

#[test]
fn an_answer_is_what_grammar_or_schema_describes() {
    let folder = tempfile::tempdir().unwrap();
    let file = |name: &str, text: &str| {
        let path = folder.path().join(name);
        fs::write(&path, text).unwrap();
        path.to_str().unwrap().to_owned()
    };
    let gbnf = "root ::= \"yes\" | \"no\"";
    let schema =
        r#"{"type": "object", "properties": {"n": {"type": "integer", "maximum": 9}}, "required": ["n"]}"#;
    let (gbnf_file, schema_file) = (file("g.gbnf", gbnf), file("s.json", schema));
    for args in [["--grammar", gbnf], ["--grammar-file", &gbnf_file]] {
        let text = answer("run", &args);
        assert!(["yes\n", "no\n"].contains(&text.as_str()), "{text:?}");
    }
    for args in [
        ["-j", schema],
        ["--json-schema", schema],
        ["-jf", &schema_file],
        ["--json-schema-file", &schema_file],
    ] {
        let value: serde_json::Value = serde_json::from_str(&answer("run", &args)).unwrap();
        assert!(value["n"].as_i64().unwrap() <= 9, "{value}");
    }
    let lark = answer("run", &["--raw", "--grammar", "%llguidance {}\nstart: /[xy]{3}/"]);
    assert!(lark.len() == 4 && lark.trim_end().chars().all(|c| "xy".contains(c)), "{lark:?}");
    let all = ["generate", TINY, "the cat", "--json", "--grammar", gbnf];
    let shown = json(&minfer(all).assert().success());
    assert!(["yes", "no"].contains(&shown["text"].as_str().unwrap()), "{shown}");
    assert_eq!(shown["finish_reason"], "complete");
}

#[test]
fn an_answer_that_a_limit_has_changed_says_so() {
    for (args, grammar, want, how) in [
        (["-n", "3"], "root ::= [xy]{5}", "warning: the answer is cut off by -n, and is not all", "cut"),
        (["-n", "3"], "root ::= [xy]{3,9}", "warning: the answer was closed early", "shortened"),
        (["-c", "16"], "root ::= [xy]{12,50}", "warning: the answer was closed early", "shortened"),
        (
            ["-c", "16"],
            "root ::= [xy]{50}",
            "warning: the context is full, so the answer is cut off, and",
            "cut",
        ),
        (["-n", "5"], "root ::= [xy]{5}", "", "whole"),
    ] {
        let all = ["the cat", "--temp", "2", "--seed", "3", "--grammar", grammar];
        let run =
            minfer(["run", TINY, "--raw", "--no-timings"].iter().chain(&all).chain(&args)).assert().success();
        assert!(
            stderr(&run).starts_with(want) && (want.is_empty() == stderr(&run).is_empty()),
            "{}",
            stderr(&run)
        );
        let shown = minfer(["generate", TINY, "--json"].iter().chain(&all).chain(&args)).assert().success();
        assert_eq!(json(&shown)["grammar"], how, "{grammar} {args:?}");
    }
}

#[test]
fn what_cannot_be_enforced_is_refused_before_anything_runs() {
    for (args, want) in [
        (
            ["--grammar", "root ::= ("],
            "the GBNF grammar is wrong at line 1, column 11: expected ')', found the end",
        ),
        (
            ["-j", r#"{"not": {}}"#],
            "the JSON schema cannot be enforced: 'not' at #: this keyword is not supported",
        ),
        (["-j", "{"], "is not valid JSON"),
    ] {
        let all = ["run", TINY, "the cat"].iter().chain(&args);
        let refused = minfer(all).assert().failure().code(4);
        assert!(stderr(&refused).contains(want), "{}", stderr(&refused));
    }
    let both = ["run", TINY, "x", "--grammar", "root ::= \"a\"", "-j", "{}"];
    assert!(stderr(&minfer(both).assert().failure().code(2)).contains("cannot be used with"));
}
