//! Wrong input: a clear message on one line, the right exit code, nothing on standard output.

use std::fs;

use crate::support::{TINY, minfer, stderr, stdout};

/// Exit codes by whose fault it is.
const USAGE: i32 = 2;
const MODEL: i32 = 3;
const REQUEST: i32 = 4;

/// Runs the command with `stdin`, expects `code`, and gives its first line of standard error, the only one that may be
/// followed by a hint.
fn refused(args: &[&str], stdin: &[u8], code: i32) -> String {
    let assert = minfer(args).write_stdin(stdin.to_vec()).assert().code(code);
    let message = stderr(&assert);
    assert_eq!(stdout(&assert), "", "{args:?}");
    let lines: Vec<_> = message.lines().collect();
    assert!(lines[0].starts_with("error: "), "{args:?}: {message}");
    if code != USAGE {
        assert!(
            lines.len() == 1 || lines.len() == 2 && lines[1].starts_with("hint: "),
            "{args:?}: {message}"
        );
    }
    lines[0].to_owned()
}

#[test]
fn the_command_line() {
    for (args, part) in [
        (&["--bogus"][..], "'--bogus'"),
        (&["bogus"], "'bogus'"),
        (&["info", TINY, "--bogus"], "'--bogus'"),
        (&["info"], "no model given"),
        (&["tokenize"], "no model given"),
        (&["detokenize"], "no model given"),
        (&["render"], "no model given"),
        (&["render", TINY], "no file with messages given"),
        (&["info", "-m", TINY, "more"], "unexpected argument 'more'"),
        (&["tokenize", "-m", TINY, "text", "more"], "unexpected argument 'more'"),
        (&["tokenize", TINY, "text", "-p", "text"], "unexpected argument 'text'"),
        (&["tokenize", "-m", TINY, "text", "-f", "file"], "unexpected argument 'text'"),
        (&["tokenize", TINY, "-p", "text", "-f", "file"], "cannot be used with"),
        (&["tokenize", TINY, "--ids", "--json", "text"], "cannot be used with"),
        (&["render", TINY, "-", "--arg", "x"], "expected KEY=VALUE"),
        (&["run", TINY, "x", "-t", "0"], "0 is not in 1..=512"),
        (
            &["run", TINY, "x", "-n", "many"],
            "invalid value 'many' for '--predict <N>': it is not a whole number",
        ),
        (
            &["run", "-hf", "org/model:Q4_K_M", "-p", "x"],
            "-hf org/model:Q4_K_M: minfer does not download models",
        ),
        (&["serve", "-hf", "org/model", "-hff", "m.gguf"], "-hf org/model: minfer does not download models"),
        (
            &["info", "--model-url", "http://x/m.gguf"],
            "--model-url http://x/m.gguf: minfer does not download",
        ),
        (&["run", TINY, "x", "-t", "-1"], "invalid value '-1' for '--threads <N>'"),
        (&["run", TINY, "x", "-ub", "-1"], "invalid value '-1' for '--ubatch-size <N>'"),
        (&["run", TINY, "x", "--top-p", "-0.5"], "top_p is -0.5"),
        (&["bench", TINY, "-p", "-1"], "invalid value '-1' for '--n-prompt <N"),
        (&["run", TINY, "x", "--no-template", "--system", "y"], "cannot be used with"),
        (&["run", TINY, "x", "--temp", "nan"], "temperature is NaN"),
        (&["run", TINY, "x", "--top-p", "2"], "top_p is 2"),
        (&["run", TINY, "x", "--stop", ""], "stop string 0 is empty"),
        (&["run", TINY, "x", "-ub", "0"], "it must be between"),
        (&["run", TINY, "x", "-c", "2000000000"], "the context size is 2000000000"),
        (
            &["run", TINY, "x", "-ctk", "f32", "-ctv", "f16"],
            "the types of --cache-type-k and --cache-type-v differ",
        ),
        (&["run", TINY, "x", "--backend", "abacus"], "unknown backend 'abacus'"),
        (&["run", TINY, "x", "--backend", "cuda"], "backend 'cuda' is not in this build"),
        (&["run", TINY], "no prompt given"),
        (&["run", TINY, "x", "-cnv"], "a conversation needs a terminal"),
        (&["run", TINY, "x", "-cnv", "--raw"], "cannot be used with"),
        (&["run", TINY, "x", "-s", "-2"], "expected a number from 0 to 2^64 - 1"),
        (&["run", TINY, "x", "-l", "5"], "expected a token id, a sign and a number"),
        (&["run", TINY, "x", "-l", "264+1"], "logit_bias names token 264"),
        (&["generate", TINY, "x", "--tokens", "1"], "cannot be used together"),
        (&["bench", TINY, "-p", "0", "-n", "0"], "no test"),
        (&["completions", "basic"], "'basic'"),
        (&["info", TINY, "--override-kv", "general.name"], "expected KEY=TYPE:VALUE"),
        (&["info", TINY, "--override-kv", "general.name=text:x"], "unknown type 'text'"),
        (&["info", TINY, "--override-kv", "qwen2.block_count=int:x"], "'x' is not a whole number"),
    ] {
        let message = refused(args, b"", USAGE);
        assert!(message.contains(part), "{args:?}: {message}");
    }
}

