//! `minfer logits`, `generate` and `perplexity`: what they write, and that it is what the fixtures say.

use std::fs;
use std::path::{Path, PathBuf};

use serde_json::{Value, json};

use crate::support::{TINY, json, minfer, shared, stderr, stdout};

/// The oracle's distance that the fixtures allow for float models.
const TOLERANCE: f64 = 1e-3;

/// What quantized activations may move a single logit by: ten times the root mean square that the fixtures state.
const QUANTIZED_TOLERANCE: f64 = 0.6;

/// The fixtures keep keys and values in single precision.
const FLOAT_CACHE: [&str; 4] = ["-ctk", "f32", "-ctv", "f32"];

/// Models of every clone.
const COMMITTED: [&str; 3] = ["qwen2-tied-q4_0", "llama-q4_1", "qwen3-yarn-bf16"];

/// Models whose logits are known to [`TOLERANCE`].
const FLOATS: [&str; 4] = ["qwen2-f32", "qwen3-f32", "llama-f32", "llama-spm-f32"];

fn committed() -> PathBuf {
    Path::new(env!("CARGO_MANIFEST_DIR")).join("../../tests/data")
}

fn fixture(folder: &Path, name: &str) -> (String, Value) {
    let model = folder.join(format!("{name}.gguf")).to_str().unwrap().to_owned();
    (model, serde_json::from_slice(&fs::read(folder.join(format!("{name}.json"))).unwrap()).unwrap())
}

/// Every model that is here, with the distance that its logits may have.
fn fixtures() -> Vec<(String, Value, f64)> {
    let floats = shared("fixtures/tiny").map(|folder| FLOATS.map(|name| (folder.clone(), name, TOLERANCE)));
    let quantized = COMMITTED.map(|name| (committed(), name, QUANTIZED_TOLERANCE));
    let all = quantized.into_iter().chain(floats.into_iter().flatten());
    all.map(|(folder, name, tolerance)| {
        let (model, fixture) = fixture(&folder, name);
        (model, fixture, tolerance)
    })
    .collect()
}

fn keys(value: &Value) -> Vec<&str> {
    value.as_object().unwrap().keys().map(String::as_str).collect()
}

fn figure(value: &Value) -> f64 {
    value.as_f64().unwrap()
}

/// A `.npy` file of f32: its shape as Python writes it, and its elements.
fn read_npy(path: &Path) -> (String, Vec<f32>) {
    let bytes = fs::read(path).unwrap();
    assert!(bytes.starts_with(b"\x93NUMPY\x01\x00"));
    let (header, data) = bytes[10..].split_at(usize::from(u16::from_le_bytes([bytes[8], bytes[9]])));
    let header = String::from_utf8_lossy(header);
    assert!(header.contains("'descr': '<f4', 'fortran_order': False"), "{header}");
    let shape = header.split_once("'shape': ").unwrap().1.split_once(", }").unwrap().0.to_owned();
    (shape, data.chunks_exact(4).map(|it| f32::from_le_bytes(it.try_into().unwrap())).collect())
}

#[test]
fn logits_are_those_of_the_fixtures() {
    for (model, fixture, tolerance) in fixtures() {
        let args =
            ["logits", &model, "--tokens", &fixture["tokens"].to_string(), "--json", "--all-positions"];
        let shown = json(&minfer(args.iter().chain(&FLOAT_CACHE)).assert().success());
        assert_eq!(shown["tokens"], fixture["tokens"]);
        for (at, want) in fixture["logits_at"].as_object().unwrap() {
            let found = &shown["positions"][at.parse::<usize>().unwrap()];
            assert_eq!(found["position"].to_string(), *at);
            let near = |found: &Value, want: &Value| (figure(found) - figure(want)).abs() < tolerance;
            assert!(near(&found["mean"], &want["mean"]) && near(&found["std"], &want["std"]), "{model} {at}");
            let top = found["top"].as_array().unwrap();
            assert_eq!(top.len(), 20);
            let best = &want["top"][0];
            assert!(near(&top[0]["logit"], &best[1]), "{model} {at}: {} for {best}", top[0]);
        }
        let want: Vec<f64> = serde_json::from_value(fixture["last_logits"].clone()).unwrap();
        for token in shown["positions"].as_array().unwrap().last().unwrap()["top"].as_array().unwrap() {
            let id = token["id"].as_u64().unwrap() as usize;
            assert!((figure(&token["logit"]) - want[id]).abs() < tolerance, "{model} {token}");
        }
    }
}

#[test]
fn greedy_tokens_are_those_of_the_fixtures() {
    let Some(folder) = shared("fixtures/tiny") else { return };
    for name in FLOATS {
        let (model, fixture) = fixture(&folder, name);
        let tokens = fixture["tokens"].to_string();
        let args =
            ["generate", &model, "--tokens", &tokens, "-n", "16", "--greedy", "--ignore-eos", "--json"];
        let generated = json(&minfer(args).assert().success());
        assert_eq!(
            (&generated["tokens"], &generated["generated"]),
            (&fixture["tokens"], &fixture["greedy"]),
            "{name}"
        );
        assert_eq!(generated["finish_reason"], "length");
        assert_eq!(generated["timings"]["prompt_n"], 40);
    }
}

