//! A layer's keys and values in more bindings than one: the same bits, the same bounds, blocks that can be moved.

#![allow(clippy::unwrap_used, reason = "a test may panic")]

mod common;

use std::sync::Arc;

use common::{Random, dyn_driver_with, params};
use minfer_graph::testing::MapWeights;
use minfer_graph::{
    AttnSpec, BackendDriver, BuildError, ComputeGraph, DType, GraphBuilder, GraphParams, InputData,
    KernelFault, KvPart, KvSpec, KvType, Policy, QkvDims, Registry, RopeScaling, RopeSpec, RopeStyle,
    Scheduler, StepError,
};
use minfer_wgpu::Faults;

const HEAD: usize = 32;
const DIMS: QkvDims = QkvDims { q: 4 * HEAD, kv: 2 * HEAD };
const BLOCK: usize = 32;
const N_BLOCKS: usize = 5;
/// Tokens in a step, few enough for their values to fit into the smallest binding.
const N: usize = 2;
/// Blocks of positions, in the order of positions: none in its place.
const TABLE: [i32; N_BLOCKS] = [3, 0, 4, 1, 2];

fn spec(kv_type: KvType, n_blocks: usize) -> KvSpec {
    KvSpec { n_kv_heads: 2, head_dim: HEAD, block: BLOCK, n_blocks, kv_type }
}

/// Stores, by one node or by two, and attention behind them.
fn describe(fused: bool, kv: KvType) -> Result<ComputeGraph, BuildError> {
    let mut b = GraphBuilder::new();
    let ints = |b: &mut GraphBuilder, name: &str| b.input(name, [N, 1, 1, 1], DType::I32);
    let qkv = b.input("qkv", [DIMS.total(), N, 1, 1], DType::F32);
    let k = b.input("k", [DIMS.kv, N, 1, 1], DType::F32);
    let (positions, slots) = (ints(&mut b, "positions"), ints(&mut b, "slots"));
    let table = b.input("table", [N_BLOCKS, 3, 1, 1], DType::I32);
    let (rows, lens) = (ints(&mut b, "rows"), ints(&mut b, "lens"));
    let rope = RopeSpec {
        style: RopeStyle::Neox,
        head_dim: HEAD,
        n_rot: HEAD,
        freq_base: 10_000.0,
        scaling: RopeScaling::None,
        freq_factors: false,
    };
    b.set_layer(Some(0));
    let q = b.qkv_bias_rope_store("store", [qkv, positions, slots], 0, DIMS, None, (rope, None));
    let (stored_k, stored_v) = match fused {
        true => (q, q),
        false => {
            let stored_k = b.kv_store("k_store", k, slots, 0, KvPart::K, kv);
            (stored_k, b.kv_store("v_store", k, slots, 0, KvPart::V, kv))
        }
    };
    let shape = [DIMS.kv, BLOCK * N_BLOCKS];
    let k = b.kv_load("keys", stored_k, 0, KvPart::K, shape, kv);
    let v = b.kv_load("values", stored_v, 0, KvPart::V, shape, kv);
    let spec = AttnSpec { layer: 0, n_heads: 4, n_kv_heads: 2, head_dim: HEAD, scale: 0.2 };
    let out = b.attn("attn", q, [k, v], [table, rows, lens], spec);
    b.output(out);
    b.finish()
}

/// Attention over a growing cache; all bits, and the kernels that made them.
fn run(
    driver: Arc<dyn BackendDriver>,
    fused: bool,
    kv: KvType,
) -> Result<(Vec<u32>, Vec<String>), StepError> {
    let mut registry = Registry::new();
    registry.register(driver);
    let mut scheduler = Scheduler::new(registry, Arc::new(MapWeights::new(1)), vec![spec(kv, N_BLOCKS)]);
    let (used, hook) = common::kernels();
    scheduler.on_prepared(hook);
    let source = move |_: &GraphParams, _: &Policy<'_>| describe(fused, kv);
    let mut bits = Vec::new();
    for first in (0..BLOCK * N_BLOCKS).step_by(N) {
        let each = |f: &dyn Fn(usize) -> i32| (first..first + N).map(f).collect::<Vec<_>>();
        let slot = |pos: usize| TABLE[pos / BLOCK] * BLOCK as i32 + (pos % BLOCK) as i32;
        let mut random = Random::new(first as u64 + 1);
        let (qkv, k) = (random.units(DIMS.total() * N), random.units(DIMS.kv * N));
        let table: Vec<_> = TABLE.iter().copied().cycle().take(3 * N_BLOCKS).collect();
        let ints = [
            ("positions", each(&|pos| pos as i32)),
            ("slots", each(&slot)),
            ("table", table),
            ("rows", vec![0; N]),
            ("lens", each(&|pos| pos as i32 + 1)),
        ];
        let mut inputs = vec![("qkv", InputData::F32(&qkv)), ("k", InputData::F32(&k))];
        inputs.extend(ints.iter().map(|(name, values)| (*name, InputData::I32(values))));
        let mut out = vec![0.0; DIMS.q * N];
        scheduler.step(&source, &params(N, kv, N_BLOCKS), &inputs, &mut out, None)?;
        bits.extend(out.iter().map(|v: &f32| v.to_bits()));
    }
    let used = used.lock().unwrap().clone();
    Ok((bits, used))
}

