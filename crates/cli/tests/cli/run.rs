//! `minfer run`.

use std::fs;

use crate::support::{TINY, minfer, stderr, stdout};

/// What every test needs to get the same answer twice.
const FIXED: [&str; 4] = ["--greedy", "-n", "6", "--ignore-eos"];

fn answer(args: &[&str], stdin: &str) -> String {
    let all = ["run"].iter().chain(args).chain(&FIXED);
    stdout(&minfer(all).write_stdin(stdin).assert().success())
}

#[test]
fn a_prompt_may_come_from_anywhere() {
    let folder = tempfile::tempdir().unwrap();
    let file = folder.path().join("prompt");
    fs::write(&file, "the cat\n").unwrap();
    let want = answer(&[TINY, "the cat"], "");
    assert!(want.ends_with('\n') && want.len() > 1, "{want:?}");
    for (args, stdin) in [
        (&[TINY, "-p", "the cat"][..], ""),
        (&["-m", TINY, "the cat"], ""),
        (&[TINY], "the cat"),
        (&[TINY], "the cat\r\n"),
        (&[TINY, "-f", "-"], "the cat\n"),
        (&[TINY, "-f", file.to_str().unwrap()], ""),
    ] {
        assert_eq!(answer(args, stdin), want, "{args:?}");
    }
}

#[test]
fn the_template_is_used_unless_told_otherwise() {
    let raw = answer(&[TINY, "--no-template", "the cat"], "");
    assert_eq!(answer(&[TINY, "--raw", "the cat"], ""), raw);
    assert_eq!(answer(&[TINY, "-no-cnv", "-p", "the cat"], ""), raw);
    assert_ne!(answer(&[TINY, "the cat"], ""), raw);
    // The template of the file, written out by hand.
    let rendered = "<|im_start|>user\nthe cat<|im_end|>\n";
    assert_eq!(answer(&[TINY, "--raw", "-p", rendered], ""), answer(&[TINY, "the cat"], ""));
}

#[test]
fn a_system_message_and_template_arguments_reach_the_template() {
    let folder = tempfile::tempdir().unwrap();
    let template = folder.path().join("t.jinja");
    fs::write(&template, "{{ mood }}{% for m in messages %}{{ m.role[0] }}{{ m.content }}{% endfor %}")
        .unwrap();
    let template = ["--template-file", template.to_str().unwrap(), "--arg", "mood=x"];
    let chat = [&[TINY, "hi", "-sys", "be"][..], &template].concat();
    assert_eq!(answer(&chat, ""), answer(&[TINY, "--raw", "-p", "xsbeuhi"], ""));
}

#[test]
fn flags_decide_what_is_generated() {
    let tokens = |args: &[&str]| {
        let all = ["generate", TINY, "--tokens", "1,2,3", "--json"].iter().chain(args);
        crate::support::json(&minfer(all).assert().success())["generated"].clone()
    };
    let greedy = tokens(&FIXED);
    assert_eq!(greedy.as_array().unwrap().len(), 6);
    for same in [&["--temp", "0"][..], &["--top-k", "1"], &["-t", "1", "-ub", "1"], &["-c", "0"]] {
        assert_eq!(tokens(&[same, &["-n", "6", "--ignore-eos", "--temp", "0"]].concat()), greedy, "{same:?}");
    }
    let drawn = |seed| {
        tokens(&[
            "-s",
            seed,
            "-n",
            "20",
            "--temp",
            "5",
            "--top-k",
            "0",
            "--top-p",
            "1",
            "--min-p",
            "0",
            "--ignore-eos",
        ])
    };
    assert_eq!(drawn("7"), drawn("7"));
    assert_ne!(drawn("7"), drawn("8"));
}

#[test]
fn timings_go_to_standard_error() {
    let assert = minfer(["run", TINY, "hi", "--timings"].iter().chain(&FIXED)).assert().success();
    assert!(stderr(&assert).starts_with("prompt: "), "{}", stderr(&assert));
    assert_eq!(stdout(&assert), answer(&[TINY, "hi"], ""));
}

#[test]
fn an_answer_that_fills_the_context_is_cut_off_with_a_warning() {
    let args = ["generate", TINY, "--tokens", "1,2,3", "-c", "8", "--greedy", "--ignore-eos", "--json"];
    let assert = minfer(args).assert().success();
    assert_eq!(crate::support::json(&assert)["finish_reason"], "context_full");
    assert!(stderr(&assert).starts_with("warning: the context is full"), "{}", stderr(&assert));
}

#[test]
fn the_graph_can_be_looked_at() {
    let folder = tempfile::tempdir().unwrap();
    let path = |name: &str| folder.path().join(name).to_str().unwrap().to_owned();
    let dumps = ["--dump-graph", &path("g.dot"), "--dump-graph-json", &path("g.json")];
    let mut command = minfer(["run", TINY, "hi"].iter().chain(&dumps).chain(&FIXED));
    let trace = path("trace.npz");
    let variables = [("MINFER_GRAPH_TRACE", "1"), ("MINFER_OP_PROFILE", "1"), ("MINFER_TRACE", &trace)];
    let assert = command.envs(variables).assert().success();
    let told = stderr(&assert);
    for part in ["split 0 backend CPU", "op SwiGLU backend CPU x1", "op FusedQKV backend CPU x1", "us/run"] {
        assert!(told.contains(part), "{part:?} is not in\n{told}");
    }
    assert!(fs::read_to_string(path("g.dot")).unwrap().starts_with("digraph"));
    let graph: serde_json::Value = serde_json::from_slice(&fs::read(path("g.json")).unwrap()).unwrap();
    assert!(graph["nodes"].as_array().is_some_and(|nodes| nodes.len() > 10), "{graph}");
    assert!(fs::read(&trace).unwrap().starts_with(b"PK"));
    // Reports change nothing.
    assert_eq!(stdout(&assert), answer(&[TINY, "hi"], ""));
}

#[test]
fn fusion_can_be_switched_off_without_a_change() {
    let switches = [("MINFER_NO_FUSE_QKV", "1"), ("MINFER_NO_FUSE_FFN", "1"), ("MINFER_ISA", "scalar")];
    let assert = minfer(["run", TINY, "hi"].iter().chain(&FIXED)).envs(switches).assert().success();
    assert_eq!(stdout(&assert), answer(&[TINY, "hi"], ""));
}
