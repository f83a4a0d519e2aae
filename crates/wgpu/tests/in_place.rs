//! Weights that the device reads where their file is mapped: the bits of copies, whatever the file looks like at its ends, and
//! one clear answer where that cannot be.

#![allow(clippy::unwrap_used, clippy::print_stderr, reason = "a test may panic and says what it skips")]

mod common;

use std::path::Path;
use std::sync::Arc;

use common::{Random, device_name, params, random_blocks};
use minfer_gguf::{Gguf, GgufWriter, MappedBytes, Metadata, OpenOptions, TensorInfo, TensorType, Value};
use minfer_graph::{
    BackendDriver, BuildError, ComputeGraph, DType, GraphBuilder, GraphParams, InPlace, InputData,
    KernelFault, KvType, Policy, Registry, Scheduler, StepError, WeightData, WeightRef, WeightSource,
};
use minfer_wgpu::{Faults, WgpuDriver, WgpuOptions, adapters};

const K: usize = 256;
const PAGE: usize = 4096;

/// The files of a model as a source of weights.
struct File(Vec<Gguf>, u64);

impl File {
    fn open(path: &Path, version: u64) -> File {
        File(vec![Gguf::open(path).unwrap()], version)
    }

    fn tensors(&self) -> impl Iterator<Item = (&Gguf, &TensorInfo)> {
        self.0.iter().flat_map(|file| file.tensors().map(move |tensor| (file, tensor)))
    }

    fn find(&self, name: &str) -> Option<(&Gguf, &TensorInfo)> {
        self.tensors().find(|(_, tensor)| tensor.name == name)
    }
}

impl WeightSource for File {
    fn version(&self) -> u64 {
        self.1
    }

    fn weight(&self, name: &str) -> Option<WeightData<'_>> {
        let (file, tensor) = self.find(name)?;
        let shape = [tensor.shape[0], tensor.shape[1], 1, 1];
        Some(WeightData { dtype: tensor.dtype, shape, bytes: file.data(tensor) })
    }

    fn mapped(&self, name: &str) -> Option<MappedBytes> {
        let (file, tensor) = self.find(name)?;
        file.mapped(tensor)
    }
}

/// A file of matrices with as many rows as are given for each; `pad` bytes of metadata move them about.
fn write(path: &Path, matrices: &[(TensorType, usize)], alignment: u32, pad: usize) {
    write_named(path, "w", matrices, alignment, pad);
}

fn write_named(path: &Path, name: &str, matrices: &[(TensorType, usize)], alignment: u32, pad: usize) {
    let mut metadata = Metadata::new();
    metadata.set("general.alignment", Value::U32(alignment));
    metadata.set("pad", Value::String("x".repeat(pad)));
    let mut writer = GgufWriter::new(metadata).unwrap();
    for (i, (dtype, rows)) in matrices.iter().enumerate() {
        writer.add_tensor(&format!("{name}{i}"), &[K, *rows], *dtype).unwrap();
    }
    let mut data = writer.start(std::fs::File::create(path).unwrap()).unwrap();
    let mut random = Random::new(11);
    for (dtype, rows) in matrices {
        data.write(&random_blocks(*dtype, K * rows, &mut random)).unwrap();
    }
    data.finish().unwrap();
}

/// Every type that kernels read, in sizes that end anywhere.
fn all_types(driver: &WgpuDriver) -> Vec<(TensorType, usize)> {
    let op = minfer_graph::Op::MatMul;
    let types = TensorType::all().filter(|t| driver.supports_op(&op, *t).is_yes());
    types.enumerate().map(|(i, t)| (t, 33 + 7 * i)).collect()
}

fn open(faults: Faults, import: bool) -> Option<Arc<WgpuDriver>> {
    let device = device_name()?;
    let adapter = adapters().into_iter().find(|a| a.name == device)?;
    if let Err(reason) = &adapter.in_place {
        eprintln!("SKIPPED: {device} reads no file in place, {reason}");
        return None;
    }
    let options = WgpuOptions { device: Some(device), faults, import, ..WgpuOptions::default() };
    Some(Arc::new(WgpuDriver::open(&options).unwrap()))
}

fn refs(source: &File) -> Vec<WeightRef> {
    let tensors = source.tensors().map(|(_, tensor)| tensor);
    let shape = |s: &[usize]| [s[0], s[1], 1, 1];
    tensors
        .map(|t| WeightRef { name: t.name.as_str().into(), dtype: t.dtype, shape: shape(&t.shape) })
        .collect()
}

