//! The kernels that matter, translated to Metal's language, compiled by g++ over a small shim and run on the processor, give
//! what the device gives. Apple's own compiler is not here: what it alone would refuse stays unseen.

#![allow(clippy::unwrap_used, clippy::print_stderr, reason = "a test may panic and says what it skips")]

use std::path::{Path, PathBuf};
use std::process::Command;
use std::sync::Arc;

use minfer_gguf::TensorType;
use minfer_graph::{Buffer, KvType, RopeScaling, RopeSpec, RopeStyle};
use naga::back::msl;
use naga::proc::{BoundsCheckPolicies, BoundsCheckPolicy};

use super::check::module;
use super::matmul::Sums;
use super::{Kernel, attention, grid, matmul, rope, rows, threads};
use crate::device::{Device, GpuBuffer, Span, WgpuOptions, adapters};

/// Both compute the same operations in the same order; fused products and exponentials may be rounded otherwise.
const TOLERANCE: f32 = 2e-6;

/// Slots of the parameters and of the sizes of operands, behind those of operands.
const PARAMS_SLOT: u8 = 29;
const SIZES_SLOT: u8 = 30;

struct Case {
    kernel: Kernel,
    operands: Vec<Vec<u8>>,
    words: Vec<u32>,
    groups: [u32; 3],
    /// Operands to be compared, and whether their elements are halves.
    results: Vec<(usize, bool)>,
}

/// Numbers between -1 and 1.
fn floats(seed: u64, n: usize) -> Vec<u8> {
    let mut state = seed.wrapping_mul(0x9e37_79b9_7f4a_7c15) | 1;
    let mut next = || {
        state ^= state << 13;
        state ^= state >> 7;
        state ^= state << 17;
        ((state >> 40) as f32 / (1u64 << 23) as f32) - 1.0
    };
    (0..n).flat_map(|_| next().to_le_bytes()).collect()
}

/// Halves from a quarter to a half, of either sign.
fn halves(seed: u64, n: usize) -> Vec<u8> {
    let bits = |f: &[u8]| (u16::from_le_bytes([f[0], f[1]]) & 0x83ff) | 0x3400;
    floats(seed, n).chunks(4).flat_map(|f| bits(f).to_le_bytes()).collect()
}

fn ints(values: &[i32]) -> Vec<u8> {
    values.iter().flat_map(|v| v.to_le_bytes()).collect()
}

fn product(n: usize, sums: Sums) -> Case {
    let (k, n_rows) = (1280, 70);
    let row_bytes = TensorType::Q4_K.row_bytes(k).unwrap();
    let mut w = floats(1, n_rows * row_bytes / 4);
    for block in w.chunks_mut(TensorType::Q4_K.block_bytes()) {
        block[..4].copy_from_slice(&[0x12, 0x20, 0x34, 0x21]);
    }
    w.extend([0; 8]);
    let form = matmul::Form::of(k, n, sums);
    let (rows, cols) = form.extent();
    let [k, row_bytes, n_rows, n_cols] = [k, row_bytes, n_rows, n].map(|v| v as u32);
    Case {
        kernel: matmul::matmul(TensorType::Q4_K, form),
        operands: vec![w, floats(2, (k * n_cols) as usize), vec![0; (4 * n_rows * n_cols) as usize]],
        words: vec![k, row_bytes, n_rows, n_cols, 0, k, 0, n_rows, 0, 0, 0, 0, 0],
        groups: grid(n_rows.div_ceil(rows) as usize, n_cols.div_ceil(cols)),
        results: vec![(2, false)],
    }
}

fn norm() -> Case {
    let (d, n) = (100u32, 3u32);
    let len = (d * n) as usize;
    Case {
        kernel: rows::rms_norm(),
        operands: vec![floats(1, d as usize), floats(3, d as usize), floats(2, len), vec![0; 4 * len]],
        words: vec![d, 1, n, 1, 0, d, 0, d, 1e-5f32.to_bits()],
        groups: grid(n as usize, 1),
        results: vec![(3, false)],
    }
}

