//! A small decoder step on the device: a replayed step makes nothing new and is one submission, and every injected fault ends
//! in one error that says where.

#![allow(clippy::unwrap_used, reason = "a test may panic")]

mod common;

use std::sync::Arc;
use std::time::Duration;

use common::{Random, device_name, params};
use minfer_gguf::TensorType;
use minfer_graph::testing::MapWeights;
use minfer_graph::{
    AttnSpec, BackendDriver, BuildError, ComputeGraph, DType, GraphBuilder, GraphParams, InputData,
    KernelFault, KvPart, KvSpec, KvType, Node, Observer, Policy, Registry, RopeScaling, RopeSpec, RopeStyle,
    Scheduler, StepError, WeightRef,
};
use minfer_wgpu::{Faults, WgpuDriver, WgpuOptions};

const D: usize = 64;
const HEAD: usize = 32;
const ROWS: usize = 50;

/// Everything that a step of one token reads.
#[derive(Clone)]
struct Inputs {
    token: i32,
    position: i32,
    slot: i32,
    table: [i32; 6],
    row: i32,
    len: i32,
}

const GOOD: Inputs = Inputs { token: 3, position: 0, slot: 0, table: [0, 1, 0, 0, 0, 0], row: 0, len: 1 };

struct Runner {
    driver: Arc<WgpuDriver>,
    scheduler: Scheduler,
    weights: [WeightRef; 3],
}

impl Runner {
    fn new(driver: Arc<WgpuDriver>) -> Runner {
        let mut random = Random::new(3);
        let mut weights = MapWeights::new(1);
        let refs = [
            weights.add("embd", [D, ROWS, 1, 1], &random.units(D * ROWS)),
            weights.add("norm", [D, 1, 1, 1], &random.units(D)),
            weights.add("k", [D, D, 1, 1], &random.units(D * D)),
        ];
        assert!(refs.iter().all(|w| w.dtype == TensorType::F32));
        let mut registry = Registry::new();
        registry.register(driver.clone() as Arc<dyn BackendDriver>);
        let spec =
            KvSpec { n_kv_heads: D / HEAD, head_dim: HEAD, block: 32, n_blocks: 2, kv_type: KvType::F16 };
        let scheduler = Scheduler::new(registry, Arc::new(weights), vec![spec]);
        Runner { driver, scheduler, weights: refs }
    }

    fn step(&mut self, inputs: &Inputs) -> Result<Vec<f32>, StepError> {
        self.observed(inputs, None)
    }

    /// Node by node, if somebody watches.
    fn observed(
        &mut self,
        inputs: &Inputs,
        observer: Option<&mut dyn Observer>,
    ) -> Result<Vec<f32>, StepError> {
        let w = self.weights.clone();
        let source = move |_: &GraphParams, _: &Policy<'_>| describe(&w);
        let one = |v: &i32| std::slice::from_ref(v).to_vec();
        let Inputs { token, position, slot, table, row, len } = inputs;
        let lists = [one(token), one(position), one(slot), table.to_vec(), one(row), one(len)];
        let names = ["tokens", "positions", "slots", "table", "rows", "lens"];
        let named: Vec<_> = names.into_iter().zip(&lists).map(|(n, v)| (n, InputData::I32(v))).collect();
        let mut out = vec![0.0; ROWS];
        self.scheduler.step(&source, &params(1, KvType::F16, 2), &named, &mut out, observer)?;
        Ok(out)
    }
}

fn describe(w: &[WeightRef; 3]) -> Result<ComputeGraph, BuildError> {
    let mut b = GraphBuilder::new();
    let int = |b: &mut GraphBuilder, name: &str| b.input(name, [1, 1, 1, 1], DType::I32);
    let (tokens, positions, slots) = (int(&mut b, "tokens"), int(&mut b, "positions"), int(&mut b, "slots"));
    let table = b.input("table", [2, 3, 1, 1], DType::I32);
    let (rows, lens) = (int(&mut b, "rows"), int(&mut b, "lens"));
    let x = b.embed("embed", tokens, &w[0]);
    b.set_layer(Some(0));
    let h = b.rms_norm("norm", x, &w[1], 1e-5);
    let k = b.matmul("k", h, &w[2]);
    let rope = RopeSpec {
        style: RopeStyle::Neox,
        head_dim: HEAD,
        n_rot: HEAD,
        freq_base: 10_000.0,
        scaling: RopeScaling::None,
        freq_factors: false,
    };
    let k = b.rope("k_rope", k, positions, rope, None);
    let stored_k = b.kv_store("k_store", k, slots, 0, KvPart::K, KvType::F16);
    let stored_v = b.kv_store("v_store", h, slots, 0, KvPart::V, KvType::F16);
    let k = b.kv_load("k_region", stored_k, 0, KvPart::K, [D, 64], KvType::F16);
    let v = b.kv_load("v_region", stored_v, 0, KvPart::V, [D, 64], KvType::F16);
    let spec = AttnSpec { layer: 0, n_heads: D / HEAD, n_kv_heads: D / HEAD, head_dim: HEAD, scale: 0.2 };
    let heads = b.attn("attn", h, [k, v], [table, rows, lens], spec);
    b.set_layer(None);
    let x = b.add("out", x, heads);
    let logits = b.matmul("logits", x, &w[0]);
    b.output(logits);
    b.finish()
}

