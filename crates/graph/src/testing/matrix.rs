//! Op × type × backend: a backend runs what it claims, with the right numbers, and cannot run what it does not claim.
//!
//! Every op is described alone, for every tensor type that can decide its kernel. Where the backend says yes, the step
//! must run and agree with plain loops over dequantized weights; where it says no, a wrapper that claims everything must
//! make the step fail rather than give numbers.

#![allow(clippy::unwrap_used, reason = "a test may panic")]

use std::sync::Arc;

use minfer_gguf::{TensorType, can_dequantize, dequantize};

use crate::testing::{MapWeights, ReferenceDriver};
use crate::{
    AttnSpan, AttnSpec, Backend, BackendDriver, BackendSet, Buffer, BuildError, CParams, ComputeGraph, DType,
    GpuOffload, GraphBuilder, GraphParams, GraphType, Head, InputData, KernelFault, KvPart, KvSpec, KvType,
    NodeId, Op, OpKind, Policy, PrepareJob, Prepared, QkvDims, Registry, RopeScaling, RopeSpec, RopeStyle,
    Scheduler, Support, WeightRef, WeightSource, WeightUse,
};

/// Inputs of every matrix: a whole block of every type.
const K: usize = 256;
const HEAD: usize = 32;
const N: usize = 3;
const DIMS: QkvDims = QkvDims { q: 2 * HEAD, kv: HEAD };

/// Passes everything on but says yes to everything.
struct ClaimsAll(Arc<dyn BackendDriver>);

impl BackendDriver for ClaimsAll {
    fn backend(&self) -> Backend {
        self.0.backend()
    }
    fn describe(&self) -> String {
        self.0.describe()
    }
    fn supports_op(&self, _op: &Op, _dtype: TensorType) -> Support {
        Support::Yes
    }
    fn supports_fused(&self, _fused: OpKind) -> Support {
        Support::Yes
    }
    fn supports_attn_span(&self, _span: &AttnSpan) -> Support {
        Support::Yes
    }
    fn allocate(&self, bytes: usize) -> Result<Arc<dyn Buffer>, KernelFault> {
        self.0.allocate(bytes)
    }
    fn kv_block_bytes(&self, spec: &KvSpec, part: KvPart) -> usize {
        self.0.kv_block_bytes(spec, part)
    }
    fn load_weight(&self, usage: WeightUse<'_>, weights: &dyn WeightSource) -> Result<(), KernelFault> {
        self.0.load_weight(usage, weights)
    }
    fn prepare(&self, job: &PrepareJob<'_>) -> Result<Box<dyn Prepared>, KernelFault> {
        self.0.prepare(job)
    }
}

/// One op over one type: weights of that type, and the same as F32 for the reference.
struct Case {
    kind: OpKind,
    dtype: TensorType,
    kv_type: KvType,
    typed: MapWeights,
    plain: MapWeights,
}

impl Case {
    /// The case, if the op can be described for the type at all.
    fn new(kind: OpKind, dtype: TensorType) -> Option<Case> {
        let plain_type = matches!(dtype, TensorType::F32 | TensorType::F16 | TensorType::BF16);
        let describable = match kind {
            OpKind::GetRows | OpKind::MatMul | OpKind::FusedQkv | OpKind::FusedQkvNorm | OpKind::FusedFfn => {
                true
            }
            OpKind::RmsNorm | OpKind::QkNorm | OpKind::Add | OpKind::Rope => {
                K.is_multiple_of(dtype.block_elems())
            }
            OpKind::Attn | OpKind::KvcacheStore | OpKind::KvcacheLoad | OpKind::QkvBiasRopeStore => {
                matches!(dtype, TensorType::F32 | TensorType::F16 | TensorType::Q8_0)
            }
            OpKind::Input | OpKind::View | OpKind::Reshape => {
                matches!(dtype, TensorType::F32 | TensorType::I32)
            }
            _ => dtype == TensorType::F32,
        };
        let kv_type = match dtype {
            TensorType::F16 => KvType::F16,
            TensorType::Q8_0 => KvType::Q8_0,
            _ => KvType::F32,
        };
        // Backends keep weights by version and name, so every case has a version of its own.
        let version = ((kind as u64) << 32) | (u64::from(dtype as u32) << 1);
        let (typed, plain) = (MapWeights::new(version), MapWeights::new(version | 1));
        let mut case = Case { kind, dtype, kv_type, typed, plain };
        if !describable || (!plain_type && dtype.row_bytes(K).is_none()) {
            return None;
        }
        for (name, shape) in WEIGHTS {
            case.add(name, shape);
        }
        Some(case)
    }