fn attend(n_pieces: usize) -> Case {
    let (n, heads, kv_heads, head_dim, block, n_blocks) = (2u32, 4u32, 2u32, 32u32, 32u32, 3u32);
    let region = (n_blocks * block * kv_heads * head_dim) as usize;
    let q = (n * heads * head_dim) as usize;
    let mut operands =
        vec![floats(1, q), ints(&[2, 0, 1]), ints(&[0, 0]), ints(&[70, 71]), vec![0; 4 * q], vec![0; 16]];
    let piece_blocks = n_blocks.div_ceil(n_pieces as u32);
    let piece_bytes = 2 * region / n_blocks as usize * piece_blocks as usize;
    for region in [halves(2, region), halves(3, region)] {
        operands.extend(region.chunks(piece_bytes).map(<[u8]>::to_vec));
    }
    let scale = 0.3f32.to_bits();
    Case {
        kernel: attention::attention(KvType::F16, n_pieces),
        operands,
        words: vec![
            0,
            n,
            heads,
            kv_heads,
            head_dim,
            block,
            n_blocks,
            n_blocks,
            1,
            0,
            0,
            0,
            0,
            0,
            scale,
            piece_blocks,
        ],
        groups: grid(n as usize, heads),
        results: vec![(4, false)],
    }
}

fn store(style: RopeStyle) -> Case {
    let (n, q_dim, head_dim, block, n_slots) = (2u32, 64u32, 32u32, 32u32, 64u32);
    let total = q_dim + 2 * head_dim;
    let spec = RopeSpec {
        style,
        head_dim: head_dim as usize,
        n_rot: head_dim as usize,
        freq_base: 10_000.0,
        scaling: RopeScaling::None,
        freq_factors: false,
    };
    let turns = rope::turns(&spec.frequencies(None).unwrap());
    let region = vec![0; (2 * n_slots * head_dim) as usize];
    let operands = vec![
        turns.iter().flat_map(|w| w.to_le_bytes()).collect(),
        floats(1, total as usize),
        floats(2, (total * n) as usize),
        ints(&[5, 100_000]),
        ints(&[3, 40]),
        vec![0; (4 * q_dim * n) as usize],
        vec![0; 16],
        region.clone(),
        region,
    ];
    let one = 1.0f32.to_bits();
    Case {
        kernel: rope::bias_rope_store(style, true, KvType::F16, 1),
        operands,
        words: vec![0, n, q_dim, 1, head_dim, head_dim, block, n_slots, 0, 0, 0, 0, one, 2],
        groups: threads((n * total / 2) as usize),
        results: vec![(5, false), (7, true), (8, true)],
    }
}

fn on_device(device: &Arc<Device>, case: &Case) -> Vec<Vec<u8>> {
    let mut buffers = Vec::new();
    for bytes in &case.operands {
        let buffer = Arc::new(GpuBuffer::zeroed(device, bytes.len()).unwrap());
        buffer.write(0, bytes).unwrap();
        buffers.push(buffer);
    }
    let spans: Vec<_> = buffers.iter().map(|b| Span::whole(b.clone()).unwrap()).collect();
    let pipeline = device.pipeline(&case.kernel).unwrap();
    let spans: Vec<_> = spans.iter().collect();
    let dispatch = device.dispatch(&pipeline, &spans, &case.words, case.groups).unwrap();
    device.transfer().unwrap().run(device, std::iter::once(&dispatch), &[]).unwrap();
    let read = |b: &Arc<GpuBuffer>| {
        let mut bytes = vec![0; b.bytes()];
        b.read(0, &mut bytes).unwrap();
        bytes
    };
    buffers.iter().map(read).collect()
}

