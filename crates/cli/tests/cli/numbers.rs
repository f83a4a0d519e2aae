//! `minfer logits`, `generate` and `bench`: what they write, and that it is what the fixtures say.

use std::fs;
use std::path::Path;

use serde_json::{Value, json};

use crate::support::{TINY, json, minfer, shared, stdout};

/// The oracle's distance that the fixtures allow for float models.
const TOLERANCE: f64 = 1e-3;

/// The fixtures keep keys and values in single precision.
const FLOAT_CACHE: [&str; 4] = ["-ctk", "f32", "-ctv", "f32"];

fn ids(tokens: &Value) -> String {
    tokens.to_string()
}

#[test]
fn logits_are_those_of_the_fixtures() {
    let Some(folder) = shared("fixtures/tiny") else { return };
    for name in ["qwen2-f32", "qwen3-f32", "llama-f32"] {
        let (model, fixture) = fixture(&folder, name);
        let args = ["logits", &model, "--tokens", &ids(&fixture["tokens"]), "--json", "--top", "5"];
        let args = args.iter().chain(&FLOAT_CACHE);
        let logits = json(&minfer(args).assert().success());
        let position = &logits["positions"][0];
        assert_eq!(position["position"], json!(39), "{name}");
        let want: Vec<f64> = serde_json::from_value(fixture["last_logits"].clone()).unwrap();
        let top = position["top"].as_array().unwrap();
        assert_eq!(top.len(), 5);
        for token in top {
            let (id, logit) = (token["id"].as_u64().unwrap(), token["logit"].as_f64().unwrap());
            assert!((logit - want[id as usize]).abs() < TOLERANCE, "{name} {id}: {logit}");
        }
        let best = want.iter().copied().fold(f64::MIN, f64::max);
        assert!((top[0]["logit"].as_f64().unwrap() - best).abs() < TOLERANCE, "{name}");
    }
}

#[test]
fn greedy_tokens_are_those_of_the_fixtures() {
    let Some(folder) = shared("fixtures/tiny") else { return };
    for name in ["qwen2-f32", "qwen3-f32", "llama-f32", "llama-spm-f32"] {
        let (model, fixture) = fixture(&folder, name);
        let args = [
            "generate",
            &model,
            "--tokens",
            &ids(&fixture["tokens"]),
            "-n",
            "16",
            "--greedy",
            "--ignore-eos",
            "--json",
        ];
        let generated = json(&minfer(args).assert().success());
        assert_eq!(generated["tokens"], fixture["greedy"], "{name}");
        assert_eq!(generated["finish_reason"], "length");
        assert_eq!(generated["timings"]["prompt_n"], 40);
    }
}

fn fixture(folder: &Path, name: &str) -> (String, Value) {
    let model = folder.join(format!("{name}.gguf")).to_str().unwrap().to_owned();
    (model, serde_json::from_slice(&fs::read(folder.join(format!("{name}.json"))).unwrap()).unwrap())
}

#[test]
fn every_position_can_be_had_and_written_for_numpy() {
    let folder = tempfile::tempdir().unwrap();
    let file = folder.path().join("l.npy");
    let base = ["logits", TINY, "--tokens", "1,2,3", "--all-positions"];
    let shown = json(&minfer(base.iter().chain(&["--json", "--top", "264"])).assert().success());
    let assert = minfer(base.iter().chain(&["--out", file.to_str().unwrap()])).assert().success();
    assert_eq!(stdout(&assert), "");
    let bytes = fs::read(file).unwrap();
    assert!(bytes.starts_with(b"\x93NUMPY\x01\x00"));
    let (header, data) = bytes.split_at(bytes.len() - 3 * 264 * 4);
    assert!(String::from_utf8_lossy(header).contains("(3, 264)"));
    let logit = |position: usize, id: usize| {
        let at = (position * 264 + id) * 4;
        f32::from_le_bytes(data[at..at + 4].try_into().unwrap())
    };
    for position in 0..3 {
        let top = shown["positions"][position]["top"].as_array().unwrap();
        assert_eq!(top.len(), 264);
        for token in top {
            let id = token["id"].as_u64().unwrap() as usize;
            assert_eq!(token["logit"].as_f64().unwrap() as f32, logit(position, id));
        }
    }
    // The last position alone is the last of all.
    let last =
        json(&minfer(["logits", TINY, "--tokens", "1,2,3", "--json", "--top", "264"]).assert().success());
    assert_eq!(last["positions"][0], shown["positions"][2]);
}

#[test]
fn logits_for_people_name_the_tokens() {
    let text = stdout(&minfer(["logits", TINY, "--top", "3", "-p", "a"]).assert().success());
    let lines: Vec<_> = text.lines().collect();
    assert!(lines[0].starts_with("after token 0 (") && lines[0].contains("\"a\""), "{text}");
    assert_eq!(lines.len(), 5, "{text}");
}

const BENCH: [&str; 9] = ["bench", TINY, "-p", "8,16", "-n", "4", "-r", "2", "-o"];

#[test]
fn bench_has_the_keys_of_llama_bench() {
    let results = json(&minfer(BENCH.iter().chain(&["json"])).assert().success());
    let results = results.as_array().unwrap();
    let sizes: Vec<_> = results.iter().map(|it| (it["n_prompt"].clone(), it["n_gen"].clone())).collect();
    assert_eq!(sizes, [(json!(8), json!(0)), (json!(16), json!(0)), (json!(0), json!(4))]);
    for key in [
        "model_filename",
        "model_type",
        "model_size",
        "model_n_params",
        "n_batch",
        "n_ubatch",
        "n_threads",
        "type_k",
        "type_v",
        "n_gpu_layers",
        "use_mmap",
        "n_depth",
        "test_time",
        "avg_ns",
        "stddev_ns",
        "avg_ts",
        "stddev_ts",
    ] {
        assert!(results.iter().all(|it| !it[key].is_null()), "{key}");
    }
    for result in results {
        assert_eq!(result["samples_ns"].as_array().map(Vec::len), Some(2));
        assert!(result["avg_ts"].as_f64().unwrap() > 0.0);
    }
    assert!(results[0]["read_percent"].is_null() && results[2]["read_percent"].as_f64().unwrap() > 0.0);
}

#[test]
fn bench_writes_every_format() {
    let run = |format: &str| stdout(&minfer(BENCH.iter().copied().chain([format])).assert().success());
    let table = run("md");
    assert_eq!(table.lines().count(), 2 + 3, "{table}");
    let n_bars: Vec<_> = table.lines().map(|line| line.matches('|').count()).collect();
    assert!(n_bars.iter().all(|n| *n == n_bars[0]), "{table}");
    assert!(table.contains(" pp16 |") && table.contains(" tg4 |"), "{table}");
    let csv = run("csv");
    assert_eq!(csv.lines().count(), 1 + 3, "{csv}");
    let lines = run("jsonl");
    assert!(
        lines.lines().all(|line| serde_json::from_str::<Value>(line).is_ok_and(|it| it.is_object())),
        "{lines}"
    );
}
