//! `minfer run`.

use std::fs;

use crate::support::{TINY, minfer, real, stderr, stdout};

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
fn timings_go_to_standard_error_unless_unwanted() {
    let assert = minfer(["run", TINY, "hi"].iter().chain(&FIXED)).assert().success();
    let told = stderr(&assert);
    assert!(
        told.starts_with("prompt: ")
            && told.contains("; answer: 6 tokens, ")
            && told.ends_with(", ended by -n\n"),
        "{told}"
    );
    for flag in ["--no-timings", "--no-perf"] {
        let silent = minfer(["run", TINY, "hi", flag].iter().chain(&FIXED)).assert().success();
        assert_eq!((stdout(&silent), stderr(&silent)), (stdout(&assert), String::new()));
    }
}

#[test]
fn the_tokens_of_the_prompt_can_be_seen() {
    let args = ["run", TINY, "hi", "--verbose-prompt", "--no-timings"];
    let assert = minfer(args.iter().chain(&FIXED)).assert().success();
    let told: Vec<_> = stderr(&assert).lines().map(|line| line.trim_start().to_owned()).collect();
    assert_eq!((told[0].as_str(), told[8].as_str()), ("262 \"<|im_start|>\"", "10 \"\\n\""), "{told:?}");
    assert_eq!(stdout(&assert), answer(&[TINY, "hi"], ""));
}

#[test]
fn a_stop_text_ends_the_answer_and_is_not_shown() {
    let whole = answer(&[TINY, "hi"], "");
    let (at, stop) = whole.trim_end().char_indices().nth(2).unwrap();
    let args = ["run", TINY, "hi", "-r", &stop.to_string()];
    let assert = minfer(args.iter().chain(&FIXED)).assert().success();
    let first = whole.find(stop).unwrap().min(at);
    assert_eq!(stdout(&assert).trim_end_matches('\n'), whole[..first].trim_end_matches('\n'));
    assert!(stderr(&assert).contains("ended by a stop text"), "{}", stderr(&assert));
}

#[test]
fn what_is_odd_about_the_context_is_warned_about() {
    let warning = |args: &[&str]| {
        let all = ["run", TINY, "hi", "--no-timings"].iter().chain(args).chain(&FIXED);
        stderr(&minfer(all).assert().success())
    };
    assert_eq!(warning(&["-c", "128", "-t", "1", "-tb", "2"]), "");
    let longer = warning(&["-c", "129"]);
    assert!(longer.contains("longer than the 128 tokens that the model was trained for"), "{longer}");
}

#[test]
fn a_model_without_a_template_wants_to_be_told_what_to_do() {
    let folder = tempfile::tempdir().unwrap();
    let model = folder.path().join("m.gguf");
    let (key, other) =
        (b"tokenizer.chat_template", b"tokenizer.chat_template".map(|b| b ^ u8::from(b == b'p')));
    let mut bytes = fs::read(TINY).unwrap();
    let at = bytes.windows(key.len()).position(|window| window == key).unwrap();
    bytes[at..at + key.len()].copy_from_slice(&other);
    fs::write(&model, bytes).unwrap();
    let model = model.to_str().unwrap();
    let told = stderr(&minfer(["run", model, "hi"]).assert().code(3));
    assert!(told.contains("no chat template") && told.contains("--no-template"), "{told}");
    assert_eq!(answer(&[model, "hi", "--no-template"], ""), answer(&[TINY, "hi", "--no-template"], ""));
}

#[test]
fn a_graph_is_drawn_without_a_prompt_or_a_weight() {
    let folder = tempfile::tempdir().unwrap();
    let path = folder.path().join("g.json");
    let nodes = |args: &[&str]| {
        let all = ["run", TINY, "-n", "0", "--dump-graph-json", path.to_str().unwrap()];
        let assert = minfer(all.iter().chain(args)).write_stdin("").assert().success();
        assert_eq!((stdout(&assert), stderr(&assert)), (String::new(), String::new()));
        let graph: serde_json::Value = serde_json::from_slice(&fs::read(&path).unwrap()).unwrap();
        (graph["params"]["type"].clone(), graph["params"]["n_tokens"].clone())
    };
    assert_eq!(nodes(&[]), ("decode".into(), 1.into()));
    assert_eq!(nodes(&["--dump-graph-step", "prefill", "-ub", "64"]), ("prefill".into(), 64.into()));
    assert_eq!(nodes(&["--dump-graph-step", "prefill"]), ("prefill".into(), 128.into()));
    let nowhere = ["run", TINY, "-n", "0", "--dump-graph", "/nonexistent/g.dot"];
    assert!(stderr(&minfer(nowhere).assert().code(5)).starts_with("error: cannot write /nonexistent/g.dot"));
}

#[test]
fn chosen_nodes_are_traced() {
    let folder = tempfile::tempdir().unwrap();
    let path = folder.path().join("t.npz");
    let flags = ["--trace", path.to_str().unwrap(), "--trace-nodes", "*.q_rope,logits"];
    let assert = minfer(["run", TINY, "hi"].iter().chain(&flags).chain(&FIXED)).assert().success();
    assert_eq!(stdout(&assert), answer(&[TINY, "hi"], ""));
    let archive = fs::read(&path).unwrap();
    let has = |name: &str| archive.windows(name.len()).any(|window| window == name.as_bytes());
    assert!(has("0/0.q_rope.npy") && has("0/logits.npy") && !has("ffn"), "{}", archive.len());
}

#[test]
fn real_models_answer() {
    for (file, prompt, want) in [
        ("smollm2-135m-instruct-q4_1.gguf", "Hello", "Hello! How can I assist you today?\n"),
        ("qwen2.5-coder-0.5b-instruct-q4_k_m.gguf", "Hello", "Hello! How can I assist you today?\n"),
    ] {
        let Some(model) = real(file) else { continue };
        let args = ["run", model.to_str().unwrap(), "--greedy", "-n", "16", prompt];
        assert_eq!(stdout(&minfer(args).assert().success()), want, "{file}");
    }
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

#[test]
fn what_a_prompt_loses_to_the_context_is_told() {
    let prompt = "x".repeat(300);
    let args = ["run", TINY, "--no-template", "-c", "64", "-n", "2", "--no-timings", "-p", &prompt];
    minfer(args).assert().code(4);
    let done = minfer(args.iter().chain(&["--context-shift", "--keep", "8"])).assert().success();
    let told = stderr(&done);
    assert!(
        told.contains("the context is full: ") && told.contains(" tokens are dropped, after the first 8"),
        "{told}"
    );
}
