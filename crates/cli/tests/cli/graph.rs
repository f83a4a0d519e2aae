//! `minfer graph`: what it shows is pinned by golden files, its JSON by a schema.

use std::fmt::Write;
use std::fs;
use std::path::{Path, PathBuf};

use serde_json::Value;

use crate::schema;
use crate::support::{TINY, json, minfer, stderr, stdout};

/// The tiny models that every clone has, one an architecture.
const MODELS: [&str; 3] = ["qwen2-tied-q4_0", "llama-q4_1", "qwen3-yarn-bf16"];
const STAGES: [&str; 4] = ["built", "assigned", "fused", "planned"];
/// A name and the flags of its step.
const STEPS: [(&str, &[&str]); 2] = [("decode", &[]), ("prefill", &["--tokens", "5"])];

/// Set it to write the golden files anew.
const UPDATE: &str = "MINFER_UPDATE_GOLDEN";

fn data() -> PathBuf {
    Path::new(env!("CARGO_MANIFEST_DIR")).join("../../tests/data")
}

fn model(name: &str) -> String {
    data().join(format!("{name}.gguf")).to_str().unwrap().to_owned()
}

#[test]
fn graphs_are_those_of_the_golden_files() {
    let mut differing = String::new();
    for name in MODELS {
        for (step, flags) in STEPS {
            for stage in STAGES {
                let path = model(name);
                let args = [&["graph", &path, "--stage", stage], flags].concat();
                let found = stdout(&minfer(args).assert().success());
                let golden = data().join(format!("graphs/{name}.{step}.{stage}.txt"));
                compare(&golden, &found, &mut differing);
            }
        }
    }
    assert!(
        differing.is_empty(),
        "graphs differ from the golden files:\n{differing}\nIf that is intended, write them anew and look at \
         `git diff tests/data/graphs`:\n  {UPDATE}=1 cargo test -p minfer --test cli graph::"
    );
}

fn compare(golden: &Path, found: &str, differing: &mut String) {
    if std::env::var_os(UPDATE).is_some() {
        fs::create_dir_all(golden.parent().unwrap()).unwrap();
        fs::write(golden, found).unwrap();
        return;
    }
    let want = fs::read_to_string(golden).unwrap_or_default();
    if want != found {
        let _ = writeln!(differing, "{}:\n{}", golden.display(), changes(&want, found));
    }
}

/// Lines that went and lines that came. Ids are left out, so that one node more does not change every line.
fn changes(want: &str, found: &str) -> String {
    let lines = |text: &str| -> Vec<String> { text.lines().map(without_id).collect() };
    let (want, found) = (lines(want), lines(found));
    let gone = want.iter().filter(|line| !found.contains(line)).map(|line| format!("  - {line}\n"));
    let come = found.iter().filter(|line| !want.contains(line)).map(|line| format!("  + {line}\n"));
    gone.chain(come).collect()
}

fn without_id(line: &str) -> String {
    match line.split_once(' ') {
        Some((id, rest)) if id.bytes().all(|b| b.is_ascii_digit()) => rest.to_owned(),
        _ => line.to_owned(),
    }
}

#[test]
fn a_changed_golden_file_is_shown_line_by_line() {
    let want = "7 a op=Add\n8 b op=Mul src=a\n";
    let found = "7 new op=Silu\n8 a op=Add\n9 b op=SwiGLU src=a\n";
    assert_eq!(changes(want, found), "  - b op=Mul src=a\n  + new op=Silu\n  + b op=SwiGLU src=a\n");
}

#[test]
fn json_follows_its_schema_at_every_stage() {
    let page = Path::new(env!("CARGO_MANIFEST_DIR")).join("../../docs/schemas/graph.schema.json");
    let schema: Value = serde_json::from_slice(&fs::read(page).unwrap()).unwrap();
    for stage in STAGES {
        for (_, flags) in STEPS {
            let args = [&["graph", TINY, "--format", "json", "--stage", stage], flags].concat();
            let graph = json(&minfer(args).assert().success());
            assert_eq!(schema::faults(&schema, &graph), Vec::<String>::new(), "{stage}");
            assert_eq!(graph["stage"], stage);
            let nodes = graph["nodes"].as_array().unwrap();
            assert_eq!(nodes.iter().all(|n| n["backend"] == "cpu"), stage != "built");
            assert_eq!(graph["buffers"].as_array().unwrap().is_empty(), stage != "planned");
        }
    }
}

