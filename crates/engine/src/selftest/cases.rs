//! The cases: each op alone, in the sizes and forms in which kernels differ.

use minfer_gguf::{QuantError, TensorType};
use minfer_graph::{
    AttnSpec, BackendSet, BuildError, CParams, ComputeGraph, DType, GraphBuilder, GraphParams, GraphType,
    Head, KvPart, KvSpec, KvType, NodeId, OpKind, QkvDims, RopeScaling, RopeSpec, RopeStyle, WeightData,
    WeightRef, WeightSource,
};

use super::data::{Random, Weights};

/// Positions in one block of the KV cache, as contexts have it.
const KV_BLOCK: usize = 32;

/// The value of an input.
#[derive(Clone)]
pub(super) enum Given {
    I32(Vec<i32>),
    F32(Vec<f32>),
}

/// One op over one type in one size, ready to run anywhere.
pub(super) struct Case {
    pub(super) kind: OpKind,
    /// The type that decides the kernel: of the weight, or of the cache.
    pub(super) dtype: TensorType,
    /// What sets the case apart from others of its op and type.
    pub(super) form: String,
    pub(super) graph: ComputeGraph,
    pub(super) params: GraphParams,
    pub(super) kv: Vec<KvSpec>,
    pub(super) weights: Weights,
    pub(super) inputs: Vec<(&'static str, Given)>,
}

impl Case {
    /// The same with its weights as F32: what a device is compared with, which quantizes no activations as the CPU does for
    /// quantized weights.
    pub(super) fn plain(&self) -> Result<Case, QuantError> {
        let mut graph = self.graph.clone();
        for weight in graph.nodes.iter_mut().flat_map(|node| &mut node.meta.weights) {
            weight.dtype = TensorType::F32;
        }
        Ok(Case {
            kind: self.kind,
            dtype: self.dtype,
            form: self.form.clone(),
            graph,
            params: self.params,
            kv: self.kv.clone(),
            weights: self.weights.plain()?,
            inputs: self.inputs.clone(),
        })
    }
}

impl WeightSource for Case {
    fn version(&self) -> u64 {
        self.weights.version()
    }

    fn weight(&self, name: &str) -> Option<WeightData<'_>> {
        self.weights.weight(name)
    }
}

/// Everything a case is made of while it is described.
pub(super) struct Maker {
    b: GraphBuilder,
    random: Random,
    weights: Weights,
    inputs: Vec<(&'static str, Given)>,
    kv: Vec<KvSpec>,
    kv_type: KvType,
}

impl Maker {
    pub(super) fn new(seed: u64) -> Self {
        Maker {
            b: GraphBuilder::new(),
            random: Random::new(seed),
            weights: Weights::new(),
            inputs: Vec::new(),
            kv: Vec::new(),
            kv_type: KvType::F16,
        }
    }

    fn floats(&mut self, name: &'static str, d: usize, n: usize) -> NodeId {
        self.inputs.push((name, Given::F32(self.random.floats(d * n))));
        self.b.input(name, [d, n, 1, 1], DType::F32)
    }

    fn ints(&mut self, name: &'static str, values: Vec<i32>) -> NodeId {
        let shape = [values.len(), 1, 1, 1];
        self.inputs.push((name, Given::I32(values)));
        self.b.input(name, shape, DType::I32)
    }

    fn positions(&mut self, n: usize) -> NodeId {
        let values = (0..n).map(|i| (i * 37 % 5000) as i32).collect();
        self.ints("positions", values)
    }

    fn weight(&mut self, name: &str, dtype: TensorType, d: usize, rows: usize) -> WeightRef {
        self.weights.add(name, dtype, [d, rows], &mut self.random)
    }

    fn vector(&mut self, name: &str, dtype: TensorType, d: usize) -> WeightRef {
        self.weight(name, dtype, d, 1)
    }