/// The kernel as a C++ file: what it becomes in Metal's language, and a launcher.
fn translated(case: &Case) -> String {
    let (module, info) = module(&case.kernel);
    let mut resources =
        msl::EntryPointResources { immediates_buffer: Some(PARAMS_SLOT), ..Default::default() };
    resources.sizes_buffer = Some(SIZES_SLOT);
    for (_, variable) in module.global_variables.iter() {
        if let Some(binding) = &variable.binding {
            let buffer = Some(binding.binding as u8);
            let target = msl::BindTarget { buffer, mutable: true, ..Default::default() };
            resources.resources.insert(*binding, target);
        }
    }
    let unchecked = BoundsCheckPolicies {
        index: BoundsCheckPolicy::Unchecked,
        buffer: BoundsCheckPolicy::Unchecked,
        ..Default::default()
    };
    let options = msl::Options {
        lang_version: (3, 0),
        fake_missing_bindings: false,
        bounds_check_policies: unchecked,
        zero_initialize_workgroup_memory: false,
        force_loop_bounding: false,
        emit_int_div_checks: false,
        per_entry_point_map: [("main".to_owned(), resources)].into_iter().collect(),
        ..Default::default()
    };
    let written = msl::write_string(&module, &info, &options, &msl::PipelineOptions::default());
    let (source, _) = written.unwrap();
    let launcher = launcher(&source, case.operands.len());
    // Arrays without a size are written as arrays of one element.
    let grown = |line: &str| match line.starts_with("typedef") && line.ends_with("[1];") {
        true => line.replace("[1];", "[1 << 26];"),
        false => line.to_owned(),
    };
    let body: Vec<_> = source.lines().filter(|l| !l.starts_with("#include")).map(grown).collect();
    format!("#include \"shim.h\"\n{}\n{launcher}", body.join("\n"))
}

fn launcher(source: &str, n_operands: usize) -> String {
    let (_, head) = source.split_once("kernel void ").unwrap();
    let (name, rest) = head.split_once('(').unwrap();
    let (params, _) = rest.split_once(") {").unwrap();
    let (mut statics, mut args) = (String::new(), Vec::new());
    for (i, param) in params.split(',').map(str::trim).enumerate() {
        let (declared, attribute) = param.split_once("[[").unwrap_or((param, ""));
        let declared = declared.trim();
        let kind = &declared[..declared.rfind([' ', '&']).unwrap() + 1];
        let kind = format!("std::remove_const_t<std::remove_reference_t<{kind}>>");
        if attribute.starts_with("threadgroup_position") {
            args.push("g".to_owned());
        } else if attribute.starts_with("thread_index_in_threadgroup") {
            args.push("t".to_owned());
        } else if attribute.starts_with("thread_index_in_simdgroup") {
            args.push("t % SUBGROUP".to_owned());
        } else if attribute.starts_with("simdgroup_index") {
            args.push("t / SUBGROUP".to_owned());
        } else if attribute.starts_with("threads_per_simdgroup") {
            args.push("SUBGROUP".to_owned());
        } else if let Some(slot) = attribute.strip_prefix("buffer(") {
            let slot: usize = slot.split(')').next().unwrap().parse().unwrap();
            let at = match slot {
                s if s == usize::from(PARAMS_SLOT) => n_operands,
                s if s == usize::from(SIZES_SLOT) => n_operands + 1,
                s => s,
            };
            args.push(format!("*reinterpret_cast<{kind}*>(buffers[{at}].data())"));
        } else {
            statics += &format!("static {kind} shared_{i};\n");
            args.push(format!("shared_{i}"));
        }
    }
    format!(
        "{statics}static void launch(uint3 g, uint32_t t) {{ {name}({}); }}\n\
         int main(int, char** a) {{\n  body = launch;\n  \
         run_file(a[1], a[2], atoi(a[3]), atoi(a[4]), atoi(a[5]));\n}}\n",
        args.join(", ")
    )
}