#[test]
fn no_arguments_at_all_show_the_help() {
    let assert = minfer([""; 0]).assert().code(USAGE);
    assert!(stderr(&assert).contains("Usage: minfer"), "{}", stderr(&assert));
}

#[test]
fn the_environment() {
    for (name, value) in [("MINFER_ISA", "mmx"), ("MINFER_THREADS", "0"), ("MINFER_GRAPH_TRACE", "maybe")] {
        let assert = minfer(["info", TINY]).env(name, value).assert().code(USAGE);
        let message = stderr(&assert);
        let want = format!("error: environment variable {name} is '{value}', expected ");
        assert!(message.starts_with(&want), "{message}");
    }
}

#[test]
fn the_model_file() {
    let folder = tempfile::tempdir().unwrap();
    let path = |name: &str| folder.path().join(name).to_str().unwrap().to_owned();
    let whole = fs::read(TINY).unwrap();
    fs::write(path("empty.gguf"), "").unwrap();
    fs::write(path("half.gguf"), &whole[..whole.len() / 2]).unwrap();
    fs::write(path("head.gguf"), &whole[..100]).unwrap();
    fs::write(path("page.gguf"), "<html><body>404 Not Found</body></html>").unwrap();
    for (model, part) in [
        (path("missing.gguf"), "no such file"),
        ("no-such-model".to_owned(), "unknown model `no-such-model`"),
        (folder.path().to_str().unwrap().to_owned(), "is a folder, not a model file"),
        (path("empty.gguf"), "the file is empty"),
        (path("half.gguf"), "the data section has"),
        (path("head.gguf"), "at byte"),
        (path("page.gguf"), "it is a web page"),
        (path("empty.gguf") + "/x.gguf", "no such file"),
    ] {
        for args in [
            &["info", &model][..],
            &["tokenize", &model, "x"],
            &["detokenize", &model, "1"],
            &["render", &model, "-"],
            &["run", &model, "x"],
            &["logits", &model, "x"],
            &["generate", &model, "x"],
            &["bench", &model],
        ] {
            let message = refused(args, b"[]", MODEL);
            assert!(message.contains(part), "{args:?}: {message}");
        }
    }
}

#[test]
fn a_prompt_in_place_of_the_model_is_explained() {
    let assert = minfer(["run", "why is the sky blue?"]).assert().code(MODEL);
    let message = stderr(&assert);
    assert!(message.contains("\nhint: the first argument is the model"), "{message}");
}

#[test]
fn the_metadata() {
    for (stated, args, part) in [
        ("tokenizer.ggml.pre=str:xyz", &["tokenize", TINY, "x"][..], "unknown pre-tokenizer 'xyz'"),
        ("tokenizer.ggml.pre=str:xyz", &["run", TINY, "x"], "unknown pre-tokenizer 'xyz'"),
        (
            "general.architecture=str:xyz",
            &["run", TINY, "x"],
            "unsupported architecture 'xyz'; supported: qwen2",
        ),
        (
            "general.architecture=str:xyz",
            &["bench", TINY],
            "unsupported architecture 'xyz'; supported: qwen2",
        ),
        ("tokenizer.chat_template=int:1", &["run", TINY, "x"], "tokenizer.chat_template"),
        ("tokenizer.ggml.model=str:xyz", &["tokenize", TINY, "x"], "'xyz'"),
        ("tokenizer.ggml.bos_token_id=int:264", &["detokenize", TINY, "1"], "tokenizer.ggml.bos_token_id"),
        ("tokenizer.chat_template=int:1", &["render", TINY, "-"], "tokenizer.chat_template"),
        ("tokenizer.chat_template=str:{% if %}", &["render", TINY, "-"], "line 1"),
    ] {
        let args: Vec<_> = args.iter().copied().chain(["--override-kv", stated]).collect();
        let message = refused(&args, b"[]", MODEL);
        assert!(message.contains(part), "{args:?}: {message}");
    }
}

