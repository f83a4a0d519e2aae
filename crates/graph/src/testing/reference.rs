//! A host backend written for reading: f32 values in buffers of its own, one plain loop an op, F32 weights only.
//!
//! It proves the graph machinery without a device: splits, copies between backends, aliasing, refusals. A subset of ops can
//! be refused, and any backend handle can be taken.

use std::any::Any;
use std::sync::{Arc, Mutex, PoisonError};

use minfer_gguf::TensorType;

use crate::backend::Backend;
use crate::driver::{
    AttnSpan, BackendDriver, Buffer, FaultAt, KernelFault, KvSpec, PrepareJob, Prepared, Support,
    WeightSource, WeightUse,
};
use crate::graph::{Node, NodeId};
use crate::op::{AttnSpec, KvPart, Op, OpKind, QkvDims, RopeScaling, RopeSpec, RopeStyle};
use crate::params::KvType;

/// Host memory behind a lock.
pub(super) struct HostBuffer(Mutex<Vec<u8>>);

impl HostBuffer {
    /// Memory of `bytes` zeros.
    pub(super) fn zeroed(bytes: usize) -> Arc<dyn Buffer> {
        Arc::new(HostBuffer(Mutex::new(vec![0; bytes])))
    }
}

impl Buffer for HostBuffer {
    fn bytes(&self) -> usize {
        self.0.lock().unwrap_or_else(PoisonError::into_inner).len()
    }

    fn write(&self, offset: usize, data: &[u8]) -> Result<(), KernelFault> {
        let mut bytes = self.0.lock().unwrap_or_else(PoisonError::into_inner);
        let place = bytes.get_mut(offset..offset + data.len());
        place.ok_or_else(|| KernelFault::Bug("a write outside a buffer".into()))?.copy_from_slice(data);
        Ok(())
    }

    fn read(&self, offset: usize, out: &mut [u8]) -> Result<(), KernelFault> {
        let bytes = self.0.lock().unwrap_or_else(PoisonError::into_inner);
        let place = bytes.get(offset..offset + out.len());
        out.copy_from_slice(place.ok_or_else(|| KernelFault::Bug("a read outside a buffer".into()))?);
        Ok(())
    }

    fn as_any(self: Arc<Self>) -> Arc<dyn Any + Send + Sync> {
        self
    }
}

/// The driver.
pub struct ReferenceDriver {
    backend: Backend,
    refused: Vec<OpKind>,
}

impl ReferenceDriver {
    /// A reference backend under the handle `backend`.
    pub fn new(backend: Backend) -> Self {
        ReferenceDriver { backend, refused: Vec::new() }
    }

    /// The same, refusing some ops.
    #[must_use]
    pub fn refusing(mut self, ops: &[OpKind]) -> Self {
        self.refused.extend_from_slice(ops);
        self
    }

    fn claims(&self, kind: OpKind) -> Support {
        if self.refused.contains(&kind) { Support::No("refused by the test") } else { Support::Yes }
    }
}

impl BackendDriver for ReferenceDriver {
    fn backend(&self) -> Backend {
        self.backend
    }

    fn describe(&self) -> String {
        "plain loops over host memory".into()
    }

    fn supports_op(&self, op: &Op, dtype: TensorType) -> Support {
        let moves = matches!(op, Op::Input | Op::View { .. } | Op::Reshape);
        match dtype {
            TensorType::F32 => self.claims(op.kind()),
            TensorType::I32 if moves => self.claims(op.kind()),
            _ => Support::No("only F32 weights and cache"),
        }
    }

    fn supports_fused(&self, fused: OpKind) -> Support {
        self.claims(fused)
    }

    fn supports_attn_span(&self, _span: &AttnSpan) -> Support {
        Support::Yes
    }

    fn allocate(&self, bytes: usize) -> Result<Arc<dyn Buffer>, KernelFault> {
        Ok(HostBuffer::zeroed(bytes))
    }

    fn load_weight(&self, usage: WeightUse<'_>, weights: &dyn WeightSource) -> Result<(), KernelFault> {
        weight(usage.name, weights).map(|_| ())
    }