    fn finish(
        mut self,
        kind: OpKind,
        dtype: TensorType,
        form: String,
        out: NodeId,
        n_tokens: usize,
    ) -> Result<Case, BuildError> {
        self.b.output(out);
        let n_kv_blocks = self.kv.first().map_or(1, |k| k.n_blocks);
        let cparams = CParams {
            n_ctx: n_kv_blocks * KV_BLOCK,
            n_seq_max: 1,
            kv_block: KV_BLOCK,
            n_kv_blocks,
            kv_type: self.kv_type,
            backends: BackendSet::all(),
            gpu: None,
            fuse_qkv: true,
            fuse_ffn: true,
        };
        let params = GraphParams {
            n_tokens,
            n_out: n_tokens,
            head: Head::Logits,
            gtype: GraphType::Prefill,
            cparams,
            weights_version: 1,
        };
        Ok(Case {
            kind,
            dtype,
            form,
            graph: self.b.finish()?,
            params,
            kv: self.kv,
            weights: self.weights,
            inputs: self.inputs,
        })
    }
}

pub(super) fn matmul(
    mut m: Maker,
    dtype: TensorType,
    k: usize,
    rows: usize,
    n: usize,
) -> Result<Case, BuildError> {
    let x = m.floats("x", k, n);
    let w = m.weight("w", dtype, k, rows);
    let out = m.b.matmul("op", x, &w);
    m.finish(OpKind::MatMul, dtype, format!("{k}x{rows}, {n} tokens"), out, n)
}

pub(super) fn get_rows(mut m: Maker, dtype: TensorType, k: usize, rows: usize) -> Result<Case, BuildError> {
    let ids: Vec<i32> = (0..rows as i32).rev().collect();
    let n = ids.len();
    let ids = m.ints("ids", ids);
    let w = m.weight("w", dtype, k, rows);
    let out = m.b.embed("op", ids, &w);
    m.finish(OpKind::GetRows, dtype, format!("{rows} rows of {k}"), out, n)
}

pub(super) fn pick_rows(mut m: Maker) -> Result<Case, BuildError> {
    let x = m.floats("x", 96, 7);
    let ids = m.ints("ids", vec![6, 0, 3]);
    let out = m.b.get_rows("op", x, ids);
    m.finish(OpKind::GetRows, TensorType::F32, "columns of a value".into(), out, 7)
}

const DIMS: QkvDims = QkvDims { q: 96, kv: 32 };
const HEAD: usize = 32;

pub(super) fn fused_qkv(mut m: Maker, dtype: TensorType) -> Result<Case, BuildError> {
    let x = m.floats("x", 256, 1);
    let w = [
        m.weight("q", dtype, 256, DIMS.q),
        m.weight("k", dtype, 256, DIMS.kv),
        m.weight("v", dtype, 256, DIMS.kv),
    ];
    let out = m.b.fused_qkv("op", x, [&w[0], &w[1], &w[2]], DIMS);
    m.finish(OpKind::FusedQkv, dtype, "1 token".into(), out, 1)
}

pub(super) fn fused_qkv_norm(mut m: Maker, dtype: TensorType) -> Result<Case, BuildError> {
    let x = m.floats("x", 256, 2);
    let w = [
        m.weight("q", dtype, 256, DIMS.q),
        m.weight("k", dtype, 256, DIMS.kv),
        m.weight("v", dtype, 256, DIMS.kv),
    ];
    let (qn, kn) = (m.vector("qn", TensorType::F32, HEAD), m.vector("kn", TensorType::F32, HEAD));
    let out = m.b.fused_qkv_norm("op", x, [&w[0], &w[1], &w[2], &qn, &kn], DIMS, 1e-6, HEAD);
    m.finish(OpKind::FusedQkvNorm, dtype, "2 tokens".into(), out, 2)
}

pub(super) fn fused_ffn(mut m: Maker, dtype: TensorType) -> Result<Case, BuildError> {
    let x = m.floats("x", 512, 1);
    let (gate, up) = (m.weight("gate", dtype, 512, 75), m.weight("up", dtype, 512, 75));
    let out = m.b.fused_ffn("op", x, &gate, &up);
    m.finish(OpKind::FusedFfn, dtype, "1 token".into(), out, 1)
}

pub(super) fn norm(mut m: Maker, dtype: TensorType, d: usize) -> Result<Case, BuildError> {
    let x = m.floats("x", d, 4);
    let w = m.vector("w", dtype, d);
    let out = m.b.rms_norm("op", x, &w, 1e-5);
    m.finish(OpKind::RmsNorm, dtype, format!("{d} values"), out, 4)
}

pub(super) fn qk_norm(mut m: Maker, dtype: TensorType) -> Result<Case, BuildError> {
    let x = m.floats("x", 3 * 64, 5);
    let w = m.vector("w", dtype, 64);
    let out = m.b.qk_norm("op", x, &w, 1e-6, 64);
    m.finish(OpKind::QkNorm, dtype, "3 heads of 64".into(), out, 5)
}

pub(super) fn bias(mut m: Maker, dtype: TensorType, d: usize) -> Result<Case, BuildError> {
    let x = m.floats("x", d, 4);
    let w = m.vector("w", dtype, d);
    let out = m.b.add_bias("op", x, &w);
    m.finish(OpKind::Add, dtype, format!("a bias of {d}"), out, 4)
}

fn spec(
    style: RopeStyle,
    head_dim: usize,
    n_rot: usize,
    scaling: RopeScaling,
    freq_factors: bool,
) -> RopeSpec {
    RopeSpec { style, head_dim, n_rot, freq_base: 10_000.0, scaling, freq_factors }
}

pub(super) fn ropes() -> Vec<RopeSpec> {
    let yarn = RopeScaling::Yarn {
        factor: 4.0,
        original_ctx: 2048,
        attn_factor: 1.0,
        beta_fast: 32.0,
        beta_slow: 1.0,
    };
    let mut specs = Vec::new();
    for style in [RopeStyle::Neox, RopeStyle::Interleaved] {
        specs.push(spec(style, 64, 64, RopeScaling::None, false));
        specs.push(spec(style, 80, 32, RopeScaling::None, false));
        specs.push(spec(style, 64, 64, RopeScaling::Linear { factor: 4.0 }, false));
        specs.push(spec(style, 128, 128, yarn, false));
        specs.push(spec(style, 64, 64, RopeScaling::None, true));
    }
    specs
}

pub(super) fn rope(mut m: Maker, spec: RopeSpec) -> Result<Case, BuildError> {
    let x = m.floats("x", 3 * spec.head_dim, 9);
    let positions = m.positions(9);
    // Divisors are positive.
    let factors = spec.freq_factors.then(|| {
        let w = m.vector("factors", TensorType::F32, spec.n_rot / 2);
        m.weights.make_positive("factors");
        w
    });
    let out = m.b.rope("op", x, positions, spec, factors.as_ref());
    let form = format!("{:?}, {} of {}, {:?}", spec.style, spec.n_rot, spec.head_dim, spec.scaling);
    m.finish(OpKind::Rope, TensorType::F32, form, out, 9)
}

/// Keys and values of `n_kv` positions are stored, and the last `n` of them are asked about.
pub(super) fn attn(
    mut m: Maker,
    kv_type: KvType,
    [n_heads, n_kv_heads, head_dim]: [usize; 3],
    n_kv: usize,
    n: usize,
) -> Result<Case, BuildError> {
    let kv_dim = n_kv_heads * head_dim;
    let q = m.floats("q", n_heads * head_dim, n);
    let (k, v) = (m.floats("k", kv_dim, n_kv), m.floats("v", kv_dim, n_kv));
    let slots = m.ints("slots", (0..n_kv as i32).collect());
    m.kv_type = kv_type;
    let stored_k = m.b.kv_store("k_store", k, slots, 0, KvPart::K, kv_type);
    let stored_v = m.b.kv_store("v_store", v, slots, 0, KvPart::V, kv_type);
    let spec = AttnSpec { layer: 0, n_heads, n_kv_heads, head_dim, scale: 1.0 / (head_dim as f32).sqrt() };
    let out = attend(&mut m, q, [stored_k, stored_v], n_kv, n, spec);
    let form = format!("{n_heads}/{n_kv_heads} heads of {head_dim}, {n} tokens over {n_kv}");
    m.finish(OpKind::Attn, kv_type.tensor_type(), form, out, n)
}

fn attend(m: &mut Maker, q: NodeId, stored: [NodeId; 2], n_kv: usize, n: usize, spec: AttnSpec) -> NodeId {
    let (n_kv_heads, head_dim, kv_type) = (spec.n_kv_heads, spec.head_dim, m.kv_type);
    let n_blocks = n_kv.div_ceil(KV_BLOCK);
    m.kv.push(KvSpec { n_kv_heads, head_dim, block: KV_BLOCK, n_blocks, kv_type });
    let table = m.ints("table", (0..n_blocks as i32).collect());
    let rows = m.ints("rows", vec![0; n]);
    let lens = m.ints("lens", (n_kv - n + 1..=n_kv).map(|len| len as i32).collect());
    let shape = [n_kv_heads * head_dim, n_blocks * KV_BLOCK];
    let k = m.b.kv_load("k_region", stored[0], 0, KvPart::K, shape, kv_type);
    let v = m.b.kv_load("v_region", stored[1], 0, KvPart::V, shape, kv_type);
    m.b.attn("op", q, [k, v], [table, rows, lens], spec)
}

/// Seen through attention, which reads what it stores.
pub(super) fn bias_rope_store(mut m: Maker, kv_type: KvType, bias: bool) -> Result<Case, BuildError> {
    const N: usize = 5;
    m.kv_type = kv_type;
    let qkv = m.floats("qkv", DIMS.total(), N);
    let (positions, slots) = (m.positions(N), m.ints("slots", (0..N as i32).collect()));
    let biases = bias.then(|| {
        let f32 = TensorType::F32;
        [m.vector("bq", f32, DIMS.q), m.vector("bk", f32, DIMS.kv), m.vector("bv", f32, DIMS.kv)]
    });
    let rope = spec(RopeStyle::Neox, HEAD, HEAD, RopeScaling::None, false);
    let refs = biases.as_ref().map(|b| [&b[0], &b[1], &b[2]]);
    let q = m.b.qkv_bias_rope_store("store", [qkv, positions, slots], 0, DIMS, refs, (rope, None));
    let spec = AttnSpec { layer: 0, n_heads: DIMS.q / HEAD, n_kv_heads: 1, head_dim: HEAD, scale: 0.2 };
    let out = attend(&mut m, q, [q, q], N, N, spec);
    let form = if bias { "with biases" } else { "without biases" };
    m.finish(OpKind::QkvBiasRopeStore, kv_type.tensor_type(), form.into(), out, N)
}

pub(super) fn elementwise(mut m: Maker, kind: OpKind, d: usize, n: usize) -> Result<Case, BuildError> {
    let (x, y) = (m.floats("x", d, n), m.floats("y", d, n));
    let out = match kind {
        OpKind::Mul => m.b.mul("op", x, y),
        OpKind::Scale => m.b.scale("op", x, 0.37),
        OpKind::Silu => m.b.silu("op", x),
        OpKind::Softmax => m.b.softmax("op", x),
        OpKind::Argmax => m.b.argmax("op", x),
        // The pass folds it.
        OpKind::SwiGlu => {
            let silu = m.b.silu("silu", x);
            m.b.mul("op", silu, y)
        }
        _ => m.b.add("op", x, y),
    };
    m.finish(kind, TensorType::F32, format!("{d} x {n}"), out, n)
}

pub(super) fn permute(mut m: Maker, axes: [usize; 4]) -> Result<Case, BuildError> {
    let x = m.floats("x", 48, 10);
    let x = m.b.reshape("view", x, [16, 3, 10, 1]);
    let out = m.b.permute("op", x, axes);
    m.finish(OpKind::Permute, TensorType::F32, format!("{axes:?}"), out, 10)
}

pub(super) fn batch_matmul(mut m: Maker) -> Result<Case, BuildError> {
    let (a, b) = (m.floats("a", 67, 9), m.floats("b", 67, 5));
    let out = m.b.batch_matmul("op", a, b);
    m.finish(OpKind::BatchMatMul, TensorType::F32, "67 x 9 x 5".into(), out, 5)
}