#[test]
fn the_keys_of_logits_are_pinned() {
    let base = ["logits", TINY, "--tokens", "1,2,3", "--top", "2", "--json"];
    let last = json(&minfer(base).assert().success());
    assert_eq!(keys(&last), ["tokens", "n_vocab", "position", "mean", "std", "top"]);
    assert_eq!(keys(&last["top"][0])[..2], ["id", "text"]);
    assert!(keys(&last["top"][0]).ends_with(&["logit", "logprob"]));
    let all = json(&minfer(base.iter().chain(&["--all-positions"])).assert().success());
    assert_eq!(keys(&all), ["tokens", "n_vocab", "positions"]);
    assert_eq!(keys(&all["positions"][0]), ["position", "mean", "std", "top"]);
    assert_eq!(all["positions"][2]["top"], last["top"]);
}

#[test]
fn probabilities_add_up() {
    let args = ["logits", TINY, "--tokens", "1,2,3", "--top", "264", "--json"];
    let top = json(&minfer(args).assert().success())["top"].as_array().unwrap().clone();
    let total: f64 = top.iter().map(|it| figure(&it["logprob"]).exp()).sum();
    assert!((total - 1.0).abs() < 1e-9, "{total}");
    assert!(top.is_sorted_by(|a, b| figure(&a["logit"]) >= figure(&b["logit"])));
}

#[test]
fn logits_can_be_written_for_numpy() {
    let folder = tempfile::tempdir().unwrap();
    let path = |name: &str| folder.path().join(name);
    let base = ["logits", TINY, "--tokens", "1,2,3"];
    let write = |more: &[&str], name: &str| {
        let out = path(name).to_str().unwrap().to_owned();
        let args = base.iter().chain(more).copied().chain(["--out", &out]);
        stdout(&minfer(args).assert().success())
    };
    assert_eq!(write(&[], "last.npy"), "");
    assert_eq!(write(&["--all-positions", "-ub", "2"], "all.npy"), "");
    let shown: Value = serde_json::from_str(&write(&["--json", "--top", "264"], "both.npy")).unwrap();
    let ((shape, last), (shapes, all)) = (read_npy(&path("last.npy")), read_npy(&path("all.npy")));
    assert_eq!((shape.as_str(), shapes.as_str()), ("(264,)", "(3, 264)"));
    assert_eq!(all[2 * 264..], last, "chunks of 2 tokens give the bits of one chunk");
    assert_eq!(read_npy(&path("both.npy")).1, last);
    for token in shown["top"].as_array().unwrap() {
        assert_eq!(figure(&token["logit"]) as f32, last[token["id"].as_u64().unwrap() as usize]);
    }
}

#[test]
fn a_file_that_cannot_be_written_is_found_out_before_the_work() {
    let folder = tempfile::tempdir().unwrap();
    let missing = folder.path().join("missing/l.npy");
    let args = ["logits", TINY, "--tokens", "1", "--out", missing.to_str().unwrap()];
    let assert = minfer(args).assert().code(5);
    assert!(stderr(&assert).starts_with("error: cannot write the logits: "), "{}", stderr(&assert));
    let there = folder.path().join("l.npy");
    let args = ["logits", TINY, "--tokens", "1,2,3", "-c", "2", "--out", there.to_str().unwrap()];
    // A context is made of whole blocks; what is longer still is refused.
    let long = vec!["1"; 100].join(",");
    let args: Vec<_> = args.iter().map(|it| if *it == "1,2,3" { long.as_str() } else { it }).collect();
    minfer(args).assert().code(4);
    assert_eq!(fs::read_dir(&folder).unwrap().count(), 0, "nothing half-written");
}

#[test]
fn logits_for_people_name_the_tokens() {
    let text = stdout(&minfer(["logits", TINY, "--top", "3", "-p", "a"]).assert().success());
    let lines: Vec<_> = text.lines().collect();
    assert!(lines[0].starts_with("after position 0, \"a\": mean "), "{text}");
    assert_eq!(lines[1].split_whitespace().collect::<Vec<_>>(), ["id", "logit", "probability", "token"]);
    assert_eq!(lines.len(), 5, "{text}");
}