#[test]
fn a_cache_in_pieces_gives_the_same_bits() {
    for (kv, block_bytes) in [(KvType::F16, 4096), (KvType::F32, 8192)] {
        for fused in [true, false] {
            let Some(whole) = dyn_driver_with(Faults::default()) else { return };
            let (expected, kernels) = run(whole, fused, kv).unwrap();
            assert!(expected.iter().any(|bits| f32::from_bits(*bits).abs() > 0.1), "all but zero");
            assert!(kernels.iter().all(|k| !k.contains("-p")), "{kernels:?}");
            // Blocks in one binding, and the bindings that five take.
            for (n_blocks, n_pieces) in [(1, 5), (2, 3), (3, 2), (4, 2)] {
                let binding = Some(n_blocks * block_bytes + 100);
                let driver = dyn_driver_with(Faults { binding, ..Faults::default() }).unwrap();
                let (bits, kernels) = run(driver, fused, kv).unwrap();
                assert!(bits == expected, "{kv:?}, fused {fused}, {n_blocks} blocks in a binding");
                let name = format!("attention-p{n_pieces}");
                assert!(kernels.iter().any(|k| k.ends_with(&name)), "{kernels:?}");
            }
        }
    }
}

#[test]
fn the_same_holds_at_other_subgroup_widths() {
    common::at_other_widths("a_cache_in_pieces_gives_the_same_bits");
}

#[test]
fn blocks_are_read_written_and_moved_across_pieces() {
    let Some(driver) = dyn_driver_with(Faults { binding: Some(4096), ..Faults::default() }) else { return };
    let spec = spec(KvType::F16, 3);
    let n = driver.kv_block_bytes(&spec, KvPart::K);
    let region = driver.allocate_kv(&spec, KvPart::K).unwrap();
    assert_eq!((n, region.bytes()), (4096, 3 * 4096));
    let block = |b: usize| (0..n).map(|i| (i * 7 + b) as u8).collect::<Vec<_>>();
    let read = |b: usize| {
        let mut bytes = vec![0; n];
        driver.read_kv_block(region.as_ref(), b, &mut bytes).unwrap();
        bytes
    };
    assert!(read(1).iter().all(|b| *b == 0));
    for b in 0..3 {
        driver.write_kv_block(region.as_ref(), b, &block(b)).unwrap();
    }
    region.copy_within(0, 2 * n, n).unwrap();
    assert!(read(0) == block(0) && read(1) == block(1) && read(2) == block(0));
    // Over the border of two pieces.
    let mut both = vec![0; 16];
    region.read(n - 8, &mut both).unwrap();
    assert_eq!((&both[..8], &both[8..]), (&block(0)[n - 8..], &block(1)[..8]));
    assert!(matches!(region.read(3 * n - 8, &mut both), Err(KernelFault::Bug(_))));
}

#[test]
fn more_pieces_than_a_kernel_takes_are_refused_with_what_would_fit() {
    let Some(driver) = dyn_driver_with(Faults { binding: Some(4096), ..Faults::default() }) else { return };
    let most = driver.max_kv_blocks(&spec(KvType::F16, 1), KvPart::K).unwrap();
    assert!((1..=8).contains(&most), "{most}");
    assert!(driver.allocate_kv(&spec(KvType::F16, most), KvPart::K).is_ok());
    let refused = driver.allocate_kv(&spec(KvType::F16, most + 1), KvPart::K).err().unwrap();
    let KernelFault::OutOfMemory { bytes, reason } = refused else { panic!("{refused}") };
    assert!(bytes == (most + 1) * 4096 && reason.contains("lets a kernel see 4096 bytes"), "{reason}");
    // F32 has blocks that no binding holds.
    assert_eq!(driver.max_kv_blocks(&spec(KvType::F32, 1), KvPart::K), Some(0));
}