    fn prepare(&self, job: &PrepareJob<'_>) -> Result<Box<dyn Prepared>, KernelFault> {
        let steps = job.nodes.iter().map(|id| Step::new(job, *id)).collect::<Result<_, _>>()?;
        Ok(Box::new(ReferencePrepared { steps }))
    }
}

fn weight(name: &str, weights: &dyn WeightSource) -> Result<Vec<f32>, KernelFault> {
    let found = weights.weight(name);
    let data = found.ok_or_else(|| KernelFault::Weight { name: name.into(), reason: "is missing".into() })?;
    if data.dtype != TensorType::F32 {
        return Err(KernelFault::Weight { name: name.into(), reason: "is not F32".into() });
    }
    Ok(words(data.bytes, f32::from_le_bytes))
}

fn words<T>(bytes: &[u8], from: fn([u8; 4]) -> T) -> Vec<T> {
    bytes.chunks_exact(4).map(|b| from([b[0], b[1], b[2], b[3]])).collect()
}

type Location = (Arc<dyn Buffer>, usize);

struct Step {
    node: Node,
    src: Vec<(Node, Option<Location>)>,
    out: Option<Location>,
    weights: Vec<Vec<f32>>,
    kv: Option<(KvSpec, [Arc<dyn Buffer>; 2])>,
}

struct ReferencePrepared {
    steps: Vec<Step>,
}

impl Prepared for ReferencePrepared {
    fn execute(&mut self) -> Result<(), FaultAt> {
        (0..self.steps.len()).try_for_each(|i| self.execute_node(i))
    }

    fn execute_node(&mut self, index: usize) -> Result<(), FaultAt> {
        let step = &self.steps[index];
        step.run().map_err(|fault| FaultAt { node: step.node.id, fault })
    }
}

impl Step {
    fn new(job: &PrepareJob<'_>, id: NodeId) -> Result<Step, KernelFault> {
        let node = job.node(id).clone();
        let locate = |id: NodeId| {
            let n = job.node(id);
            if n.op.is_kv_handle() { Ok(None) } else { job.memory.value(id).map(Some) }
        };
        let kv = match node.op.kv_layer() {
            Some(layer) if job.kv[layer].kv_type != KvType::F32 => {
                return Err(KernelFault::Bug(format!("the cache of layer {layer} is not F32")));
            }
            Some(layer) => {
                let regions = [job.memory.kv(layer, KvPart::K)?, job.memory.kv(layer, KvPart::V)?];
                Some((job.kv[layer], regions))
            }
            None => None,
        };
        Ok(Step {
            src: node
                .src
                .iter()
                .map(|s| Ok((job.node(*s).clone(), locate(*s)?)))
                .collect::<Result<_, KernelFault>>()?,
            out: locate(id)?,
            weights: node
                .meta
                .weights
                .iter()
                .map(|w| weight(&w.name, job.weights))
                .collect::<Result<_, _>>()?,
            kv,
            node,
        })
    }

    fn bytes(&self, i: usize) -> Result<Vec<u8>, KernelFault> {
        let (node, location) = &self.src[i];
        let (buffer, offset) =
            location.as_ref().ok_or_else(|| KernelFault::Bug("a KV handle was read".into()))?;
        let mut bytes = vec![0; node.out_bytes()];
        buffer.read(*offset, &mut bytes)?;
        Ok(bytes)
    }

    fn f32s(&self, i: usize) -> Result<Vec<f32>, KernelFault> {
        Ok(words(&self.bytes(i)?, f32::from_le_bytes))
    }

    fn i32s(&self, i: usize) -> Result<Vec<i32>, KernelFault> {
        Ok(words(&self.bytes(i)?, i32::from_le_bytes))
    }

    /// The second operand of an elementwise op: a source, or a weight repeated for every column.
    fn second(&self, n: usize) -> Result<Vec<f32>, KernelFault> {
        match self.src.len() {
            2 => self.f32s(1),
            _ => Ok(self.weights[0].iter().copied().cycle().take(n).collect()),
        }
    }

