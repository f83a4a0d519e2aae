//! Models whose weights a device reads where the file is mapped: the bits of copies, in every architecture and type, and a plan
//! that says what it takes.

#![cfg(feature = "gpu")]
#![allow(clippy::unwrap_used, clippy::print_stderr, reason = "a test may panic and says what it skips")]

mod common;

use common::*;
use minfer_engine::memory::{Plan, PlanPart};
use minfer_engine::{Context, ContextParams, GpuLayers, LoadOptions, Model, devices};
use minfer_graph::Backend;

/// A device that can, if there is one.
fn device() -> Option<String> {
    let all = devices();
    let can =
        |d: &&minfer_engine::DeviceInfo| d.facts.iter().any(|(_, value)| value.starts_with("read in place"));
    let found = all.iter().filter(|d| d.backend != Backend::CPU).find(can);
    if found.is_none() {
        eprintln!("SKIPPED: this machine shows no adapter that reads weights in place");
    }
    found.map(|d| d.name.clone())
}

fn on(device: &str, n_layers: usize, gpu_import: bool) -> ContextParams {
    let gpu_layers = GpuLayers::Count(n_layers);
    ContextParams { gpu_layers, device: Some(device.into()), gpu_import, n_threads: Some(2), ..small() }
}

/// Logits after every token of a prompt, and of decode steps.
fn bits(context: &mut Context, prompt: &[u32]) -> Vec<u32> {
    let seq = context.new_sequence().unwrap();
    let (head, tail) = prompt.split_at(prompt.len() - 2);
    let mut rows = all_logits(context, seq, head, 64);
    rows.extend(all_logits(context, seq, tail, 1));
    rows.iter().flatten().map(|x| x.to_bits()).collect()
}

#[test]
fn every_architecture_and_type_gives_the_bits_of_copies() {
    let Some(device) = device() else { return };
    let threads = devices().into_iter().find(|d| d.name == device).unwrap();
    eprintln!("{:?}", threads.facts);
    let mut n_models = 0;
    for (path, expected) in tiny_models() {
        let name = path.file_stem().unwrap().to_string_lossy().into_owned();
        let (model, prompt) = (load(&path), ids(&expected["tokens"]));
        for n_layers in [1, usize::MAX] {
            let [there, copied] = [true, false].map(|import| on(&device, n_layers, import));
            let plan = Plan::new(&model, &there).unwrap();
            let gpu = plan.gpu().unwrap();
            assert!(gpu.in_place > 0 && gpu.uploaded_because.is_none(), "{name}: {gpu}");
            let copies = Plan::new(&model, &copied).unwrap();
            assert!(copies.gpu().unwrap().weights > gpu.weights, "{name}: {gpu}");
            let mut context = context(&model, &there);
            let found = bits(&mut context, &prompt);
            assert!(found == bits(&mut self::context(&model, &copied), &prompt), "{name}, {n_layers} layers");
            // What the first context has is there for the second.
            assert_eq!(Plan::new(&model, &there).unwrap().gpu().unwrap().in_place, 0, "{name}");
        }
        n_models += 1;
    }
    assert!(n_models >= 3);
}

#[test]
fn the_same_holds_at_other_subgroup_widths() {
    let Some(device) = device() else { return };
    if !device.contains("llvmpipe") {
        eprintln!("SKIPPED: {device} has one subgroup width");
        return;
    }
    for (bits, threads) in [("128", 4), ("512", 16)] {
        let ran = std::process::Command::new(std::env::current_exe().unwrap())
            .args(["--exact", "every_architecture_and_type_gives_the_bits_of_copies", "--nocapture"])
            .env("LP_NATIVE_VECTOR_WIDTH", bits)
            .output()
            .unwrap();
        let said = String::from_utf8_lossy(&ran.stderr);
        assert!(ran.status.success(), "with {threads} threads in step: {said}");
        if !said.contains(&format!("(\"threads in step\", \"{threads} to {threads}\")")) {
            eprintln!("SKIPPED: no subgroups of {threads} on this machine");
        }
    }
}

#[test]
fn the_plan_says_what_is_read_in_place_and_why_something_is_not() {
    let Some(device) = device() else { return };
    let path = data().join("llama-q4_1.gguf");
    let model = load(&path);
    let plan = |params: &ContextParams, model| Plan::new(model, params).unwrap();
    let there = plan(&on(&device, usize::MAX, true), &model);
    let file = std::fs::metadata(&path).unwrap().len() as usize;
    let gpu = there.gpu().unwrap();
    assert!(gpu.in_place > file / 2 && gpu.in_place <= file.next_multiple_of(4096), "{gpu}");
    assert!(gpu.to_string().contains("of the file read in place"), "{gpu}");
    // The device works in the machine's memory, so pages that stay count there.
    assert!(there.bytes(PlanPart::File) >= gpu.in_place);
    let copied = plan(&on(&device, usize::MAX, false), &model);
    assert!(copied.bytes(PlanPart::Weights) > there.bytes(PlanPart::Weights) + gpu.in_place / 2);
    let said = copied.gpu().unwrap().to_string();
    assert!(
        said.contains("copied from the file (switched off by MINFER_NO_GPU_IMPORT or gpu_import)"),
        "{said}"
    );
    let read = Model::load(&path, &LoadOptions { mmap: false, ..LoadOptions::default() }).unwrap();
    let read = plan(&on(&device, usize::MAX, true), &read);
    assert_eq!(read.gpu().unwrap().uploaded_because.as_deref(), Some("the file is not mapped"));
    assert_eq!(read.gpu().unwrap().in_place, 0);
}
