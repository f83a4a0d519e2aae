//! A trace against the float reference's, stage by stage: where they part first is named.

#![allow(clippy::unwrap_used, clippy::print_stderr, reason = "a test may panic and says what it skips")]

mod common;

use std::collections::HashMap;
use std::io::Read;
use std::path::Path;
use std::process::Command;

use common::{COMMITTED, data, load, shared, tiny_models};
use minfer_engine::{Context, ContextParams, Row, TraceSettings};
use minfer_graph::KvType;

/// What the committed traces were made of.
const TOKENS: [u32; 6] = [5, 17, 99, 4, 250, 31];

/// Float weights and a float cache: only the order of additions differs.
const FLOAT_TOLERANCE: f64 = 1e-5;

/// Activations rounded to 8 bits: each product adds an error of this order, and errors add up over the layers.
const QUANTIZED_TOLERANCE: f64 = 0.05;

/// Stages by name, in the order of the file.
type Trace = Vec<(String, Vec<f32>)>;

/// The arrays of an archive of NumPy; those of whole numbers are left out.
fn read_npz(path: &Path) -> Trace {
    let mut zip = zip::ZipArchive::new(std::fs::File::open(path).unwrap()).unwrap();
    (0..zip.len())
        .filter_map(|i| {
            let mut entry = zip.by_index(i).unwrap();
            let name = entry.name().strip_suffix(".npy").unwrap().to_owned();
            let mut bytes = Vec::new();
            entry.read_to_end(&mut bytes).unwrap();
            let (header, data) = bytes[10..].split_at(usize::from(u16::from_le_bytes([bytes[8], bytes[9]])));
            let header = String::from_utf8_lossy(header);
            assert!(header.contains("'fortran_order': False"), "{header}");
            let floats = data.as_chunks::<4>().0.iter().map(|b| f32::from_le_bytes(*b)).collect();
            header.contains("'<f4'").then_some((name, floats))
        })
        .collect()
}

/// The trace that minfer writes of one step in which every token's logits are wanted.
fn traced(model: &Path) -> Trace {
    let folder = tempfile::tempdir().unwrap();
    let path = folder.path().join("trace.npz");
    let params = ContextParams {
        n_ctx: 64,
        n_threads: Some(2),
        kv_type: KvType::F32,
        n_outputs_max: Some(TOKENS.len()),
        trace: Some(TraceSettings { path: path.clone(), nodes: Vec::new() }),
        ..ContextParams::default()
    };
    let mut context = Context::new(&load(model), &params, &mut |_, _| {}).unwrap();
    let seq = context.new_sequence().unwrap();
    let rows: Vec<_> = TOKENS.iter().map(|&token| Row { seq, token, wants_logits: true }).collect();
    context.step(&rows).unwrap();
    context.finish_trace().unwrap();
    let strip = |name: String| name.strip_prefix("0/").unwrap().to_owned();
    read_npz(&path).into_iter().map(|(name, values)| (strip(name), values)).collect()
}

/// How far a stage is off: root mean square of the difference, relative to that of the reference.
fn distance(found: &[f32], reference: &[f32]) -> f64 {
    if found.len() != reference.len() {
        return f64::INFINITY;
    }
    let square = |x: f64| x * x;
    let sum = |f: &dyn Fn(f64, f64) -> f64| -> f64 {
        found.iter().zip(reference).map(|(a, b)| f(f64::from(*a), f64::from(*b))).sum()
    };
    (sum(&|a, b| square(a - b)) / sum(&|_, b| square(b)).max(f64::MIN_POSITIVE)).sqrt()
}

/// The first stage that is off, in the order of execution, and how many stages were compared.
fn first_off(found: &Trace, reference: &Trace, tolerance: f64) -> (Option<(String, f64)>, usize) {
    let reference: HashMap<_, _> = reference.iter().map(|(name, values)| (name, values)).collect();
    let both = found.iter().filter_map(|(name, values)| Some((name, values, reference.get(name)?)));
    let distances: Vec<_> = both.map(|(name, a, b)| (name.clone(), distance(a, b))).collect();
    // What is no number is not within any tolerance.
    let is_off = |(_, d): &&(String, f64)| d.is_nan() || *d > tolerance;
    (distances.iter().find(is_off).cloned(), distances.len())
}

fn tolerance(name: &str) -> f64 {
    let is_float = ["f32", "f16", "bf16"].iter().any(|dtype| name.ends_with(dtype));
    if is_float { FLOAT_TOLERANCE } else { QUANTIZED_TOLERANCE }
}

#[test]
fn every_stage_is_that_of_the_reference() {
    for (name, n_stages) in COMMITTED.into_iter().zip([27, 27, 31]) {
        let found = traced(&data().join(format!("{name}.gguf")));
        let reference = read_npz(&data().join(format!("traces/{name}.npz")));
        assert_eq!(reference.len(), n_stages);
        let (off, n) = first_off(&found, &reference, tolerance(name));
        assert_eq!(off, None, "{name}: the first stage that is off");
        assert_eq!(n, n_stages, "{name}: every stage of the reference has a node");
    }
}

#[test]
fn the_first_stage_that_is_off_is_named() {
    let name = "llama-q4_1";
    let found = traced(&data().join(format!("{name}.gguf")));
    for stage in ["embed", "0.k_rope", "1.ffn_inner", "logits"] {
        let mut reference = read_npz(&data().join(format!("traces/{name}.npz")));
        let after = reference.iter_mut().skip_while(|(name, _)| name != stage);
        after.for_each(|(_, values)| values.iter_mut().for_each(|x| *x *= 1.1));
        let (off, _) = first_off(&found, &reference, tolerance(name));
        assert_eq!(off.unwrap().0, stage);
    }
}

/// All tiny models, where the reference itself can be run.
#[test]
fn the_reference_agrees_on_every_tiny_model() {
    let Some(oracle) = shared("oracle/oracle.py") else { return };
    let imports = Command::new("python3").args(["-c", "import numpy, gguf"]).output();
    if !imports.is_ok_and(|out| out.status.success()) {
        eprintln!("skipped: no python3 with numpy and gguf");
        return;
    }
    let folder = tempfile::tempdir().unwrap();
    for (model, _) in tiny_models() {
        let name = model.file_stem().unwrap().to_string_lossy().into_owned();
        let out = folder.path().join("reference.npz");
        let tokens = TOKENS.map(|t| t.to_string()).join(",");
        let mut command = Command::new("python3");
        command.arg(&oracle).arg("trace").arg(&model).args(["--tokens", &tokens, "--out"]).arg(&out);
        let run = command.output().unwrap();
        assert!(run.status.success(), "{}", String::from_utf8_lossy(&run.stderr));
        let (off, n) = first_off(&traced(&model), &read_npz(&out), tolerance(&name));
        assert_eq!(off, None, "{name}: the first stage that is off");
        assert!(n > 12, "{name}: {n} stages");
    }
}