    fn run(&self) -> Result<(), KernelFault> {
        let d = self.src.first().map_or(0, |s| s.0.out_shape[0]);
        let out = match &self.node.op {
            Op::Input | Op::KvcacheLoad { .. } | Op::View { .. } | Op::Reshape => return Ok(()),
            Op::GetRows => self.get_rows()?,
            Op::Add => zip(self.f32s(0)?, |n| self.second(n), |a, b| a + b)?,
            Op::Mul => zip(self.f32s(0)?, |n| self.second(n), |a, b| a * b)?,
            Op::Scale { factor } => self.f32s(0)?.iter().map(|x| x * factor).collect(),
            Op::Silu => self.f32s(0)?.iter().map(|x| silu(*x)).collect(),
            Op::Softmax => self.f32s(0)?.chunks(d).flat_map(softmax).collect(),
            Op::Argmax => self.f32s(0)?.chunks(d).flat_map(argmax).collect(),
            Op::RmsNorm { eps } => rms_norm(&self.f32s(0)?, &self.weights[0], *eps),
            Op::QkNorm { eps, .. } => rms_norm(&self.f32s(0)?, &self.weights[0], *eps),
            Op::MatMul => matmul(&self.f32s(0)?, &self.weights[0], d),
            Op::BatchMatMul => self.batch_matmul()?,
            Op::Rope(spec) => rope(self.f32s(0)?, d, &self.i32s(1)?, spec, self.weights.first()),
            Op::Attn(spec) => self.attn(spec)?,
            Op::KvcacheStore { part, .. } => return self.store(*part, &self.f32s(0)?, d, &self.i32s(1)?),
            Op::Permute { axes } => permute(&self.f32s(0)?, self.src[0].0.out_shape, *axes),
            Op::SwiGlu => zip(self.f32s(0)?, |_| self.f32s(1), |g, u| silu(g) * u)?,
            Op::FusedQkv(dims) => self.fused_qkv(dims, None)?,
            Op::FusedQkvNorm { dims, eps, .. } => self.fused_qkv(dims, Some(*eps))?,
            Op::QkvBiasRopeStore { dims, bias, rope, .. } => self.bias_rope_store(dims, *bias, rope)?,
            Op::FusedFfn => {
                let x = self.f32s(0)?;
                let up = matmul(&x, &self.weights[1], d);
                zip(matmul(&x, &self.weights[0], d), |_| Ok(up.clone()), |g, u| silu(g) * u)?
            }
        };
        self.write(&out)
    }

    fn write(&self, out: &[f32]) -> Result<(), KernelFault> {
        let (buffer, offset) =
            self.out.as_ref().ok_or_else(|| KernelFault::Bug("nowhere to write".into()))?;
        let bytes: Vec<u8> = out.iter().flat_map(|x| x.to_le_bytes()).collect();
        buffer.write(*offset, &bytes)
    }

    fn get_rows(&self) -> Result<Vec<f32>, KernelFault> {
        let (table, d, ids) = match self.src.len() {
            1 => (self.weights[0].clone(), self.node.meta.weights[0].shape[0], self.i32s(0)?),
            _ => (self.f32s(0)?, self.src[0].0.out_shape[0], self.i32s(1)?),
        };
        let mut out = Vec::new();
        for id in ids {
            let row = usize::try_from(id).ok().and_then(|id| table.get(id * d..(id + 1) * d));
            out.extend(row.ok_or_else(|| KernelFault::BadInput(format!("row {id} is outside the table")))?);
        }
        Ok(out)
    }

    fn batch_matmul(&self) -> Result<Vec<f32>, KernelFault> {
        let (a, b) = (self.f32s(0)?, self.f32s(1)?);
        let [k, m, ..] = self.src[0].0.out_shape;
        let n = self.src[1].0.out_shape[1];
        let mut out = Vec::new();
        for (a, b) in a.chunks(k * m).zip(b.chunks(k * n)) {
            out.extend(matmul(b, a, k));
        }
        Ok(out)
    }

