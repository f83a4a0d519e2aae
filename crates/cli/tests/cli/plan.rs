//! `minfer plan`, and the limit that it explains.

use crate::support::*;

#[test]
fn the_parts_add_up_and_the_table_shows_them() {
    let plan = json(&minfer(["plan", TINY, "--json", "-c", "64"]).assert().success());
    let parts = ["program", "file", "weights", "kv", "activations", "scratch", "logits", "graphs"];
    let sum: u64 = parts.iter().map(|part| plan[*part].as_u64().unwrap()).sum();
    assert_eq!(plan["total"].as_u64(), Some(sum));
    assert_eq!(plan["missing"].as_u64(), Some(sum - plan["program"].as_u64().unwrap()));
    assert!(plan["weights"].as_u64().unwrap() > 0 && plan["kv"].as_u64().unwrap() > 0);
    assert_eq!(plan["fits"], true);
    let table = stdout(&minfer(["plan", TINY]).assert().success());
    for name in ["memory for", "weights", "KV cache", "activations", "all"] {
        assert!(table.lines().any(|line| line.starts_with(name)), "{table}");
    }
}

#[test]
fn slots_context_and_cache_type_change_the_cache() {
    let kv = |args: &[&str]| {
        let args = ["plan", TINY, "--json", "-c", "256"].iter().chain(args);
        json(&minfer(args).assert().success())["kv"].as_u64().unwrap()
    };
    let one = kv(&[]);
    assert_eq!(kv(&["-np", "4"]), 4 * one);
    assert_eq!(kv(&["-c", "512"]), 2 * one);
    assert_eq!(kv(&["-ctk", "f32"]), 2 * one);
}

#[test]
fn what_does_not_fit_is_refused_with_what_would() {
    let args = ["plan", TINY, "-c", "1000000", "-np", "16", "--memory", "300M"];
    let refused = minfer(args).assert().code(5);
    assert!(stdout(&refused).contains("does not fit: a limit of 300.0 MiB has "));
    let message = stderr(&refused);
    assert!(message.contains("the largest context that fits is "), "{message}");
    // The same limit stops a run, and the context that was named goes.
    let largest = message.split("the largest context that fits is ").nth(1).unwrap();
    let largest: usize = largest.split(|c: char| !c.is_ascii_digit()).next().unwrap().parse().unwrap();
    let run = |n_ctx: usize| {
        let n_ctx = n_ctx.to_string();
        minfer(["plan", TINY, "-np", "16", "-c", &n_ctx, "--memory", "300M"]).assert()
    };
    run(largest - 1024).success();
    let hinted = message.split("hint: -c ").nth(1).unwrap().split(' ').next().unwrap();
    run(hinted.parse().unwrap()).success();
    run(largest * 2).code(5);
    let run = minfer(["run", TINY, "-p", "x", "-n", "1", "--memory", "1M"]).assert().code(5);
    assert!(stderr(&run).contains("a smaller model is needed"), "{}", stderr(&run));
    minfer(["run", TINY, "-p", "x", "-n", "1", "--memory", "1GiB"]).assert().success();
}

#[test]
fn the_largest_context_is_shown_when_the_asked_one_fits_as_well() {
    let args = ["plan", TINY, "-c", "64", "-np", "16", "--memory", "300M"];
    let plan = json(&minfer(args.iter().chain(&["--json"])).assert().success());
    let largest = plan["largest_ctx"].as_u64().unwrap();
    assert!(largest > 1000 && plan["fits"] == true, "{plan}");
    let shown = stdout(&minfer(args).assert().success());
    let line = shown.lines().find(|line| line.starts_with("the largest context that fits is ")).unwrap();
    assert!(line.ends_with(&format!("; the model was trained for {}", plan["n_ctx_train"])), "{line}");
    let run = |n_ctx: u64| {
        minfer(["plan", TINY, "-np", "16", "--memory", "300M", "-c", &n_ctx.to_string()]).assert()
    };
    run(largest - 1024).success();
    run(largest + 4096).code(5);
    // Where nothing fits, that is shown in its place.
    let refused = stdout(&minfer(["plan", TINY, "--memory", "1M"]).assert().code(5));
    assert!(refused.ends_with("no context fits\n"), "{refused}");
}

#[test]
fn sizes_that_make_no_sense_are_usage_errors() {
    for size in ["", "x", "-1", "0", "8 parsecs"] {
        let refused = minfer(["plan", TINY, "--memory", size]).assert().code(2);
        assert!(stderr(&refused).contains("8GiB"), "{}", stderr(&refused));
    }
    minfer(["plan", TINY, "-np", "0"]).assert().code(2);
}

#[test]
fn what_a_device_reads_in_place_is_said_and_why_it_does_not() {
    let devices = stdout(&minfer(["devices", "-v"]).assert().success());
    if !devices.contains("llvmpipe")
        || !devices.contains("weights of a mapped file: read in place, in multiples of")
    {
        eprintln!("SKIPPED: this machine has no software Vulkan that reads files in place");
        return;
    }
    assert!(devices.contains("most memory of one operand: 128.0 MiB"), "{devices}");
    let model = concat!(env!("CARGO_MANIFEST_DIR"), "/../../tests/data/llama-q4_1.gguf");
    let args = ["plan", model, "-ngl", "all", "--device", "llvmpipe"];
    let text = stdout(&minfer(args).assert().success());
    assert!(text.contains("MiB of the file read in place, KV cache"), "{text}");
    let copied = stdout(&minfer(args).env("MINFER_NO_GPU_IMPORT", "1").assert().success());
    assert!(
        copied.contains("copied from the file (switched off by MINFER_NO_GPU_IMPORT or gpu_import)"),
        "{copied}"
    );
    let gpu = &json(&minfer(args.iter().chain(&["--json"])).assert().success())["gpu"];
    assert!(gpu["in_place"].as_u64().unwrap() > gpu["weights"].as_u64().unwrap(), "{gpu}");
    assert!(gpu["uploaded_because"].is_null(), "{gpu}");
    // A run says the same.
    let run = ["run", model, "-p", "a", "-n", "1", "-v", "-ngl", "all", "--device", "llvmpipe", "-no-cnv"];
    let said = stderr(&minfer(run).assert().success());
    assert!(said.contains("MiB of the file read in place, KV cache"), "{said}");
}
