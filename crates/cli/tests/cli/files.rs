//! No output replaces a file that the run reads, or another output.

use super::support::*;

/// Runs that would destroy something, each in a folder with `m.gguf`, `in.jsonl` and `p.txt`.
const CLASHES: [(&str, &str); 9] = [
    ("run m.gguf hello -n 1 --profile m.gguf", "the profile"),
    ("run m.gguf hello -n 1 --trace ./m.gguf", "the trace"),
    ("run m.gguf -f p.txt -n 1 --dump-graph p.txt", "the graph"),
    ("run m.gguf hello -n 1 --dump-graph g --dump-graph-json g", "the graph"),
    ("run m.gguf hello -n 1 --profile same --trace same", "the"),
    ("run m.gguf hello -n 1 --session m.gguf", "the session"),
    ("logits m.gguf hello --out m.gguf", "the logits"),
    ("batch in.jsonl in.jsonl -m m.gguf", "the answers"),
    ("batch in.jsonl out.jsonl -m m.gguf --profile link.jsonl", "the profile"),
];

#[test]
fn an_output_that_would_replace_another_file_is_refused_before_anything_runs() {
    let folder = tempfile::tempdir().unwrap();
    let path = |name: &str| folder.path().join(name);
    std::fs::copy(TINY, path("m.gguf")).unwrap();
    let request =
        r#"{"custom_id":"a","method":"POST","url":"/v1/completions","body":{"prompt":"a","max_tokens":1}}"#;
    std::fs::write(path("in.jsonl"), request).unwrap();
    std::fs::write(path("p.txt"), "hello").unwrap();
    std::fs::hard_link(path("in.jsonl"), path("link.jsonl")).unwrap();
    let names = ["m.gguf", "in.jsonl", "p.txt"];
    let before: Vec<Vec<u8>> = names.iter().map(|name| std::fs::read(path(name)).unwrap()).collect();
    for (line, role) in CLASHES {
        let output = minfer(line.split(' ')).current_dir(folder.path()).output().unwrap();
        let stderr = String::from_utf8_lossy(&output.stderr);
        assert_eq!(output.status.code(), Some(2), "{line}: {stderr}");
        assert!(stderr.contains("is the same file as") && stderr.contains(role), "{line}: {stderr}");
    }
    for (name, before) in names.iter().zip(before) {
        assert!(std::fs::read(path(name)).unwrap() == before, "{name} was changed");
    }
}