    fn store(&self, part: KvPart, x: &[f32], d: usize, slots: &[i32]) -> Result<(), KernelFault> {
        let (spec, regions) = self.kv.as_ref().ok_or_else(|| KernelFault::Bug("no KV region".into()))?;
        for (column, slot) in x.chunks(d).zip(slots) {
            let slot = usize::try_from(*slot).ok().filter(|s| *s < spec.n_slots());
            let slot = slot.ok_or_else(|| KernelFault::BadInput("a KV slot is outside the region".into()))?;
            let bytes: Vec<u8> = column.iter().flat_map(|v| v.to_le_bytes()).collect();
            regions[(part == KvPart::V) as usize].write(slot * d * 4, &bytes)?;
        }
        Ok(())
    }

    fn attn(&self, spec: &AttnSpec) -> Result<Vec<f32>, KernelFault> {
        let (kv, regions) = self.kv.as_ref().ok_or_else(|| KernelFault::Bug("no KV region".into()))?;
        let (q, table, rows, lens) = (self.f32s(0)?, self.i32s(3)?, self.i32s(4)?, self.i32s(5)?);
        let blocks = self.src[3].0.out_shape[0];
        let d = spec.n_kv_heads * spec.head_dim;
        let read = |region: &Arc<dyn Buffer>, row: i32, position: usize| {
            let block = table[row as usize * blocks + position / kv.block] as usize;
            let mut bytes = vec![0; d * 4];
            region.read((block * kv.block + position % kv.block) * d * 4, &mut bytes)?;
            Ok::<_, KernelFault>(words(&bytes, f32::from_le_bytes))
        };
        let mut out = Vec::new();
        for (t, q) in q.chunks(spec.n_heads * spec.head_dim).enumerate() {
            let positions = 0..lens[t] as usize;
            let keys =
                positions.clone().map(|p| read(&regions[0], rows[t], p)).collect::<Result<Vec<_>, _>>()?;
            let values = positions.map(|p| read(&regions[1], rows[t], p)).collect::<Result<Vec<_>, _>>()?;
            for (h, q) in q.chunks(spec.head_dim).enumerate() {
                let at = h / (spec.n_heads / spec.n_kv_heads) * spec.head_dim;
                let head = at..at + spec.head_dim;
                let scores: Vec<f32> = keys.iter().map(|k| dot(q, &k[head.clone()]) * spec.scale).collect();
                let weights = softmax(&scores);
                out.extend(head.map(|i| weights.iter().zip(&values).map(|(w, v)| w * v[i]).sum::<f32>()));
            }
        }
        Ok(out)
    }

    fn fused_qkv(&self, dims: &QkvDims, eps: Option<f32>) -> Result<Vec<f32>, KernelFault> {
        let x = self.f32s(0)?;
        let d = self.src[0].0.out_shape[0];
        let mut parts: Vec<Vec<f32>> = (0..3).map(|i| matmul(&x, &self.weights[i], d)).collect();
        if let Some(eps) = eps {
            parts[0] = rms_norm(&parts[0], &self.weights[3], eps);
            parts[1] = rms_norm(&parts[1], &self.weights[4], eps);
        }
        let columns = parts[0].chunks(dims.q).zip(parts[1].chunks(dims.kv)).zip(parts[2].chunks(dims.kv));
        Ok(columns.flat_map(|((q, k), v)| [q, k, v].concat()).collect())
    }

    fn bias_rope_store(&self, dims: &QkvDims, bias: bool, spec: &RopeSpec) -> Result<Vec<f32>, KernelFault> {
        let (qkv, positions, slots) = (self.f32s(0)?, self.i32s(1)?, self.i32s(2)?);
        let factors = spec.freq_factors.then(|| &self.weights[self.weights.len() - 1]);
        let part = |from: usize, rows: usize, weight: usize| -> Vec<f32> {
            let columns = qkv.chunks(dims.total()).flat_map(|c| c[from..from + rows].to_vec());
            let biases = if bias { self.weights[weight].clone() } else { vec![0.0; rows] };
            columns.zip(biases.iter().copied().cycle()).map(|(x, b)| if bias { x + b } else { x }).collect()
        };
        let q = rope(part(0, dims.q, 0), dims.q, &positions, spec, factors);
        let k = rope(part(dims.q, dims.kv, 1), dims.kv, &positions, spec, factors);
        self.store(KvPart::K, &k, dims.kv, &slots)?;
        self.store(KvPart::V, &part(dims.q + dims.kv, dims.kv, 2), dims.kv, &slots)?;
        Ok(q)
    }
}

