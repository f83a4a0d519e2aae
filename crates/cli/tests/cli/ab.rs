//! `minfer ab`: equal bits where nothing changed, the right node where something did.

use std::fs;
use std::path::Path;

use serde_json::Value;

use crate::support::{TINY, json, minfer, real, stderr, stdout};

const MODELS: [&str; 3] = ["qwen2-tied-q4_0", "llama-q4_1", "qwen3-yarn-bf16"];

fn model(name: &str) -> String {
    let data = Path::new(env!("CARGO_MANIFEST_DIR")).join("../../tests/data");
    data.join(format!("{name}.gguf")).to_str().unwrap().to_owned()
}

#[test]
fn settings_that_change_nothing_are_identical() {
    for name in MODELS {
        let path = model(name);
        for b in ["fuse=off", "threads=3", "isa=scalar", "chunk=3", "chunk=1,fuse_qkv=off", "ctx=256"] {
            let args = ["ab", &path, "--tokens", "1,2,3,4,5,6,7", "-n", "3", "--a", "threads=1", "--b", b];
            let text = stdout(&minfer(args).assert().code(0));
            assert!(
                text.starts_with(&format!("a: threads=1\nb: {b}\n7 tokens of the prompt and 3 ")),
                "{text}"
            );
            assert!(
                text.ends_with("\nidentical: every bit is equal, and so is every token chosen\n"),
                "{text}"
            );
        }
    }
}

#[test]
fn two_placements_can_be_compared() {
    let shown = stdout(&minfer(["devices"]).assert().success());
    if !shown.contains("llvmpipe") {
        eprintln!("SKIPPED: this machine has no software Vulkan, so no two placements were compared");
        return;
    }
    let path = model("qwen3-yarn-bf16");
    let device = "device=llvmpipe";
    let compare = |a: &str, b: &str| {
        let (a, b) = (format!("{a},{device}"), format!("{b},{device}"));
        let args = ["ab", &path, "--tokens", "1,2,3,4,5", "-n", "2", "--a", &a, "--b", &b, "--json"];
        json(&minfer(args).assert())
    };
    assert_eq!(compare("gpu_layers=1", "gpu_layers=1,fuse=off,chunk=2")["identical"], true);
    // Copies, and weights read where the file is mapped.
    assert_eq!(compare("gpu_layers=all", "gpu_layers=all,gpu_import=off")["identical"], true);
    // Sums are added in another order there.
    let report = compare("gpu_layers=0", "gpu_layers=all");
    assert_eq!(report["identical"], false);
    let backends = [&report["first"]["a"]["backend"], &report["first"]["b"]["backend"]];
    assert!(backends[0] != backends[1], "{report}");
    assert!(report["first"]["absolute"]["size"].as_f64().unwrap() < 1e-2, "{report}");
    let growth = report["growth"].as_array().unwrap();
    assert_eq!(growth.last().unwrap()["b"]["name"], "logits");
}

#[test]
fn another_type_of_the_cache_is_found_where_it_is_stored() {
    let path = model("llama-q4_1");
    let args = ["ab", &path, "--tokens", "1,2,3,4,5", "-n", "2", "--b", "kv=f32"];
    let text = stdout(&minfer(args).assert().code(1));
    for part in [
        "values differ; the first node that does:\n  node       0.k_store (KvcacheStore on cpu)\n  part       the keys in the cache\n",
        "\n  differing  ",
        "\n  absolute   ",
        "\n  relative   ",
        "\n  ulp        ",
        "\nhow it grows\n",
        "\n  1.out ",
        "\n  logits ",
    ] {
        assert!(text.contains(part), "{part:?} is not in\n{text}");
    }
    let report = json(&minfer(args.iter().chain(&["--json"])).assert().code(1));
    assert_eq!(report["identical"], false);
    assert_eq!((&report["n_prompt"], report["tokens"].as_array().unwrap().len()), (&Value::from(5), 7));
    assert_eq!(report["first"]["a"]["name"], "0.k_store");
    assert_eq!(report["first"]["part"], "the keys in the cache");
    assert!(report["first"]["absolute"]["size"].as_f64().unwrap() > 0.0);
    assert_eq!(report["growth"].as_array().unwrap().last().unwrap()["a"]["name"], "logits");
    assert_eq!(report["choices"].as_array().unwrap().len(), 3);
}