/// Products of all matrices with `n` columns, one behind the other in one value.
fn describe(all: &[WeightRef], n: usize) -> Result<ComputeGraph, BuildError> {
    let mut b = GraphBuilder::new();
    let x = b.input("x", [K, n, 1, 1], DType::F32);
    let products: Vec<_> = all.iter().map(|w| b.matmul(&format!("{}_product", w.name), x, w)).collect();
    products.into_iter().for_each(|p| b.output(p));
    b.finish()
}

struct Runner {
    scheduler: Scheduler,
    source: Arc<File>,
}

impl Runner {
    fn new(driver: &Arc<WgpuDriver>, source: File) -> Runner {
        let mut registry = Registry::new();
        registry.register(driver.clone() as Arc<dyn BackendDriver>);
        let source = Arc::new(source);
        Runner { scheduler: Scheduler::new(registry, source.clone(), Vec::new()), source }
    }

    /// The bits of every product, for one column and for many.
    fn bits(&mut self) -> Result<Vec<u32>, StepError> {
        let all = refs(&self.source);
        let mut bits = Vec::new();
        for n in [1, 9] {
            for first in 0..all.len() {
                // Only the first output is read, so each takes a turn; the weights are loaded with the first graph.
                let mut turned = all.clone();
                turned.rotate_left(first);
                let rows = turned[0].shape[1];
                let source = move |_: &GraphParams, _: &Policy<'_>| describe(&turned, n);
                let mut params = params(n, KvType::F32, 1);
                params.weights_version = (first * 2 + usize::from(n > 1)) as u64;
                let x = Random::new(5).units(K * n);
                let mut out = vec![0.0; rows * n];
                self.scheduler.step(&source, &params, &[("x", InputData::F32(&x))], &mut out, None)?;
                assert!(out.iter().any(|v| v.abs() > 1e-3), "all but zero");
                bits.extend(out.iter().map(|v| v.to_bits()));
            }
        }
        Ok(bits)
    }
}

/// What the driver says of all weights of the source.
fn planned(driver: &WgpuDriver, source: &File) -> (minfer_graph::WeightBytes, InPlace) {
    let (all, op) = (refs(source), minfer_graph::Op::MatMul);
    let usage = |w| minfer_graph::WeightUse { name: w, op: &op, index: 0 };
    let uses: Vec<_> = all.iter().map(|w| (usage(&*w.name), w)).collect();
    (driver.weight_bytes(&uses, source), driver.in_place(&uses, source))
}

#[test]
fn weights_in_place_give_the_bits_of_copies() {
    let (Some(there), Some(copied)) = (open(Faults::default(), true), open(Faults::default(), false)) else {
        return;
    };
    eprintln!("subgroups of {}", there.adapter().subgroup_sizes.0);
    let (folder, matrices) = (tempfile::tempdir().unwrap(), all_types(&there));
    assert_eq!(matrices.len(), 16);
    // Offsets that are no multiples of what bindings begin at, and those that are.
    for (version, alignment) in [(1, 8), (2, 32), (3, 256)] {
        let path = folder.path().join("all.gguf");
        write(&path, &matrices, alignment, 13);
        let source = || File::open(&path, version);
        let expected = Runner::new(&copied, source()).bits().unwrap();
        let (bytes, answer) = planned(&there, &source());
        assert_eq!((bytes.own, answer), (0, InPlace::Yes));
        let before = there.counts();
        assert!(Runner::new(&there, source()).bits().unwrap() == expected, "alignment {alignment}");
        let after = there.counts();
        assert_eq!((after.imported - before.imported) as usize, bytes.in_place, "alignment {alignment}");
        let n_bytes: usize = source().tensors().map(|(_, t)| t.n_bytes()).sum();
        assert!((n_bytes..n_bytes + 3 * PAGE).contains(&bytes.in_place), "{bytes:?} of {n_bytes}");
        // What is there takes nothing more.
        assert_eq!(planned(&there, &source()).0, minfer_graph::WeightBytes::default());
    }
    let (bytes, answer) = planned(&copied, &File::open(&folder.path().join("all.gguf"), 9));
    assert!(matches!(answer, InPlace::No(reason) if reason.contains("gpu_import")));
    assert!(bytes.in_place == 0 && bytes.own > 0);
    assert_eq!(copied.counts().imported, 0);
}