fn zip(
    a: Vec<f32>,
    b: impl Fn(usize) -> Result<Vec<f32>, KernelFault>,
    f: impl Fn(f32, f32) -> f32,
) -> Result<Vec<f32>, KernelFault> {
    let b = b(a.len())?;
    Ok(a.iter().zip(&b).map(|(x, y)| f(*x, *y)).collect())
}

fn dot(a: &[f32], b: &[f32]) -> f32 {
    a.iter().zip(b).map(|(x, y)| x * y).sum()
}

fn silu(x: f32) -> f32 {
    x / (1.0 + (-x).exp())
}

fn softmax(x: &[f32]) -> Vec<f32> {
    let max = x.iter().copied().fold(f32::NEG_INFINITY, f32::max);
    let e: Vec<f32> = x.iter().map(|v| (v - max).exp()).collect();
    let sum: f32 = e.iter().sum();
    e.iter().map(|v| v / sum).collect()
}

fn argmax(x: &[f32]) -> [f32; 2] {
    let most = x.iter().copied().fold(f32::NEG_INFINITY, f32::max);
    let bad = x.iter().position(|v| v.is_nan() || *v == f32::INFINITY);
    let place = bad.or_else(|| x.iter().position(|v| *v == most)).unwrap_or(0);
    [place as f32, x[place]]
}

fn rms_norm(x: &[f32], w: &[f32], eps: f32) -> Vec<f32> {
    let normed = |row: &[f32]| {
        let mean = dot(row, row) / row.len() as f32;
        row.iter().zip(w).map(|(x, w)| x / (mean + eps).sqrt() * w).collect::<Vec<_>>()
    };
    x.chunks(w.len()).flat_map(normed).collect()
}

fn matmul(x: &[f32], w: &[f32], d: usize) -> Vec<f32> {
    x.chunks(d).flat_map(|x| w.chunks(d).map(|w| dot(w, x)).collect::<Vec<_>>()).collect()
}

fn permute(x: &[f32], shape: [usize; 4], axes: [usize; 4]) -> Vec<f32> {
    let strides = [1, shape[0], shape[0] * shape[1], shape[0] * shape[1] * shape[2]];
    let [s, t] = [axes.map(|a| strides[a]), axes.map(|a| shape[a])];
    let mut out = Vec::with_capacity(x.len());
    for l in 0..t[3] {
        for k in 0..t[2] {
            for j in 0..t[1] {
                out.extend((0..t[0]).map(|i| x[i * s[0] + j * s[1] + k * s[2] + l * s[3]]));
            }
        }
    }
    out
}

fn rope(
    mut x: Vec<f32>,
    d: usize,
    positions: &[i32],
    spec: &RopeSpec,
    factors: Option<&Vec<f32>>,
) -> Vec<f32> {
    for (column, position) in x.chunks_mut(d).zip(positions) {
        for head in column.chunks_mut(spec.head_dim) {
            for i in 0..spec.n_rot / 2 {
                let (a, b) = match spec.style {
                    RopeStyle::Interleaved => (2 * i, 2 * i + 1),
                    RopeStyle::Neox => (i, i + spec.n_rot / 2),
                };
                let mut freq = f64::from(spec.freq_base).powf(-2.0 * i as f64 / spec.n_rot as f64);
                freq /= factors.map_or(1.0, |f| f64::from(f[i]));
                if let RopeScaling::Linear { factor } = spec.scaling {
                    freq /= f64::from(factor);
                }
                let (sin, cos) = (f64::from(*position) * freq).sin_cos();
                let (p, q) = (head[a], head[b]);
                head[a] = p * cos as f32 - q * sin as f32;
                head[b] = p * sin as f32 + q * cos as f32;
            }
        }
    }
    x
}