fn open(faults: Faults) -> Option<Arc<WgpuDriver>> {
    let device = Some(device_name()?);
    let options = WgpuOptions { device, faults, ..WgpuOptions::default() };
    Some(Arc::new(WgpuDriver::open(&options).unwrap()))
}

#[test]
fn a_second_decode_step_makes_nothing_new_and_is_one_submission() {
    let Some(driver) = open(Faults::default()) else { return };
    let mut runner = Runner::new(driver.clone());
    let first = runner.step(&GOOD).unwrap();
    assert!(first.iter().any(|v| v.abs() > 0.1));
    let (before, counters) = (driver.counts(), runner.scheduler.counters());
    let next = Inputs { token: 7, position: 1, slot: 1, len: 2, ..GOOD };
    assert!(runner.step(&next).unwrap() != first);
    let after = driver.counts();
    assert_eq!(after.submissions, before.submissions + 1);
    assert_eq!((after.pipelines, after.bind_groups), (before.pipelines, before.bind_groups));
    assert_eq!((after.buffers, after.allocated), (before.buffers, before.allocated));
    assert_eq!(runner.scheduler.counters().prepared, counters.prepared);
    // What the device itself holds: wgpu's own count.
    assert_eq!(after.held, before.held);
}

/// The node and the fault of a step that must fail.
fn fault(result: Result<Vec<f32>, StepError>) -> (String, KernelFault) {
    match result.unwrap_err() {
        StepError::Run(e) => (e.node.clone(), e.fault.clone()),
        other => panic!("{other}"),
    }
}

#[test]
fn inputs_that_point_outside_are_errors_of_their_node() {
    let Some(driver) = open(Faults::default()) else { return };
    let mut runner = Runner::new(driver);
    let good = runner.step(&GOOD).unwrap();
    let cases = [
        (Inputs { token: ROWS as i32, ..GOOD }, "embed", "row 50 is outside the table"),
        (Inputs { token: -1, ..GOOD }, "embed", "row -1 is outside the table"),
        (Inputs { position: -5, ..GOOD }, "0.k_rope", "position -5 is negative"),
        (Inputs { slot: 64, ..GOOD }, "0.k_store", "KV slot 64 is outside the region"),
        (Inputs { slot: -1, ..GOOD }, "0.k_store", "KV slot -1 is outside the region"),
        (Inputs { row: 3, ..GOOD }, "0.attn", "sequence, length or block 3 is outside the cache"),
        (Inputs { len: 65, ..GOOD }, "0.attn", "sequence, length or block 65 is outside the cache"),
        (
            Inputs { table: [2, 0, 0, 0, 0, 0], ..GOOD },
            "0.attn",
            "sequence, length or block 2 is outside the cache",
        ),
    ];
    for (inputs, node, what) in cases {
        let found = fault(runner.step(&inputs));
        assert_eq!(found, (node.to_owned(), KernelFault::BadInput(what.into())));
        // The device goes on.
        assert_eq!(runner.step(&GOOD).unwrap(), good);
    }
}

#[test]
fn memory_that_cannot_be_had_is_an_error_with_the_figures_and_the_node() {
    // Every limit up to where the step fits, so that everything that allocates is refused once.
    let mut places = std::collections::BTreeSet::new();
    for limit in (1..200).map(|i| i << 10) {
        let Some(driver) = open(Faults { memory: Some(limit), ..Faults::default() }) else { return };
        let error = match Runner::new(driver).step(&GOOD) {
            Err(error) => error,
            Ok(_) => break,
        };
        let said = error.to_string();
        assert!(
            said.contains("bytes could not be allocated") && said.contains("has no more memory"),
            "{said}"
        );
        match error {
            StepError::Run(e) => places.insert(e.node),
            // All values together.
            StepError::Values { backend, largest: Some(value), .. } => {
                assert_eq!((backend, value.bytes), (minfer_wgpu::BACKEND, 4 * D), "{said}");
                let parts =
                    ["the values of all nodes on", "node 'embed' (GetRows) with 256 bytes", "--ubatch-size"];
                assert!(parts.iter().all(|part| said.contains(part)), "{said}");
                places.insert("values".into())
            }
            other => panic!("{limit}: {other}"),
        };
    }
    let found: Vec<_> = places.iter().map(String::as_str).collect();
    assert_eq!(found, ["0.k", "0.k_store", "embed", "values"]);
}

