//! Matrix products by type and shape, as shares of what the machine allows.
//!
//! `cargo bench -p minfer-cpu --bench matmul -- [NAME...] [n=TOKENS,...] [shape=ROWSxK,...] [threads=N] [ms=TIME] [clock=cpu]`:
//! runs the kernels whose name (`x86_64-q4_k-avx512vnni`) contains one of the NAMEs; `MINFER_ISA` chooses the level. For each kernel
//! and shape it prints
//! - GB/s of packed weights and their share of a plain read of the same bytes, measured in turn with the product (weights
//!   rotate over copies larger than the last-level cache);
//! - GOP/s and their share of the peak of the instruction in use, measured before and after;
//! - GB/s of raw weights at which one thread packs.
//!
//! Medians throughout: on a shared machine only the ratios mean anything. `clock=cpu` counts the processor time of the
//! slowest thread, for machines that are too busy for the wall clock (Linux; memory bandwidth stays shared).

#![allow(unsafe_code, missing_docs)]
#![allow(clippy::print_stdout, clippy::unwrap_used)]

use minfer_cpu::buf::AlignedBuf;
use minfer_cpu::isa::Isa;
use minfer_cpu::limits;
use minfer_cpu::matmul::{
    Activations, OutPtr, PackedMatrix, Packer, QuantizedActivations, Scratch, kernel_name, matmul_panels,
};
use minfer_gguf::TensorType;
use std::sync::Barrier;
use std::time::{Duration, Instant};

/// Weights of one pass, larger than any last-level cache we expect to meet.
const PASS_BYTES: usize = 192 << 20;

struct Options {
    names: Vec<String>,
    tokens: Vec<usize>,
    shapes: Vec<(usize, usize)>,
    n_threads: usize,
    time: Duration,
    clock: fn() -> f64,
    isa: Isa,
}

fn options() -> Options {
    let mut o = Options {
        names: vec![],
        tokens: vec![1, 512],
        shapes: vec![(4864, 896)],
        n_threads: std::thread::available_parallelism().map_or(1, usize::from),
        time: Duration::from_millis(300),
        clock: wall_clock,
        isa: std::env::var("MINFER_ISA")
            .map_or_else(|_| Isa::detect(), |name| Isa::from_name(&name).unwrap()),
    };
    for arg in std::env::args().skip(1).filter(|a| !a.starts_with("--")) {
        match arg.split_once('=') {
            Some(("n", v)) => o.tokens = v.split(',').map(|n| n.parse().unwrap()).collect(),
            Some(("shape", v)) => o.shapes = v.split(',').map(shape).collect(),
            Some(("threads", v)) => o.n_threads = v.parse().unwrap(),
            Some(("ms", v)) => o.time = Duration::from_millis(v.parse().unwrap()),
            Some(("clock", "cpu")) => o.clock = cpu_clock,
            _ => o.names.push(arg),
        }
    }
    o
}

fn shape(s: &str) -> (usize, usize) {
    let (rows, k) = s.split_once('x').unwrap();
    (rows.parse().unwrap(), k.parse().unwrap())
}

fn main() {
    let o = options();
    println!(
        "| kernel | shape | tokens | GB/s | of read | GOP/s | of peak | packs GB/s |\n| --- | --- | --- | --- | --- | --- | --- | --- |"
    );
    for dtype in TensorType::all().filter(|&t| PackedMatrix::supports(t)) {
        let name = kernel_name(dtype, o.isa);
        if !o.names.is_empty() && !o.names.iter().any(|n| name.contains(n.as_str())) {
            continue;
        }
        for &(rows, k) in &o.shapes {
            let k = k / dtype.block_elems() * dtype.block_elems();
            for &n_tokens in &o.tokens {
                bench(&o, dtype, rows, k, n_tokens);
            }
        }
    }
}