#[test]
fn another_file_of_the_model_is_found_at_its_first_node() {
    let (a, folder) = (model("llama-q4_1"), tempfile::tempdir().unwrap());
    let facts = json(&minfer(["info", &a, "--json"]).assert().success());
    for (tensor, node) in [("blk.1.attn_k.weight", "1.k"), ("blk.0.ffn_down.weight", "0.ffn_out")] {
        let facts = facts["tensors"].as_array().unwrap().iter().find(|t| t["name"] == tensor).unwrap();
        let mut bytes = fs::read(&a).unwrap();
        // Behind two halves come the codes of a block: the first rows get others.
        let offset = facts["offset"].as_u64().unwrap() as usize;
        (0..20).for_each(|block| bytes[offset + block * 20 + 4] ^= 0x77);
        let other = folder.path().join("other.gguf");
        fs::write(&other, bytes).unwrap();
        let b = format!("model={}", other.display());
        let args = ["ab", &a, "--tokens", "1,2,3", "-n", "1", "--b", &b, "--json"];
        let report = json(&minfer(args).assert().code(1));
        assert_eq!(report["n_misfits"], 0);
        assert_eq!(report["first"]["a"]["name"], node);
        assert_eq!(report["growth"].as_array().unwrap().last().unwrap()["a"]["name"], "logits");
    }
}

#[test]
fn other_models_do_not_fit() {
    let (a, b) = (model("llama-q4_1"), format!("model={TINY}"));
    let text = stdout(&minfer(["ab", &a, "--tokens", "1,2,3", "--b", &b]).assert().code(1));
    assert!(text.contains("these are not two files of one model"), "{text}");
}

#[test]
fn real_models_are_identical_under_every_setting() {
    for file in ["smollm2-135m-instruct-q4_1.gguf", "qwen2.5-coder-0.5b-instruct-q4_k_m.gguf"] {
        let Some(path) = real(file) else { continue };
        for b in ["fuse=off", "threads=1,chunk=5", "isa=avx2"] {
            let args = ["ab", path.to_str().unwrap(), "The quick brown fox jumps over", "-n", "2", "--b", b];
            let assert = minfer(args).assert();
            let text = stdout(&assert);
            // A machine without AVX2 says so.
            assert!(
                assert.get_output().status.code() == Some(0) || stderr(&assert).contains("avx2"),
                "{file} {b}: {text}"
            );
        }
    }
}

#[test]
fn wrong_requests_are_refused() {
    for (args, code, part) in [
        (&["--b", "stage=built"][..], 2, "setting 'stage' is about graphs"),
        (&["--b", "thread=1"], 2, "'thread=1' is not a setting"),
        (&["--b", "thread=1"], 2, "(did you mean threads, threads_batch?)"),
        (&["--b", "threads=0"], 2, "setting 'threads' is '0', expected a whole number from 1 to "),
        (
            &[],
            2,
            "both sides have the same settings, so there is nothing to compare\nhint: say with --a or --b",
        ),
        (
            &["--a", "threads=2,fuse=off", "--b", "fuse=off, threads=2"],
            2,
            "both sides have the same settings",
        ),
        (&["--b", "model=/nonexistent.gguf"], 3, "/nonexistent.gguf"),
        (&["--b", "ctx=32", "-n", "100"], 4, "do not fit into the context of 32"),
    ] {
        let base = ["ab", TINY, "--tokens", "1,2,3"];
        let assert = minfer(base.iter().chain(args)).assert().code(code);
        assert!(stderr(&assert).contains(part), "{args:?}: {}", stderr(&assert));
        assert_eq!(stdout(&assert), "");
    }
}
