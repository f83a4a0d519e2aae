//! `minfer verify`: the right verdict on good files, odd ones and broken ones.

use std::collections::HashMap;
use std::fs;

use serde_json::Value;

use crate::support::{TINY, json, minfer, real, shared, stderr, stdout};

fn verify(path: &str) -> (i32, Value) {
    let assert = minfer(["verify", path, "--json", "-t", "2"]).assert();
    let code = assert.get_output().status.code().expect("no signal");
    (code, json(&assert))
}

fn findings<'a>(report: &'a Value, check: &str) -> Vec<&'a str> {
    let checks = report["checks"].as_array().unwrap();
    let found = checks.iter().filter(|c| c["check"] == check).flat_map(|c| c["findings"].as_array().unwrap());
    found.filter_map(|f| f["message"].as_str()).collect()
}

#[test]
fn a_good_model_is_sound() {
    let text = stdout(&minfer(["verify", TINY]).assert().code(0));
    assert!(text.ends_with("verdict    sound: it will run\n"), "{text}");
    for part in [
        "\nsha256 ",
        "structure  GGUF version 3, ",
        "model      architecture qwen2: 1 layers",
        "data       19408 bytes in 14 tensors, every value is a finite number\n",
        "tokenizer  gpt2 of 264 tokens, pre-tokenizer qwen2\n",
        "template   3 of 3 conversations render\n",
        "run        a few tokens were run, every logit is a finite number\n",
    ] {
        assert!(text.contains(part), "{part:?} is not in\n{text}");
    }
    let short = stdout(&minfer(["verify", TINY, "--no-digest", "--no-run"]).assert().code(0));
    assert!(!short.contains("sha256") && !short.contains("\nrun "), "{short}");
}

#[test]
fn every_file_of_the_table_gets_the_right_verdict() {
    let Some(folder) = shared("fixtures/gguf-bad") else { return };
    let table = fs::read_to_string(folder.join("README.md")).unwrap();
    let (mut n_files, mut wrong) = (0, Vec::new());
    for line in table.lines() {
        let cells: Vec<_> = line.split('|').map(str::trim).collect();
        let (Some(name), Some(verdict)) = (cells.get(1), cells.get(3)) else { continue };
        if !name.ends_with(".gguf") {
            continue;
        }
        n_files += 1;
        let (code, report) = verify(folder.join(name).to_str().unwrap());
        let runs = report["runs"].as_bool().unwrap();
        let right = match *verdict {
            "load" => runs && code == 0,
            "error" => !runs && code == 1,
            // Runs, perhaps with damage, or not; but the exit code and the verdict agree.
            _ => (code == 0) == (report["severity"] == "note" || report["severity"] == "warning"),
        };
        if !right {
            wrong.push(format!("{name}: {verdict}, but {code} and {}", report["verdict"]));
        }
    }
    assert!(n_files > 100, "only {n_files} files");
    assert!(wrong.is_empty(), "{}", wrong.join("\n"));
}

#[test]
fn what_is_wrong_is_said() {
    let Some(folder) = shared("fixtures/gguf-bad") else { return };
    let expected: HashMap<&str, (&str, &str, &str)> = HashMap::from([
        ("weights-nan", ("damage", "data", "tensor 'token_embd.weight': ")),
        ("weights-infinite", ("damage", "data", "tensor 'blk.0.attn_q.weight': ")),
        ("weights-zero", ("warning", "data", "100 % of its bytes lie in long stretches of zeros")),
        ("offset-overlap", ("fatal", "structure", "overlaps")),
        ("type-bigger", ("fatal", "structure", "overlaps")),
        ("truncated-in-data", ("fatal", "structure", "")),
        ("html-page", ("fatal", "structure", "not a GGUF file")),
        ("shape-transposed", ("fatal", "model", "ffn_down")),
        ("no-attn-q", ("fatal", "model", "blk.0.attn_q.weight")),
        ("pre-unknown", ("fatal", "tokenizer", "unknown pre-tokenizer")),
        ("tokens-byte-missing", ("warning", "tokenizer", "loses when it is encoded (1): 5A")),
        ("tokens-too-few", ("fatal", "tokenizer", "there are 100 tokens")),
        ("eos-out-of-range", ("fatal", "tokenizer", "eos_token_id")),
        ("template-syntax", ("warning", "template", "conversations do not work: ")),
        ("ok-trailing-bytes", ("note", "structure", "100 bytes behind the last tensor")),
    ]);
    for (name, (severity, check, part)) in expected {
        let (_, report) = verify(folder.join(format!("{name}.gguf")).to_str().unwrap());
        assert_eq!(report["severity"], severity, "{name}: {report:#}");
        let found = findings(&report, check);
        assert!(found.iter().any(|f| f.contains(part)), "{name}: {found:?}");
    }
}

#[test]
fn real_models_run() {
    for (file, severity) in
        [("qwen2.5-coder-0.5b-instruct-q4_k_m.gguf", "note"), ("smollm2-135m-instruct-q4_1.gguf", "warning")]
    {
        let Some(path) = real(file) else { continue };
        let (code, report) = verify(path.to_str().unwrap());
        assert_eq!((code, &report["severity"]), (0, &Value::from(severity)), "{report:#}");
        assert!(report["files"][0]["pinned"].as_str().unwrap().starts_with("as published: "), "{report:#}");
    }
}

#[test]
fn one_changed_weight_is_found_in_its_row() {
    let folder = tempfile::tempdir().unwrap();
    let path = folder.path().join("changed.gguf");
    let facts = json(&minfer(["info", TINY, "--json"]).assert().success());
    let down =
        facts["tensors"].as_array().unwrap().iter().find(|t| t["name"] == "blk.0.ffn_down.weight").unwrap();
    let mut bytes = fs::read(TINY).unwrap();
    // Q8_0 of 64 columns: two blocks of 34 bytes a row; the scale of the first block of row 5 becomes NaN.
    let at = down["offset"].as_u64().unwrap() as usize + 5 * 68;
    bytes[at..at + 2].copy_from_slice(&[0xff, 0x7f]);
    fs::write(&path, bytes).unwrap();
    let (code, report) = verify(path.to_str().unwrap());
    assert_eq!((code, report["runs"].as_bool()), (1, Some(true)));
    let want =
        "tensor 'blk.0.ffn_down.weight': 1 of 64 blocks of Q8_0 hold NaN or infinity, the first in row 5";
    assert_eq!(findings(&report, "data"), [want]);
    assert_eq!(report["verdict"], format!("damaged, its answers cannot be trusted: {want}"));
}

#[test]
fn a_file_that_is_not_there_is_an_error() {
    let assert = minfer(["verify", "/nonexistent/m.gguf", "--json"]).assert().code(3);
    assert_eq!(stdout(&assert), "");
    assert!(stderr(&assert).starts_with("error: "));
}