#[test]
fn the_same_holds_at_other_subgroup_widths() {
    common::at_other_widths("weights_in_place_give_the_bits_of_copies");
}

#[test]
fn a_file_may_end_anywhere_in_its_last_page() {
    let (Some(there), Some(copied)) = (open(Faults::default(), true), open(Faults::default(), false)) else {
        return;
    };
    let folder = tempfile::tempdir().unwrap();
    let path = folder.path().join("end.gguf");
    // 34 bytes for 32 elements: rows end in the middle of words. The file ends with the last row.
    let matrices = [(TensorType::Q8_0, 31), (TensorType::Q6_K, 17)];
    let n_bytes: usize = matrices.iter().map(|(t, rows)| t.row_bytes(K).unwrap() * rows).sum();
    let mut ends = std::collections::BTreeSet::new();
    for (i, pad) in (0..PAGE).step_by(PAGE / 4).chain([PAGE - 8, PAGE - 16]).enumerate() {
        write(&path, &matrices, 8, pad);
        // So that one file ends with a page.
        let over = std::fs::metadata(&path).unwrap().len() as usize % PAGE;
        if i == 0 {
            write(&path, &matrices, 8, pad + PAGE - over);
        }
        let len = std::fs::metadata(&path).unwrap().len() as usize;
        assert!(len > n_bytes);
        ends.insert(len % PAGE);
        let source = || File::open(&path, 100 + i as u64);
        let expected = Runner::new(&copied, source()).bits().unwrap();
        let (bytes, _) = planned(&there, &source());
        assert_eq!(bytes.own, 0);
        assert!(Runner::new(&there, source()).bits().unwrap() == expected, "a file of {len} bytes");
    }
    assert!(ends.len() > 3 && ends.iter().any(|end| *end < 8), "{ends:?}");
}

#[test]
fn what_lies_in_no_window_is_copied_and_counted() {
    let Some(copied) = open(Faults::default(), false) else { return };
    let folder = tempfile::tempdir().unwrap();
    let path = folder.path().join("windows.gguf");
    let matrices =
        [(TensorType::Q4_0, 40), (TensorType::F16, 90), (TensorType::Q8_0, 50), (TensorType::F32, 60)];
    write(&path, &matrices, 32, 0);
    let source = |version| File::open(&path, version);
    let expected = Runner::new(&copied, source(1)).bits().unwrap();
    let cases = [
        // Several windows, and what lies between them.
        Faults { import_bytes: Some(16 * PAGE), ..Faults::default() },
        // Nothing fits.
        Faults { import_bytes: Some(PAGE), ..Faults::default() },
        // Matrices in parts, each of which has its place.
        Faults { binding: Some(9 << 10), ..Faults::default() },
        // Coarse pieces, which leave the map at its ends.
        Faults { import_alignment: Some(8 * PAGE), ..Faults::default() },
    ];
    for (i, faults) in cases.into_iter().enumerate() {
        let Some(driver) = open(faults, true) else { return };
        let (bytes, answer) = planned(&driver, &source(1));
        let before = driver.counts();
        assert!(Runner::new(&driver, source(1)).bits().unwrap() == expected, "{faults:?}");
        let after = driver.counts();
        assert_eq!(after.imported as usize, bytes.in_place, "{faults:?}");
        // Node values are allocated as well.
        assert!((after.allocated - before.allocated) as usize >= bytes.own, "{faults:?}");
        match i {
            0 => assert!(bytes.in_place > 0 && bytes.own > 0, "{bytes:?}"),
            1 => assert!(bytes.in_place == 0 && bytes.own > 0 && answer == InPlace::Yes, "{bytes:?}"),
            2 => assert!(bytes.in_place > 0 && bytes.own == 0, "{bytes:?}"),
            _ => assert!(bytes.own > 0, "{bytes:?}"),
        }
    }
}

#[test]
fn each_file_of_a_model_has_its_own_windows() {
    let (Some(there), Some(copied)) = (open(Faults::default(), true), open(Faults::default(), false)) else {
        return;
    };
    let folder = tempfile::tempdir().unwrap();
    let paths = ["first.gguf", "second.gguf"].map(|name| folder.path().join(name));
    write_named(&paths[0], "w", &[(TensorType::Q4_0, 40), (TensorType::F16, 30)], 32, 0);
    write_named(&paths[1], "v", &[(TensorType::Q8_0, 50)], 32, 100);
    let source = || File(paths.iter().map(|path| Gguf::open(path).unwrap()).collect(), 1);
    let expected = Runner::new(&copied, source()).bits().unwrap();
    let held = there.counts().imported as usize;
    let source = source();
    let (bytes, answer) = planned(&there, &source);
    assert!(bytes.own == 0 && answer == InPlace::Yes, "{bytes:?}");
    assert!(Runner::new(&there, source).bits().unwrap() == expected);
    assert_eq!(there.counts().imported as usize - held, bytes.in_place);
    let lens = paths.map(|path| std::fs::metadata(path).unwrap().len() as usize);
    assert!(
        bytes.in_place > lens[0] && bytes.in_place <= lens.iter().map(|n| n.next_multiple_of(PAGE)).sum()
    );
}