    /// A weight whose every byte is 0x3f: finite and not zero in every type.
    fn add(&mut self, name: &str, shape: [usize; 4]) {
        let n: usize = shape.iter().product();
        let dtype = if name.starts_with('f') { TensorType::F32 } else { self.dtype };
        let Some(row) = dtype.row_bytes(shape[0]) else { return };
        let bytes = match dtype {
            TensorType::F32 => (0..n).flat_map(|i| (0.5 + (i % 7) as f32 / 8.0).to_le_bytes()).collect(),
            _ => vec![0x3f; row * shape[1]],
        };
        let mut values = vec![0.0; n];
        if can_dequantize(dtype) {
            dequantize(dtype, &bytes, &mut values).unwrap();
        }
        self.typed.add_raw(name, dtype, shape, bytes);
        self.plain.add(name, shape, &values);
    }

    fn source(&self, plain: bool) -> impl Fn(&GraphParams, &Policy<'_>) -> Result<ComputeGraph, BuildError> {
        let (kind, kv) = (self.kind, if plain { KvType::F32 } else { self.kv_type });
        let dtype = if plain && self.dtype != TensorType::I32 { TensorType::F32 } else { self.dtype };
        move |_: &GraphParams, _: &Policy<'_>| describe(kind, dtype, kv)
    }

    fn run(&self, driver: Arc<dyn BackendDriver>, plain: bool) -> Result<Vec<f32>, String> {
        let kv_type = if plain { KvType::F32 } else { self.kv_type };
        let weights = if plain { self.plain.clone() } else { self.typed.clone() };
        let mut registry = Registry::new();
        let backend = driver.backend();
        registry.register(driver);
        let spec = KvSpec { n_kv_heads: 1, head_dim: HEAD, block: 32, n_blocks: 2, kv_type };
        let mut scheduler = Scheduler::new(registry, Arc::new(weights), vec![spec]);
        let source = self.source(plain);
        let params = params(kv_type, backend);
        let graph =
            source(&params, &Policy::new(&Registry::new(), &params.cparams)).map_err(|e| e.to_string())?;
        let mut inputs = Vec::new();
        let floats = floats();
        for id in &graph.inputs {
            let node = graph.node(*id);
            let n = node.n_elems();
            let value = match node.out_dtype {
                DType::I32 => InputData::I32(&ints(&node.name)[..n]),
                _ => InputData::F32(&floats[..n]),
            };
            inputs.push((node.name.to_string(), value));
        }
        let named: Vec<_> = inputs.iter().map(|(n, v)| (n.as_str(), *v)).collect();
        let mut out = vec![0.0; graph.outputs.first().map_or(0, |o| graph.node(*o).n_elems())];
        let done = scheduler.step(&source, &params, &named, &mut out, None);
        done.map(|()| out).map_err(|e| e.to_string())
    }
}

/// Weights whose names begin with `f` are F32 in every case.
const WEIGHTS: [(&str, [usize; 4]); 11] = [
    ("matrix", [K, 48, 1, 1]),
    ("q", [K, DIMS.q, 1, 1]),
    ("k", [K, DIMS.kv, 1, 1]),
    ("v", [K, DIMS.kv, 1, 1]),
    ("vector", [K, 1, 1, 1]),
    ("head_norm", [K / 2, 1, 1, 1]),
    ("divisors", [K / 4, 1, 1, 1]),
    ("f_norm", [HEAD, 1, 1, 1]),
    ("f_bias_q", [DIMS.q, 1, 1, 1]),
    ("f_bias_k", [DIMS.kv, 1, 1, 1]),
    ("f_bias_v", [DIMS.kv, 1, 1, 1]),
];

/// Positive, so that no sum cancels and the tolerance means something.
fn floats() -> Vec<f32> {
    (0..8 * K).map(|i| (i * 37 % 101) as f32 / 40.0).collect()
}

/// Three tokens of sequence 1, whose positions lie in block 1.
fn ints(name: &str) -> &'static [i32] {
    match name {
        "slots" => &[32, 33, 34],
        "table" => &[0, 0, 1, 0, 0, 0],
        "rows" => &[1, 1, 1],
        "lens" => &[1, 2, 3],
        "positions" => &[0, 1, 2],
        _ => &[2, 0, 1],
    }
}