fn bench(o: &Options, dtype: TensorType, rows: usize, k: usize, n_tokens: usize) {
    let raw = weights(dtype, rows, k);
    let packing = median(&mut std::array::from_fn::<f64, 3, _>(|_| {
        raw.len() as f64 / pack_time(o, dtype, &raw, rows, k)
    }));
    let w = PackedMatrix::pack(dtype, &raw, rows, k, o.isa).unwrap();
    // With few tokens weights must come from memory, with many it doesn't matter.
    let copies = if n_tokens <= 32 { PASS_BYTES.div_ceil(w.bytes()) } else { 1 };
    let mut matrices = vec![w];
    matrices.resize_with(copies, || PackedMatrix::pack(dtype, &raw, rows, k, o.isa).unwrap());

    let x: Vec<f32> = (0..n_tokens * k).map(|i| ((i * 7919) % 1000) as f32 / 500.0 - 1.0).collect();
    let mut act = QuantizedActivations::new();
    let x = if Activations::quantized_for(dtype) {
        act.quantize(&x, n_tokens, k, o.isa).unwrap();
        act.prepare(&[dtype]);
        Activations::Quantized(&act)
    } else {
        Activations::F32 { x: &x, n_tokens, k }
    };
    let mut out = vec![0f32; n_tokens * rows];
    // SAFETY: `out` has this shape, and the threads of `multiply` write disjoint panels.
    let out = unsafe { OutPtr::new(out.as_mut_ptr(), rows, n_tokens, rows) };
    let n_panels = matrices[0].n_panels();
    let share = |t: usize| n_panels * t / o.n_threads..n_panels * (t + 1) / o.n_threads;
    let multiply = |t: usize, scratch: &mut Scratch| {
        for w in &matrices {
            matmul_panels(w, &x, out, share(t), o.isa, scratch).unwrap();
        }
    };
    let read = |t: usize, _: &mut Scratch| {
        matrices.iter().for_each(|w| limits::read(o.isa, w.panel_bytes(share(t))))
    };
    let peak = |_: usize, _: &mut Scratch| {
        match Activations::quantized_for(dtype) {
            true => limits::run_dots(o.isa, 400_000),
            false => limits::run_fmas(o.isa, 400_000),
        };
    };
    let peak_ops = match Activations::quantized_for(dtype) {
        true => limits::run_dots(o.isa, 400_000),
        false => limits::run_fmas(o.isa, 400_000),
    } as f64;

    let (mut products, mut of_read, mut of_peak) = (vec![], vec![], vec![]);
    let bytes = (matrices[0].bytes() * copies) as f64;
    let ops = 2.0 * (rows * k * n_tokens * copies) as f64;
    let start = Instant::now();
    while products.len() < 5 || (start.elapsed() < o.time && products.len() < 200) {
        let peak_before = timed(o, &peak);
        let read = if copies > 1 { timed(o, &read) } else { 0.0 };
        let product = timed(o, &multiply);
        let peak = (peak_before + timed(o, &peak)) / 2.0;
        products.push(product);
        of_read.push(read / product);
        of_peak.push(ops / product / (peak_ops * o.n_threads as f64 / peak));
    }
    let product = median(&mut products);
    println!(
        "| {} | {rows}x{k} | {n_tokens} | {:.1} | {:.0} % | {:.0} | {:.0} % | {:.1} |",
        kernel_name(dtype, o.isa),
        bytes / product / 1e9,
        median(&mut of_read) * 100.0,
        ops / product / 1e9,
        median(&mut of_peak) * 100.0,
        packing / 1e9
    );
}

/// Seconds that one thread packs, into memory that was touched before.
fn pack_time(o: &Options, dtype: TensorType, raw: &[u8], rows: usize, k: usize) -> f64 {
    let mut buf = AlignedBuf::zeroed(PackedMatrix::packed_bytes(dtype, rows, k).unwrap()).unwrap();
    buf.as_mut_slice().fill(0);
    let packer = Packer::new(dtype, rows, k, buf, o.isa).unwrap();
    let start = (o.clock)();
    packer.pack_panels(raw, 0..packer.n_panels()).unwrap();
    (o.clock)() - start
}

/// Seconds that `f` takes on all threads, started together: those of the slowest.
fn timed(o: &Options, f: &(impl Fn(usize, &mut Scratch) + Sync)) -> f64 {
    let barrier = Barrier::new(o.n_threads);
    let run = |t: usize| {
        let mut scratch = Scratch::new();
        barrier.wait();
        let start = (o.clock)();
        f(t, &mut scratch);
        (o.clock)() - start
    };
    std::thread::scope(|s| {
        let run = &run;
        let others: Vec<_> = (1..o.n_threads).map(|t| s.spawn(move || run(t))).collect();
        let first = run(0);
        others.into_iter().map(|t| t.join().unwrap()).fold(first, f64::max)
    })
}

fn wall_clock() -> f64 {
    static START: std::sync::LazyLock<Instant> = std::sync::LazyLock::new(Instant::now);
    START.elapsed().as_secs_f64()
}

/// Processor time of the calling thread; the wall clock where there is no such clock.
fn cpu_clock() -> f64 {
    #[cfg(target_os = "linux")]
    {
        let mut t = libc::timespec { tv_sec: 0, tv_nsec: 0 };
        // SAFETY: `t` is a valid place for the result.
        unsafe { libc::clock_gettime(libc::CLOCK_THREAD_CPUTIME_ID, &mut t) };
        t.tv_sec as f64 + t.tv_nsec as f64 * 1e-9
    }
    #[cfg(not(target_os = "linux"))]
    wall_clock()
}

fn median(v: &mut [f64]) -> f64 {
    v.sort_by(f64::total_cmp);
    v[v.len() / 2]
}

/// Bytes in which every scale is finite and of a sane size: an f16 anywhere is below 1.
fn weights(dtype: TensorType, rows: usize, k: usize) -> Vec<u8> {
    let mut state = 1u32;
    let mut next = || {
        state = state.wrapping_mul(1_664_525).wrapping_add(1_013_904_223);
        (state >> 24) as u8 & 0xBB
    };
    let mut raw: Vec<u8> = (0..dtype.row_bytes(k).unwrap() * rows).map(|_| next()).collect();
    if dtype == TensorType::MXFP4 {
        raw.chunks_exact_mut(dtype.block_bytes()).for_each(|block| block[0] = 120);
    }
    raw
}