#[test]
fn a_schema_that_does_not_fit_is_noticed() {
    let schema: Value = serde_json::from_str(
        r#"{"type": "object", "required": ["a"], "additionalProperties": false,
            "properties": {"a": {"type": "array", "items": {"type": ["integer", "null"]}}, "b": {"enum": ["x"]}}}"#,
    )
    .unwrap();
    let faults = |text: &str| schema::faults(&schema, &serde_json::from_str(text).unwrap());
    assert!(faults(r#"{"a": [1, null]}"#).is_empty());
    for (text, fault) in [
        ("[]", "$ is no object"),
        ("{}", "$ has no 'a'"),
        (r#"{"a": [1.5]}"#, "$.a[0] is no integer or null"),
        (r#"{"a": [], "b": "y"}"#, r#"$.b is "y", which is none of ["x"]"#),
        (r#"{"a": [], "c": 1}"#, "$ has 'c', which the schema does not know"),
    ] {
        assert_eq!(faults(text), [fault], "{text}");
    }
}

#[test]
fn the_graph_is_the_one_that_a_run_dumps() {
    let folder = tempfile::tempdir().unwrap();
    let path = folder.path().join("g.json");
    let args = ["run", TINY, "-n", "0", "--dump-graph-json", path.to_str().unwrap()];
    minfer(args).assert().success();
    let dumped: Value = serde_json::from_slice(&fs::read(&path).unwrap()).unwrap();
    assert_eq!(json(&minfer(["graph", TINY, "--format", "json"]).assert().success()), dumped);
}

#[test]
fn the_text_says_why() {
    let decode = stdout(&minfer(["graph", TINY]).assert().success());
    for part in [
        "graph version=1 stage=planned\nparams step=decode n_tokens=1 n_seq_max=1 n_out=1 head=logits n_ctx=",
        " op=QkvBiasRopeStore{layer=0 ",
        "weight=blk.0.attn_q.weight:Q8_0:32x32 ",
        " backend=cpu ",
        " buffer=4096#",
        "why=\"first in priority order\"",
        "fusion fused-qkv at 0.q_rope: taken\n",
        "fusion fused-ffn at 0.ffn_inner: taken\n",
        "split 0 backend=cpu nodes=",
        "memory backend=cpu buffers=",
    ] {
        assert!(decode.contains(part), "{part:?} is not in\n{decode}");
    }
    let off = stdout(&minfer(["graph", TINY, "--set", "fuse=off"]).assert().success());
    assert!(off.contains("fusion fused-qkv at 0.q_rope: refused, it is switched off\n"), "{off}");
    assert!(off.contains("fusion swiglu at 0.ffn_inner: taken\n") && off.contains(" orphan=true "), "{off}");
    let prefill = stdout(&minfer(["graph", TINY, "--tokens", "9", "-r", "9"]).assert().success());
    assert!(
        prefill.contains("fusion fused-ffn at 0.ffn_inner: refused, it is for decode steps\n"),
        "{prefill}"
    );
    assert!(prefill.contains("alias=0.q "), "{prefill}");
    let variable = minfer(["graph", TINY]).env("MINFER_NO_FUSE_QKV", "1").assert().success();
    assert!(stdout(&variable).contains("fused-qkv at 0.q_rope: refused, it is switched off"));
}

#[test]
fn dot_is_what_graphviz_reads() {
    let dot = stdout(&minfer(["graph", TINY, "--format", "dot", "--stage", "built"]).assert().success());
    assert!(dot.starts_with("digraph minfer {\n") && dot.ends_with("}\n"));
    assert!(dot.contains("fillcolor=white"), "nobody owns a node yet");
}

#[test]
fn several_sequences_share_a_step() {
    let shown = stdout(&minfer(["graph", TINY, "--sequences", "3"]).assert().success());
    assert!(shown.contains("step=decode n_tokens=3 n_seq_max=3 n_out=3 head=logits "), "{shown}");
    let assert = minfer(["graph", TINY, "--sequences", "3", "--tokens", "2"]).assert().code(2);
    assert!(stderr(&assert).contains("a step of 3 sequences has at least as many tokens, not 2"));
    let assert = minfer(["graph", TINY, "--out-rows", "2"]).assert().code(2);
    assert!(
        stderr(&assert).contains("a step of 1 tokens cannot give 2 rows of logits"),
        "{}",
        stderr(&assert)
    );
}

#[test]
fn equal_graphs_have_no_difference() {
    let same = minfer(["graph", TINY, "--diff", "threads=1,isa=scalar"]).assert().code(0);
    let lines = stdout(&same);
    assert!(lines.ends_with(" nodes equal, 0 changed, 0 only in a, 0 only in b\n"), "{lines}");
    assert_eq!(lines.lines().count(), 1);
}

#[test]
fn the_difference_of_settings_is_told_node_by_node() {
    let assert =
        minfer(["graph", &model("llama-q4_1"), "--stage", "fused", "--diff", "fuse=off"]).assert().code(1);
    let text = stdout(&assert);
    for part in [
        "~ params fuse_qkv: true -> false\n",
        "layers 0..=1, each\n",
        "\n- *.qkv op=FusedQKV{",
        "\n+ *.q op=MatMul src=*.attn_norm ",
        "weight=blk.*.attn_q.weight:Q4_1:",
        "\n~ *.q_rope op: QkvBiasRopeStore{layer=* ",
        "- fusion fused-qkv at *.q_rope: taken (x2)\n",
    ] {
        assert!(text.contains(part), "{part:?} is not in\n{text}");
    }
    let args = ["graph", &model("llama-q4_1"), "--diff", "fuse=off", "--format", "json"];
    let diff = json(&minfer(args).assert().code(1));
    assert_eq!((&diff["equal"], &diff["version"]), (&Value::from(false), &Value::from(1)));
    assert!(diff["nodes"].as_array().unwrap().iter().any(|n| n["node"] == "1.qkv" && n["only"] == "a"));
    let args = ["graph", TINY, "--diff", "fuse=off", "--format", "dot"];
    minfer(args).assert().code(2);
}

#[test]
fn two_models_can_be_compared() {
    let (a, b) = (model("llama-q4_1"), model("qwen3-yarn-bf16"));
    let text = stdout(&minfer(["graph", &a, "--diff", &b]).assert().code(1));
    assert!(text.contains("weight: ") && text.contains("FusedQkvNorm{"), "{text}");
    let by_setting = stdout(&minfer(["graph", &a, "--diff", &format!("model={b}")]).assert().code(1));
    assert_eq!(by_setting, text);
    minfer(["graph", &a, "--diff", "/nonexistent/m.gguf"]).assert().code(3);
}

#[test]
fn wrong_settings_are_named() {
    for (args, code, part) in [
        (["--set", "thread=1"], 2, "'thread=1' is not a setting; settings are key=value"),
        (["--diff", "kv=q8"], 2, "setting 'kv' is 'q8', expected f16|f32"),
        (["--tokens", "0"], 2, "'--tokens <N>': it must be at least 1"),
        (["--stage", "done"], 2, "invalid value 'done'"),
        (["--set", "isa=sse9"], 2, "unknown instruction set 'sse9'"),
        (["--set", "backend=tpu"], 2, "unknown backend 'tpu'"),
    ] {
        let assert = minfer(["graph", TINY].iter().chain(&args)).assert().code(code);
        assert!(stderr(&assert).contains(part), "{args:?}: {}", stderr(&assert));
        assert_eq!(stdout(&assert), "");
    }
}
