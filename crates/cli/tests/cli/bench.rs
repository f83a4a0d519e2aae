//! `minfer bench`: every format, and the keys that scripts rely on.

use serde_json::{Value, json};

use crate::support::{TINY, json, minfer, stderr, stdout};

/// Small enough for a test, with a depth and a test of both phases.
const BENCH: [&str; 14] =
    ["bench", TINY, "-p", "16", "-n", "4", "-pg", "8,2", "-d", "0,32", "-r", "2", "-t", "2"];

/// llama-bench's keys, then minfer's own, then llama-bench's lists.
const KEYS: [&str; 32] = [
    "build_commit",
    "build_number",
    "cpu_info",
    "gpu_info",
    "backends",
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
    "n_prompt",
    "n_gen",
    "n_depth",
    "test_time",
    "avg_ns",
    "stddev_ns",
    "avg_ts",
    "stddev_ts",
    "isa",
    "limit_read_gbs",
    "limit_dot_gops",
    "limit_fma_gops",
    "read_percent",
    "peak_percent",
    "samples_ns",
    "samples_ts",
];

fn run(format: &str) -> String {
    stdout(&minfer(BENCH.iter().copied().chain(["-o", format])).assert().success())
}

fn keys(value: &Value) -> Vec<&str> {
    value.as_object().unwrap().keys().map(String::as_str).collect()
}

#[test]
fn json_has_the_keys_of_llama_bench_and_every_result_a_share_of_the_limits() {
    let results: Value = serde_json::from_str(&run("json")).unwrap();
    let results = results.as_array().unwrap();
    let tests: Vec<_> =
        results.iter().map(|it| json!([it["n_prompt"], it["n_gen"], it["n_depth"]])).collect();
    let want = [[16, 0, 0], [0, 4, 0], [8, 2, 0], [16, 0, 32], [0, 4, 32], [8, 2, 32]];
    assert_eq!(tests, want.map(|it| json!(it)));
    for result in results {
        assert_eq!(keys(result), KEYS);
        for key in
            ["avg_ts", "limit_read_gbs", "limit_dot_gops", "limit_fma_gops", "read_percent", "peak_percent"]
        {
            assert!(result[key].as_f64().is_some_and(|it| it > 0.0), "{key}: {result}");
        }
        assert_eq!((&result["n_threads"], &result["type_k"]), (&json!(2), &json!("f16")));
        let ns = result["samples_ns"].as_array().unwrap();
        assert_eq!((ns.len(), result["samples_ts"].as_array().unwrap().len()), (2, 2));
        let mean = (ns[0].as_u64().unwrap() + ns[1].as_u64().unwrap()) / 2;
        assert!(result["avg_ns"].as_u64().unwrap().abs_diff(mean) <= 1);
        let time = result["test_time"].as_str().unwrap();
        assert!(time.len() == 20 && time.ends_with('Z'), "{time}");
    }
}

#[test]
fn jsonl_has_an_object_a_line() {
    let lines = run("jsonl");
    let results: Vec<Value> = lines.lines().map(|line| serde_json::from_str(line).unwrap()).collect();
    assert_eq!(results.len(), 6);
    assert!(results.iter().all(|it| keys(it) == KEYS));
}

#[test]
fn csv_has_a_header_and_as_many_values() {
    let csv = run("csv");
    let mut lines = csv.lines();
    let header: Vec<_> = lines.next().unwrap().split(',').collect();
    let want: Vec<_> = KEYS.into_iter().filter(|key| !key.starts_with("samples_")).collect();
    assert_eq!(header, want);
    let rows: Vec<_> = lines.collect();
    assert_eq!(rows.len(), 6);
    for row in rows {
        assert!(row.starts_with('"') && row.ends_with('"'), "{row}");
        assert_eq!(row.matches("\",\"").count() + 1, header.len(), "{row}");
    }
}

#[test]
fn the_table_has_a_row_a_test() {
    let text = run("md");
    let table: Vec<_> = text.lines().take_while(|line| line.starts_with('|')).collect();
    assert_eq!(table.len(), 2 + 6, "{text}");
    let n_bars = |line: &&str| line.matches('|').count();
    assert!(table.iter().all(|line| n_bars(line) == n_bars(&table[0])), "{text}");
    assert_eq!(table[0].chars().count(), table[1].chars().count(), "{text}");
    for test in ["pp16", "tg4", "pp8+tg2", "pp16 @ d32", "tg4 @ d32", "pp8+tg2 @ d32"] {
        assert!(table.iter().any(|line| line.contains(&format!(" {test} |"))), "{test}: {text}");
    }
    assert!(table[2].contains(" GB/s |") && table[2].contains(" GOP/s |"), "{text}");
    assert!(text.ends_with('\n') && text.contains("\nbuild: minfer "), "{text}");
}

#[test]
fn every_combination_of_the_lists_is_measured() {
    let lists = ["-t", "1,2", "-ub", "4,8", "-ctk", "f16,f32", "-r", "1", "--no-warmup", "-o", "json"];
    let args = ["bench", TINY, "-p", "0", "-n", "1"].iter().chain(&lists);
    let results = json(&minfer(args).assert().success());
    let setups: Vec<_> = results.as_array().unwrap().iter().collect();
    assert_eq!(setups.len(), 8);
    for (threads, ubatch, cache) in [(1, 4, "f16"), (2, 8, "f32")] {
        let is_it = |it: &&&Value| {
            (&it["n_threads"], &it["n_ubatch"], &it["type_v"])
                == (&json!(threads), &json!(ubatch), &json!(cache))
        };
        assert_eq!(setups.iter().filter(is_it).count(), 1);
    }
}

#[test]
fn what_cannot_be_measured_is_refused() {
    for (args, code, part) in [
        (&["-p", "0", "-n", "0"][..], 2, "no test"),
        (&["-r", "0"], 2, "0"),
        (&["-t", "0"], 2, "0"),
        (&["-pg", "8"], 2, "expected two numbers"),
        (&["-ub", "0"], 2, "chunk size"),
        (&["-p", "18446744073709551615"], 2, "context size"),
        (&["-p", "18446744073709551615", "-d", "9"], 2, "context size"),
        (&["-o", "xml"], 2, "xml"),
    ] {
        let assert = minfer(["bench", TINY].iter().chain(args)).assert().code(code);
        assert!(stderr(&assert).contains(part), "{args:?}: {}", stderr(&assert));
    }
}