#[test]
fn the_request() {
    for (args, stdin, part) in [
        (&["tokenize", TINY][..], &b"ab\xff"[..], "standard input is not UTF-8 text (invalid from byte 2)"),
        (&["detokenize", TINY, "1", "x"], b"", "'x' is not a token id"),
        (&["detokenize", TINY], b"[1, -2]", "'-2' is not a token id"),
        (&["detokenize", TINY, "264"], b"", "token id 264 is not in the vocabulary of 264 tokens"),
        (&["run", TINY], &[b'a'; 500], "tokens do not fit into the context of 128"),
        (&["generate", TINY], &[b'a'; 500], "tokens do not fit"),
        (&["logits", TINY], &[b'a'; 500], "500 tokens do not fit"),
        (&["generate", TINY, "--tokens", "1,264"], b"", "token 264 is outside the vocabulary of 264"),
        (&["logits", TINY, "--tokens", "[]"], b"", "the prompt is empty"),
        (&["run", TINY, "--no-template"], b"", "the prompt is empty"),
        (&["run", TINY], b"\xff", "is not UTF-8"),
        (&["render", TINY, "-"], b"[{]", "standard input is not valid JSON"),
        (&["render", TINY, "-"], b"{}", "`messages` should be a list"),
        (&["render", TINY, "-"], b"\"Hi\"", "the value should be a list"),
        (&["render", TINY, "-"], b"", "standard input is not valid JSON"),
    ] {
        let message = refused(args, stdin, REQUEST);
        assert!(message.contains(part), "{args:?}: {message}");
    }
}

#[test]
fn files_that_are_named() {
    for args in [
        &["tokenize", TINY, "-f", "/nonexistent/file"][..],
        &["tokenize", TINY, "-f", "/"],
        &["render", TINY, "/nonexistent/file"],
        &["render", TINY, "-", "--tools", "/nonexistent/file"],
        &["render", "--template-file", "/nonexistent/file", "-"],
    ] {
        let message = refused(args, b"[]", MODEL);
        assert!(message.starts_with("error: cannot read /"), "{args:?}: {message}");
    }
}

#[test]
fn verbose_adds_the_causes() {
    let plain = stderr(&minfer(["tokenize", TINY, "-f", "/nonexistent/file"]).assert().code(MODEL));
    let verbose = stderr(&minfer(["tokenize", TINY, "-v", "-f", "/nonexistent/file"]).assert().code(MODEL));
    assert!(!plain.contains("caused by"), "{plain}");
    assert!(verbose.starts_with(&plain) && verbose.contains("\ncaused by: "), "{verbose}");
}

#[test]
fn nodes_of_a_trace_that_are_not_there_are_told() {
    let folder = tempfile::tempdir().unwrap();
    let path = folder.path().join("t.npz");
    let trace = |nodes: &str| {
        let args = ["generate", TINY, "-p", "abc", "-n", "2", "--trace", path.to_str().unwrap()];
        minfer(args.iter().chain(&["--trace-nodes", nodes])).assert()
    };
    trace("*.q_rope,logits").success();
    for nodes in ["[", "", "nothing*", "logits,0.q_rope,9.q_rope"] {
        let last = nodes.rsplit(',').next().unwrap();
        let told = stderr(&trace(nodes).code(USAGE));
        assert!(told.contains(&format!("is called '{last}'")), "{told}");
    }
    let without = minfer(["generate", TINY, "-p", "abc", "-n", "2", "--trace-nodes", "logits"]).assert();
    assert!(stderr(&without.code(USAGE)).contains("with --trace"));
}