fn params(kv_type: KvType, backend: Backend) -> GraphParams {
    let whole = GpuOffload { backend, n_layers: usize::MAX, outside_layers: true };
    let cparams = CParams {
        n_ctx: 64,
        n_seq_max: 3,
        kv_block: 32,
        n_kv_blocks: 2,
        kv_type,
        backends: BackendSet::all(),
        gpu: (backend != Backend::CPU).then_some(whole),
        fuse_qkv: true,
        fuse_ffn: true,
    };
    GraphParams {
        n_tokens: N,
        n_out: N,
        head: Head::Logits,
        gtype: GraphType::Prefill,
        cparams,
        weights_version: 1,
    }
}

fn rope(head_dim: usize, freq_factors: bool) -> RopeSpec {
    let style = RopeStyle::Neox;
    RopeSpec {
        style,
        head_dim,
        n_rot: head_dim,
        freq_base: 10_000.0,
        scaling: RopeScaling::None,
        freq_factors,
    }
}

/// A graph with one node of `kind`, whose kernel `dtype` decides.
fn describe(kind: OpKind, dtype: TensorType, kv: KvType) -> Result<ComputeGraph, BuildError> {
    let mut b = GraphBuilder::new();
    let shape = |name: &str| WEIGHTS.iter().find(|w| w.0 == name).unwrap().1;
    let w = |name: &str| {
        let dtype = if name.starts_with('f') { TensorType::F32 } else { dtype };
        WeightRef { name: name.into(), dtype, shape: shape(name) }
    };
    let x = b.input("x", [K, N, 1, 1], DType::F32);
    let n_ints = |b: &mut GraphBuilder, name: &str| b.input(name, [N, 1, 1, 1], DType::I32);
    let out = match kind {
        OpKind::Input if dtype == TensorType::I32 => n_ints(&mut b, "ids"),
        OpKind::Input => x,
        OpKind::GetRows => {
            let ids = n_ints(&mut b, "ids");
            b.embed("op", ids, &w("matrix"))
        }
        OpKind::Add => b.add_bias("op", x, &w("vector")),
        OpKind::Mul => {
            let y = b.add("y", x, x);
            b.mul("op", x, y)
        }
        OpKind::Scale => b.scale("op", x, 0.75),
        OpKind::Silu => b.silu("op", x),
        OpKind::Softmax => b.softmax("op", x),
        OpKind::Argmax => b.argmax("op", x),
        OpKind::RmsNorm => b.rms_norm("op", x, &w("vector"), 1e-6),
        OpKind::QkNorm => b.qk_norm("op", x, &w("head_norm"), 1e-6, K / 2),
        OpKind::MatMul => b.matmul("op", x, &w("matrix")),
        OpKind::BatchMatMul => {
            let y = b.input("y", [K, 5, 1, 1], DType::F32);
            b.batch_matmul("op", x, y)
        }
        OpKind::Rope => {
            let positions = n_ints(&mut b, "positions");
            b.rope("op", x, positions, rope(K / 2, true), Some(&w("divisors")))
        }
        OpKind::Attn | OpKind::KvcacheStore | OpKind::KvcacheLoad | OpKind::QkvBiasRopeStore => {
            attention(&mut b, kind, kv)
        }
        OpKind::View if dtype == TensorType::I32 => {
            let ids = n_ints(&mut b, "ids");
            b.view("op", ids, 1, [2, 1, 1, 1])
        }
        OpKind::View => b.view("op", x, K, [K, 1, 1, 1]),
        OpKind::Reshape if dtype == TensorType::I32 => {
            let ids = n_ints(&mut b, "ids");
            b.reshape("op", ids, [1, N, 1, 1])
        }
        OpKind::Reshape => b.reshape("op", x, [K / 2, 2 * N, 1, 1]),
        OpKind::Permute => b.permute("op", x, [1, 0, 2, 3]),
        OpKind::SwiGlu => {
            let up = b.scale("up", x, 2.0);
            let silu = b.silu("silu", x);
            b.mul("op", silu, up)
        }
        OpKind::FusedQkv => b.fused_qkv("op", x, [&w("q"), &w("k"), &w("v")], DIMS),
        OpKind::FusedQkvNorm => {
            let weights = [&w("q"), &w("k"), &w("v"), &w("f_norm"), &w("f_norm")];
            b.fused_qkv_norm("op", x, weights, DIMS, 1e-6, HEAD)
        }
        OpKind::FusedFfn => b.fused_ffn("op", x, &w("matrix"), &w("matrix")),
    };
    b.output(out);
    b.finish()
}

