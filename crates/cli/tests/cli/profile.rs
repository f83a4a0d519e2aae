//! `--profile` and `MINFER_OP_PROFILE`.

use std::fs;

use serde_json::Value;

use crate::support::{TINY, minfer, stderr};

const GENERATE: [&str; 9] = ["generate", TINY, "--tokens", "1,2,3,4,5", "-n", "4", "--greedy", "-t", "2"];

#[test]
fn a_chrome_trace_has_a_track_for_each_thread() {
    let folder = tempfile::tempdir().unwrap();
    let path = folder.path().join("trace.json");
    // A prompt that is long enough to be shared out.
    let tokens = (1..=100).map(|id| id.to_string()).collect::<Vec<_>>().join(",");
    let model = concat!(env!("CARGO_MANIFEST_DIR"), "/../../tests/data/llama-q4_1.gguf");
    let generate = ["generate", model, "--tokens", &tokens, "-n", "4", "--greedy", "--ignore-eos", "-t", "2"];
    let plain = minfer(generate).assert().success().get_output().stdout.clone();
    let profile = ["--profile", path.to_str().unwrap()];
    let assert = minfer(generate.iter().chain(&profile)).assert().success();
    assert_eq!(assert.get_output().stdout, plain, "what is generated does not depend on who looks on");
    let trace: Value = serde_json::from_slice(&fs::read(&path).unwrap()).unwrap();
    let events = trace["traceEvents"].as_array().unwrap();
    let tid = |name: &str| -> Value {
        let named = events.iter().find(|e| e["ph"] == "M" && e["args"]["name"] == name);
        named.unwrap_or_else(|| panic!("no track '{name}'"))["tid"].clone()
    };
    let spans = |track: &Value| -> Vec<&Value> {
        events.iter().filter(|e| e["ph"] == "X" && e["tid"] == *track).collect()
    };
    let steps = spans(&tid("steps"));
    let named = |name: &str| steps.iter().filter(|e| e["name"] == name).count();
    assert_eq!((named("prefill of 100 tokens"), named("decode of 1 token")), (1, 3));
    let nodes = spans(&tid("cpu nodes"));
    for name in ["embed", "0.q_rope", "0.ffn_inner", "logits"] {
        assert_eq!(nodes.iter().filter(|e| e["name"] == name).count(), 4, "{name}");
    }
    assert!(nodes.iter().any(|e| e["cat"] == "FusedQKV"));
    // Whoever worked on a node did so while it ran.
    let number = |e: &Value, key: &str| e[key].as_f64().unwrap();
    // Which of the threads took how much is a matter of luck.
    let is_thread = |e: &&Value| {
        e["ph"] == "M" && e["args"]["name"].as_str().is_some_and(|name| name.starts_with("cpu thread"))
    };
    let shared: Vec<_> = events.iter().filter(is_thread).flat_map(|e| spans(&e["tid"])).collect();
    assert!(shared.len() > 10, "{} spans", shared.len());
    for work in shared {
        let (start, end) = (number(work, "ts"), number(work, "ts") + number(work, "dur"));
        let inside = |node: &&&Value| {
            node["name"] == work["name"]
                && number(node, "ts") <= start + 0.01
                && end <= number(node, "ts") + number(node, "dur") + 0.01
        };
        assert!(nodes.iter().any(|node| inside(&node)), "{work}");
    }
}

#[test]
fn a_profile_that_cannot_be_written_is_found_out_before_the_work() {
    let profile = ["--profile", "/nonexistent/trace.json"];
    let assert = minfer(GENERATE.iter().chain(&profile)).assert().code(5);
    assert!(
        stderr(&assert).starts_with("error: cannot write /nonexistent/trace.json: "),
        "{}",
        stderr(&assert)
    );
    assert!(assert.get_output().stdout.is_empty());
}

#[test]
fn the_table_of_ops_has_rates_and_the_whole() {
    let assert = minfer(GENERATE).env("MINFER_OP_PROFILE", "1").assert().success();
    let table = stderr(&assert);
    let head = table.lines().find(|line| line.starts_with("op ")).unwrap();
    for column in
        ["backend", "weight", "runs", "ms", "us/run", "share", "GB/s", "of read", "GOP/s", "of peak"]
    {
        assert!(head.contains(column), "{head}");
    }
    let row =
        |op: &str| table.lines().find(|line| line.starts_with(op)).unwrap_or_else(|| panic!("{op}: {table}"));
    assert!(row("FusedQKV").contains(" Q8_0 ") && row("FusedQKV").matches('%').count() == 3, "{table}");
    assert!(row("Attn").matches('%').count() == 3, "attention computes and reads, too: {table}");
    assert!(row("ops ").ends_with(" in 4 steps"), "{table}");
    assert!(row("limits ").contains(" GB/s read from memory, "), "{table}");
}