#[test]
fn the_keys_of_generate_are_pinned() {
    let base = ["generate", TINY, "--tokens", "1,2,3", "-n", "4", "--ignore-eos", "--seed", "7", "--json"];
    let plain = json(&minfer(base).assert().success());
    assert_eq!(keys(&plain), ["tokens", "generated", "text", "finish_reason", "seed", "timings"]);
    let timings = [
        "cache_n",
        "prompt_n",
        "prompt_ms",
        "prompt_per_second",
        "predicted_n",
        "predicted_ms",
        "predicted_per_second",
    ];
    assert_eq!(keys(&plain["timings"]), timings);
    assert_eq!((&plain["seed"], &plain["tokens"]), (&json!(7), &json!([1, 2, 3])));
    let again = json(&minfer(base).assert().success());
    assert_eq!((&again["generated"], &again["text"]), (&plain["generated"], &plain["text"]));
    let fresh = [&base[..7], &["--json"]].concat();
    let fresh = json(&minfer(fresh).assert().success());
    assert!(fresh["seed"].is_u64(), "a seed that was not asked for is told");
}

#[test]
fn log_probabilities_are_those_of_logits() {
    let base = ["generate", TINY, "--tokens", "1,2,3", "-n", "2", "--greedy", "--ignore-eos", "--json"];
    let generated = json(&minfer(base.iter().chain(&["--logprobs", "3"])).assert().success());
    let steps = generated["logprobs"].as_array().unwrap();
    assert_eq!(steps.len(), 2);
    let logits =
        json(&minfer(["logits", TINY, "--tokens", "1,2,3", "--json", "--top", "3"]).assert().success());
    for (found, want) in steps[0]["top"].as_array().unwrap().iter().zip(logits["top"].as_array().unwrap()) {
        assert_eq!((&found["id"], &found["logprob"]), (&want["id"], &want["logprob"]));
    }
    for (step, id) in steps.iter().zip(generated["generated"].as_array().unwrap()) {
        assert_eq!((&step["id"], &step["top"][0]["id"]), (id, id), "greedy takes the best");
        assert_eq!(step["logprob"], step["top"][0]["logprob"]);
    }
}

#[test]
fn generate_for_people_shows_text_and_ids() {
    let args = ["generate", TINY, "--tokens", "1,2,3", "-n", "4", "--greedy", "--ignore-eos"];
    let shown = stdout(&minfer(args).assert().success());
    let generated = json(&minfer(args.iter().chain(&["--json"])).assert().success());
    let (text, ids) = shown.trim_end().rsplit_once('\n').unwrap();
    assert_eq!(serde_json::from_str::<Value>(ids).unwrap(), generated["generated"]);
    assert_eq!(text.trim_end_matches('\n'), generated["text"].as_str().unwrap().trim_end_matches('\n'));
}

#[test]
fn perplexity_is_that_of_the_logits() {
    let base = [TINY, "--tokens", "1,2,3,4,5"];
    let found = json(&minfer(["perplexity"].iter().chain(&base).chain(&["--json"])).assert().success());
    assert_eq!(keys(&found), ["perplexity", "deviation", "tokens", "predicted", "n_ctx", "nll"]);
    let more = ["--json", "--all-positions", "--top", "264"];
    let logits = json(&minfer(["logits"].iter().chain(&base).chain(&more)).assert().success());
    for (at, nll) in found["nll"].as_array().unwrap().iter().enumerate() {
        let top = logits["positions"][at]["top"].as_array().unwrap();
        let next = top.iter().find(|it| it["id"] == logits["tokens"][at + 1]).unwrap();
        assert_eq!(figure(nll), -figure(&next["logprob"]));
    }
    assert_eq!((&found["tokens"], &found["predicted"]), (&json!(5), &json!(4)));
    let text = stdout(&minfer(["perplexity"].iter().chain(&base)).assert().success());
    assert!(text.starts_with(&format!("perplexity {:.4} ± ", figure(&found["perplexity"]))), "{text}");
}

#[test]
fn a_text_longer_than_the_context_is_read_in_pieces() {
    let ids = (0..70).map(|i| (i * 7 % 250).to_string()).collect::<Vec<_>>();
    let nll = |ids: &[String]| {
        let args = ["perplexity", TINY, "-c", "32", "--json", "--tokens", &ids.join(",")];
        let found = json(&minfer(args).assert().success());
        assert_eq!(found["n_ctx"], 32);
        found["nll"].as_array().unwrap().clone()
    };
    let pieces: Vec<_> = ids.chunks(32).flat_map(nll).collect();
    assert_eq!(pieces.len(), 70 - 3);
    assert_eq!(nll(&ids), pieces);
    minfer(["perplexity", TINY, "--tokens", "1"]).assert().code(2);
}

#[test]
fn wrong_tokens_are_refused() {
    for command in ["logits", "generate", "perplexity"] {
        for (tokens, code, part) in [
            ("264", 4, "token 264 is outside the vocabulary of 264"),
            ("[]", 4, "the prompt is empty"),
            ("1,x", 4, "'x' is not a token id"),
        ] {
            let assert = minfer([command, TINY, "--tokens", tokens]).assert().code(code);
            assert!(stderr(&assert).contains(part), "{command} {tokens}: {}", stderr(&assert));
            assert_eq!(stdout(&assert), "");
        }
        minfer([command, TINY, "text", "--tokens", "1"]).assert().code(2);
    }
}