fn on_processor(folder: &Path, case: &Case, order: &str) -> Vec<Vec<u8>> {
    let program = folder.join(&case.kernel.name);
    if !program.exists() {
        let file = folder.join(format!("{}.cpp", case.kernel.name));
        std::fs::write(&file, translated(case)).unwrap();
        let shim = Path::new(env!("CARGO_MANIFEST_DIR")).join("tests/msl");
        let mut gcc = Command::new("g++");
        let gcc = gcc.args(["-std=c++17", "-O1", "-ffp-contract=off", "-w", "-I"]).arg(&shim);
        let ran = gcc.arg(&file).arg("-o").arg(&program).output().unwrap();
        let said = String::from_utf8_lossy(&ran.stderr);
        assert!(ran.status.success(), "{}: {said}", case.kernel.name);
    }
    let words: Vec<u8> = case.words.iter().flat_map(|w| w.to_le_bytes()).collect();
    let all = case.operands.iter().chain([&words]).cloned().chain([vec![0; 128]]);
    let input: Vec<u8> = all.flat_map(|b| [&(b.len() as u32).to_le_bytes()[..], &b].concat()).collect();
    let [from, to] = ["in", "out"].map(|n| folder.join(format!("{}.{n}", case.kernel.name)));
    std::fs::write(&from, input).unwrap();
    let mut run = Command::new(&program);
    run.arg(&from).arg(&to).args(case.groups.map(|g| g.to_string())).env("ORDER", order);
    let ran = run.output().unwrap();
    assert!(ran.status.success(), "{}: {}", case.kernel.name, String::from_utf8_lossy(&ran.stderr));
    let mut bytes = &std::fs::read(&to).unwrap()[..];
    let mut take = |n: usize| {
        let (head, rest) = bytes.split_at(n);
        bytes = rest;
        head.to_vec()
    };
    case.operands.iter().map(|b| take(b.len())).collect()
}

fn numbers(bytes: &[u8], halves: bool) -> Vec<f32> {
    let dtype = if halves { TensorType::F16 } else { TensorType::F32 };
    let mut values = vec![0.0; bytes.len() / dtype.block_bytes()];
    minfer_gguf::dequantize(dtype, bytes, &mut values).unwrap();
    values
}

fn tools() -> Option<PathBuf> {
    if Command::new("g++").arg("--version").output().is_err() {
        eprintln!("SKIPPED: g++ is not installed, so nothing was run in Metal's language");
        return None;
    }
    let folder = std::env::temp_dir().join(format!("minfer-msl-{}", std::process::id()));
    std::fs::create_dir_all(&folder).unwrap();
    Some(folder)
}

#[test]
fn kernels_in_metals_language_give_what_the_device_gives() {
    let Some(device) = adapters().first().map(|a| a.name.clone()) else {
        eprintln!("SKIPPED: this machine shows no adapter to compare with");
        return;
    };
    let Some(folder) = tools() else { return };
    let options = WgpuOptions { device: Some(device), ..Default::default() };
    let device = Device::open(&options).unwrap();
    let styles = [RopeStyle::Neox, RopeStyle::Interleaved].map(store);
    let products = [(1, Sums::Alone), (3, Sums::Shared), (20, Sums::Alone)].map(|(n, sums)| product(n, sums));
    let cases = products.into_iter().chain([norm(), attend(1), attend(2)]).chain(styles);
    for case in cases {
        let expected = on_device(&device, &case);
        let found = on_processor(&folder, &case, "forward");
        assert!(on_processor(&folder, &case, "reverse") == found, "{}: a race", case.kernel.name);
        for &(at, halves) in &case.results {
            let (a, b) = (numbers(&found[at], halves), numbers(&expected[at], halves));
            let largest = b.iter().fold(0.0f32, |m, v| m.max(v.abs()));
            let worst = a.iter().zip(&b).fold(0.0f32, |m, (a, b)| m.max((a - b).abs()));
            // A half is rounded to one of its neighbours.
            let tolerance = if halves { 1e-3 } else { TOLERANCE };
            assert!(largest > 0.1, "{}: all but zero", case.kernel.name);
            assert!(worst <= tolerance * largest, "{}: off by {worst} of {largest}", case.kernel.name);
        }
    }
    std::fs::remove_dir_all(&folder).unwrap();
}