#[test]
fn a_driver_that_refuses_pages_of_files_gets_copies_and_says_so() {
    let (Some(driver), Some(copied)) = (
        open(Faults { refuse_import_after: Some(0), ..Faults::default() }, true),
        open(Faults::default(), false),
    ) else {
        return;
    };
    let folder = tempfile::tempdir().unwrap();
    let path = folder.path().join("refused.gguf");
    write(&path, &[(TensorType::Q4_K, 40)], 32, 0);
    let source =
        |mmap| File(vec![Gguf::open_with(&path, &OpenOptions { mmap }).unwrap()], 2 - u64::from(mmap));
    let (bytes, answer) = planned(&driver, &source(true));
    assert!(matches!(&answer, InPlace::No(reason) if reason.contains("refused by the test")), "{answer:?}");
    assert!(bytes.own > 0 && bytes.in_place == 0);
    let expected = Runner::new(&copied, source(true)).bits().unwrap();
    assert!(Runner::new(&driver, source(true)).bits().unwrap() == expected);
    // A file that was read has no pages to give.
    let Some(driver) = open(Faults::default(), true) else { return };
    assert_eq!(planned(&driver, &source(false)).1, InPlace::No("the file is not mapped".into()));
    assert!(Runner::new(&driver, source(false)).bits().unwrap() == expected);
}

#[test]
fn pages_refused_after_the_first_are_an_error_of_the_node_that_needed_them() {
    let Some(driver) = open(Faults { refuse_import_after: Some(1), ..Faults::default() }, true) else {
        return;
    };
    let folder = tempfile::tempdir().unwrap();
    let path = folder.path().join("refused.gguf");
    write(&path, &[(TensorType::Q4_K, 40)], 32, 0);
    let error = Runner::new(&driver, File::open(&path, 1)).bits().unwrap_err();
    let StepError::Run(e) = &error else { panic!("{error}") };
    assert!(matches!(e.fault, KernelFault::Device(_)) && e.node == "w0_product", "{error}");
    let said = error.to_string();
    assert!(said.contains("does not take") && said.contains("MINFER_NO_GPU_IMPORT=1"), "{said}");
}

/// Whether this process has the file mapped.
fn is_mapped(path: &Path) -> bool {
    let maps = std::fs::read_to_string("/proc/self/maps").unwrap();
    maps.lines().any(|line| line.ends_with(path.to_str().unwrap()))
}

#[test]
fn the_map_stays_as_long_as_the_device_has_its_pages() {
    if !cfg!(target_os = "linux") {
        return;
    }
    let folder = tempfile::tempdir().unwrap();
    let path = folder.path().join("kept.gguf");
    write(&path, &[(TensorType::Q4_K, 40)], 32, 0);
    for loses in [false, true] {
        let Some(driver) = open(Faults::default(), true) else { return };
        let (path, held) = (path.canonicalize().unwrap(), driver.counts().held);
        let mut runner = Runner::new(&driver, File::open(&path, 1));
        let expected = runner.bits().unwrap();
        assert!(driver.counts().imported > 0 && driver.counts().held > held);
        let Runner { mut scheduler, source } = runner;
        drop(source);
        scheduler.forget_graphs();
        // The driver still has it, and a deleted file is as good as one that is there.
        assert!(is_mapped(&path));
        drop(scheduler);
        assert!(is_mapped(&path));
        if loses {
            driver.lose();
            let error = Runner::new(&driver, File::open(&path, 2)).bits().unwrap_err();
            assert!(error.to_string().contains("lost"), "{error}");
        } else {
            let again = Runner::new(&driver, File::open(&path, 1)).bits().unwrap();
            assert!(again == expected);
        }
        drop(driver);
        // What a lost device may still read stays for good.
        assert_eq!(is_mapped(&path), loses);
    }
}