fn attention(b: &mut GraphBuilder, kind: OpKind, kv: KvType) -> NodeId {
    let qkv = b.input("qkv", [DIMS.total(), N, 1, 1], DType::F32);
    let q = b.input("q_in", [DIMS.q, N, 1, 1], DType::F32);
    let k = b.input("k_in", [DIMS.kv, N, 1, 1], DType::F32);
    let positions = b.input("positions", [N, 1, 1, 1], DType::I32);
    let slots = b.input("slots", [N, 1, 1, 1], DType::I32);
    let table = b.input("table", [2, 3, 1, 1], DType::I32);
    let rows = b.input("rows", [N, 1, 1, 1], DType::I32);
    let lens = b.input("lens", [N, 1, 1, 1], DType::I32);
    let bias =
        |name: &str, n: usize| WeightRef { name: name.into(), dtype: TensorType::F32, shape: [n, 1, 1, 1] };
    let (q, stored_k, stored_v) = if kind == OpKind::QkvBiasRopeStore {
        let biases = [bias("f_bias_q", DIMS.q), bias("f_bias_k", DIMS.kv), bias("f_bias_v", DIMS.kv)];
        let [bq, bk, bv] = &biases;
        let sources = [qkv, positions, slots];
        let q = b.qkv_bias_rope_store("op", sources, 0, DIMS, Some([bq, bk, bv]), (rope(HEAD, false), None));
        (q, q, q)
    } else {
        let k_store = b.kv_store("k_store", k, slots, 0, KvPart::K, kv);
        (q, k_store, b.kv_store("v_store", k, slots, 0, KvPart::V, kv))
    };
    let k = b.kv_load("k", stored_k, 0, KvPart::K, [DIMS.kv, 64], kv);
    let v = b.kv_load("v", stored_v, 0, KvPart::V, [DIMS.kv, 64], kv);
    let spec = AttnSpec { layer: 0, n_heads: 2, n_kv_heads: 1, head_dim: HEAD, scale: 0.2 };
    b.attn("attn", q, [k, v], [table, rows, lens], spec)
}

/// Whether the driver says yes to every node that the case needs.
fn claims(driver: &dyn BackendDriver, case: &Case) -> bool {
    let op_of = |name: &str| {
        let graph = describe(case.kind, case.dtype, case.kv_type).unwrap();
        let node = match case.kind {
            OpKind::Input => graph.nodes.last(),
            _ => graph.nodes.iter().find(|n| n.op.kind() == case.kind || &*n.name == name),
        };
        node.unwrap().op.clone()
    };
    let op = if case.kind == OpKind::SwiGlu { Op::SwiGlu } else { op_of("op") };
    driver.supports_op(&op, case.dtype).is_yes()
}

/// Runs every op that `driver` claims, for every type, and compares the results with plain loops over dequantized weights;
/// makes sure that what it does not claim cannot be run. A result may be off by `tolerance`, as a share of the largest
/// value. Panics with everything that is wrong.
pub fn check_ops(driver: Arc<dyn BackendDriver>, tolerance: f32) {
    let mut failures = Vec::new();
    let (mut ran, mut refused) = (0, 0);
    for kind in OpKind::all() {
        for dtype in TensorType::all() {
            let Some(case) = Case::new(kind, dtype) else { continue };
            let what = format!("{} {dtype}", kind.name());
            if claims(driver.as_ref(), &case) {
                ran += 1;
                let reference = case.run(Arc::new(ReferenceDriver::new(Backend::CPU)), true).unwrap();
                match case.run(driver.clone(), false) {
                    Err(e) => failures.push(format!("{what}: claimed, but {e}")),
                    Ok(out) => {
                        failures
                            .extend(difference(&out, &reference, tolerance).map(|d| format!("{what}: {d}")));
                    }
                }
            } else {
                refused += 1;
                if case.run(Arc::new(ClaimsAll(driver.clone())), false).is_ok() {
                    failures.push(format!("{what}: not claimed, but it runs"));
                }
            }
        }
    }
    assert!(failures.is_empty(), "{}", failures.join("\n"));
    assert!(ran > OpKind::all().len() && refused > 50, "{ran} ran, {refused} were refused");
}

fn difference(out: &[f32], reference: &[f32], tolerance: f32) -> Option<String> {
    let scale = reference.iter().fold(0.0f32, |m, v| m.max(v.abs()));
    let worst = out.iter().zip(reference).fold(0.0f32, |m, (a, b)| m.max((a - b).abs()));
    if out.len() != reference.len() || scale == 0.0 {
        return Some(format!("{} values, all zero: {}", out.len(), scale == 0.0));
    }
    (worst > tolerance * scale || worst.is_nan()).then(|| format!("off by {worst} of {scale}"))
}
