//! The device that tests run on: the first adapter, or the one that `MINFER_TEST_DEVICE` names. Where the machine shows none,
//! tests say so and pass.

#![allow(dead_code, reason = "each test file uses a part")]
#![allow(clippy::print_stderr, reason = "a skipped test says so")]

use std::sync::{Arc, Mutex};

use minfer_gguf::{TensorType, can_quantize, quantize, scale_offsets};
use minfer_graph::{BackendDriver, CParams, GpuOffload, GraphParams, GraphType, Head, KvType, PreparedHook};
use minfer_wgpu::{BACKEND, Faults, WgpuDriver, WgpuOptions, adapters};

/// The driver under test, if there is an adapter. Software adapters are as good as any.
pub(crate) fn driver() -> Option<Arc<WgpuDriver>> {
    let options = WgpuOptions { device: Some(device_name()?), ..WgpuOptions::default() };
    let driver = WgpuDriver::open(&options).expect("the adapter opens");
    eprintln!("subgroups of {}", driver.adapter().subgroup_sizes.0);
    Some(Arc::new(driver))
}

/// The name of the device under test, if there is one.
pub(crate) fn device_name() -> Option<String> {
    let named = std::env::var("MINFER_TEST_DEVICE").ok();
    let device = named.or_else(|| adapters().first().map(|a| a.name.clone()));
    if device.is_none() {
        eprintln!("SKIPPED: this machine shows no adapter, so no kernel was run");
    }
    device
}

/// Runs a test of this file again at the other subgroup widths of a software Vulkan: 4 and 16 threads in step, where 8 are
/// usual. Each process has one width, so each run is a process.
pub(crate) fn at_other_widths(test: &str) {
    let Some(name) = device_name() else { return };
    if !name.contains("llvmpipe") {
        eprintln!("SKIPPED: {name} has one subgroup width");
        return;
    }
    for (bits, threads) in [("128", 4), ("512", 16)] {
        let this = std::env::current_exe().expect("the test itself");
        let ran = std::process::Command::new(this)
            .args(["--exact", test, "--nocapture"])
            .env("LP_NATIVE_VECTOR_WIDTH", bits)
            .output()
            .expect("the test starts");
        let said = String::from_utf8_lossy(&ran.stderr);
        assert!(ran.status.success(), "with {threads} threads in step: {said}");
        // A processor without vectors so wide keeps to narrower ones.
        if !said.contains(&format!("subgroups of {threads}")) {
            eprintln!("SKIPPED: no subgroups of {threads} on this machine");
        }
    }
}

/// The same as what the graph machinery takes.
pub(crate) fn dyn_driver() -> Option<Arc<dyn BackendDriver>> {
    driver().map(|d| d as Arc<dyn BackendDriver>)
}

/// The same with something wrong.
pub(crate) fn dyn_driver_with(faults: Faults) -> Option<Arc<dyn BackendDriver>> {
    let options = WgpuOptions { device: Some(device_name()?), faults, ..WgpuOptions::default() };
    Some(Arc::new(WgpuDriver::open(&options).expect("the adapter opens")))
}

/// Where a hook notes the kernels of the graphs that are made ready.
pub(crate) fn kernels() -> (Arc<Mutex<Vec<String>>>, PreparedHook) {
    let used: Arc<Mutex<Vec<String>>> = Arc::default();
    let noted = used.clone();
    let hook: PreparedHook = Box::new(move |uses| {
        let names = uses.iter().flat_map(|u| std::iter::repeat_n(u.kernel.clone(), u.count));
        noted.lock().expect("the test goes on").extend(names);
    });
    (used, hook)
}

/// A step of `n` tokens, all of it on the device.
pub(crate) fn params(n: usize, kv_type: KvType, blocks: usize) -> GraphParams {
    let cparams = CParams {
        n_ctx: blocks * 32,
        n_seq_max: 3,
        kv_block: 32,
        n_kv_blocks: blocks,
        kv_type,
        backends: [BACKEND].into_iter().collect(),
        gpu: Some(GpuOffload { backend: BACKEND, n_layers: usize::MAX, outside_layers: true }),
        fuse_qkv: true,
        fuse_ffn: true,
    };
    GraphParams {
        n_tokens: n,
        n_out: n,
        head: Head::Logits,
        gtype: GraphType::Prefill,
        cparams,
        weights_version: 1,
    }
}

/// A seeded generator of numbers between -1 and 1.
pub(crate) struct Random(u64);

impl Random {
    /// Equal seeds give equal numbers.
    pub(crate) fn new(seed: u64) -> Random {
        Random(seed.wrapping_mul(0x9e37_79b9_7f4a_7c15) | 1)
    }

    /// 64 random bits.
    pub(crate) fn bits(&mut self) -> u64 {
        self.0 ^= self.0 << 13;
        self.0 ^= self.0 >> 7;
        self.0 ^= self.0 << 17;
        self.0
    }

    /// A number between -1 and 1.
    pub(crate) fn unit(&mut self) -> f32 {
        ((self.bits() >> 40) as f32 / (1u64 << 23) as f32) - 1.0
    }

    /// So many of them.
    pub(crate) fn units(&mut self, n: usize) -> Vec<f32> {
        (0..n).map(|_| self.unit()).collect()
    }
}

/// Blocks of random bits with scales that are finite and small.
pub(crate) fn random_blocks(dtype: TensorType, n_elems: usize, random: &mut Random) -> Vec<u8> {
    let mut bytes = vec![0; dtype.row_bytes(n_elems).expect("whole blocks")];
    if can_quantize(dtype) {
        quantize(dtype, &random.units(n_elems), &mut bytes).expect("a type with blocks");
        return bytes;
    }
    bytes.iter_mut().for_each(|b| *b = random.bits() as u8);
    for block in bytes.chunks_exact_mut(dtype.block_bytes()) {
        for at in scale_offsets(dtype).unwrap_or(&[]) {
            // A half between 2^-7 and 2^-5.
            let half = 0x2000 + (random.bits() as u16 & 0x07ff);
            block[*at..at + 2].copy_from_slice(&half.to_le_bytes());
        }
        if dtype == TensorType::MXFP4 {
            block[0] = 120 + (random.bits() % 8) as u8;
        }
    }
    bytes
}