#[test]
fn an_operand_over_the_limit_of_a_binding_is_an_error_that_names_the_node() {
    // Weights are cut into parts and regions of the cache into pieces, so that only a block of them is too large.
    let Some(driver) = open(Faults { binding: Some(2 << 10), ..Faults::default() }) else { return };
    let error = Runner::new(driver).step(&GOOD).unwrap_err().to_string();
    assert!(error.contains("lets a kernel see 2048 bytes as one operand"), "{error}");
    assert!(error.contains("node '0.k_store' (KvcacheStore on "), "{error}");
}

#[test]
fn a_matrix_in_parts_gives_the_same_bits() {
    let Some(whole) = open(Faults::default()) else { return };
    let Some(parts) = open(Faults { binding: Some(9 << 10), ..Faults::default() }) else { return };
    let expected = Runner::new(whole).step(&GOOD).unwrap();
    assert_eq!(Runner::new(parts).step(&GOOD).unwrap(), expected);
}

#[test]
fn a_lost_device_is_an_error_now_and_later() {
    let Some(driver) = open(Faults::default()) else { return };
    let mut runner = Runner::new(driver);
    runner.step(&GOOD).unwrap();
    runner.driver.lose();
    for _ in 0..2 {
        let (node, fault) = fault(runner.step(&GOOD));
        assert!(matches!(&fault, KernelFault::Device(reason) if reason.contains("lost")), "{fault}");
        assert_eq!(node, "tokens");
    }
}

/// Takes the device away once a node has run.
struct Thief(Arc<WgpuDriver>, &'static str);

impl Observer for Thief {
    fn wants(&self, _node: &Node) -> bool {
        false
    }

    fn value(&mut self, _node: &Node, _bytes: &[u8]) {}

    fn ran(&mut self, node: &Node, _time: Duration) {
        if *node.name == *self.1 {
            self.0.lose();
        }
    }
}

#[test]
fn a_device_that_is_lost_in_a_step_is_an_error_of_the_node_that_needed_it() {
    for (last, next) in
        [("embed", "0.norm"), ("0.k_rope", "0.k_store"), ("0.attn", "out"), ("logits", "logits")]
    {
        let Some(driver) = open(Faults::default()) else { return };
        let mut runner = Runner::new(driver.clone());
        let (node, fault) = fault(runner.observed(&GOOD, Some(&mut Thief(driver, last))));
        assert!(matches!(&fault, KernelFault::Device(reason) if reason.contains("lost")), "{fault}");
        assert_eq!(node, next);
    }
}

#[test]
fn a_device_that_does_not_answer_is_given_up() {
    // Opening it takes no submission.
    let Some(driver) = open(Faults { silent_after: Some(2), ..Faults::default() }) else { return };
    let mut runner = Runner::new(driver);
    let failed: Vec<_> = (0..4).filter_map(|_| runner.step(&GOOD).err()).map(|e| e.to_string()).collect();
    assert!(failed.len() >= 2, "{failed:?}");
    for said in failed {
        assert!(said.contains("no answer within") && said.contains("node '"), "{said}");
    }
}

#[test]
fn compiled_kernels_are_kept_and_a_damaged_file_does_no_harm() {
    let Some(device) = device_name() else { return };
    let folder = std::env::temp_dir().join(format!("minfer-pipelines-{}", std::process::id()));
    let run = || {
        let options = WgpuOptions {
            device: Some(device.clone()),
            cache: Some(folder.clone()),
            ..WgpuOptions::default()
        };
        Runner::new(Arc::new(WgpuDriver::open(&options).unwrap())).step(&GOOD).unwrap()
    };
    let expected = run();
    let files: Vec<_> =
        std::fs::read_dir(&folder).map(|d| d.map(|e| e.unwrap().path()).collect()).unwrap_or_default();
    assert!(files.len() == 1 || cfg!(target_os = "macos"), "{files:?}");
    assert_eq!(run(), expected);
    for file in &files {
        let mut bytes = std::fs::read(file).unwrap();
        assert!(bytes.len() > 40);
        let middle = bytes.len() / 2;
        bytes[middle] ^= 0xff;
        std::fs::write(file, &bytes).unwrap();
    }
    assert_eq!(run(), expected);
    std::fs::remove_dir_all(&folder).unwrap();
}
