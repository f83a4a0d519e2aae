//! Which cases a test runs.

use minfer_gguf::TensorType;
use minfer_graph::{BuildError, KvType, OpKind};

use super::cases::{
    Case, Maker, attn, batch_matmul, bias, bias_rope_store, elementwise, fused_ffn, fused_qkv,
    fused_qkv_norm, get_rows, matmul, norm, permute, pick_rows, qk_norm, rope, ropes,
};

/// Tokens of a step: one, fewer than a tile, more than one tile, a tile. The first three are the kernels that devices choose
/// from.
const TOKENS: [usize; 4] = [1, 3, 35, 8];

/// Inputs and outputs of a matrix: small, and neither a multiple of a tile.
const MATRICES: [(usize, usize); 2] = [(256, 40), (768, 83)];

const FLOATS: [TensorType; 3] = [TensorType::F32, TensorType::F16, TensorType::BF16];

/// Which cases are wanted.
pub(super) struct Wanted<'a> {
    /// Ops and types.
    pub(super) kernel: &'a dyn Fn(OpKind, TensorType) -> bool,
    /// Only the small ones: enough to find a kernel that computes nonsense.
    pub(super) quick: bool,
}

impl Wanted<'_> {
    fn has(&self, kind: OpKind, dtype: TensorType) -> bool {
        (self.kernel)(kind, dtype)
    }

    /// The first of `all` in a quick test.
    fn some<'s, T>(&self, all: &'s [T], quick: usize) -> &'s [T] {
        if self.quick { &all[..quick] } else { all }
    }
}

/// Makes cases, each with numbers of its own.
#[derive(Default)]
struct Cases {
    made: Vec<Case>,
    /// Equal seeds give equal numbers.
    seed: u64,
}

impl Cases {
    fn add(&mut self, make: impl FnOnce(Maker) -> Result<Case, BuildError>) -> Result<(), BuildError> {
        self.seed += 1;
        self.made.push(make(Maker::new(self.seed))?);
        Ok(())
    }
}

/// The wanted cases, for every tensor type that can be asked about.
pub(super) fn of(wanted: &Wanted<'_>) -> Result<Vec<Case>, BuildError> {
    let mut cases = Cases::default();
    for dtype in TensorType::all().filter(|t| minfer_gguf::can_dequantize(*t)) {
        with_matrices(&mut cases, wanted, dtype)?;
    }
    for dtype in FLOATS {
        with_vectors(&mut cases, wanted, dtype)?;
    }
    if wanted.has(OpKind::Rope, TensorType::F32) {
        for form in ropes() {
            cases.add(|m| rope(m, form))?;
        }
    }
    for kv_type in [KvType::F16, KvType::F32, KvType::Q8_0] {
        over_a_cache(&mut cases, wanted, kv_type)?;
    }
    of_values(&mut cases, wanted)?;
    Ok(cases.made)
}

fn with_matrices(cases: &mut Cases, wanted: &Wanted<'_>, dtype: TensorType) -> Result<(), BuildError> {
    for &(k, rows) in wanted.some(&MATRICES, 1) {
        if wanted.has(OpKind::MatMul, dtype) {
            for &n in wanted.some(&TOKENS, 3) {
                cases.add(|m| matmul(m, dtype, k, rows, n))?;
            }
        }
        if wanted.has(OpKind::GetRows, dtype) {
            cases.add(|m| get_rows(m, dtype, k, rows))?;
        }
    }
    if wanted.has(OpKind::FusedQkv, dtype) {
        cases.add(|m| fused_qkv(m, dtype))?;
    }
    if wanted.has(OpKind::FusedQkvNorm, dtype) {
        cases.add(|m| fused_qkv_norm(m, dtype))?;
    }
    if wanted.has(OpKind::FusedFfn, dtype) {
        cases.add(|m| fused_ffn(m, dtype))?;
    }
    Ok(())
}

fn with_vectors(cases: &mut Cases, wanted: &Wanted<'_>, dtype: TensorType) -> Result<(), BuildError> {
    for d in [32, 100, 896] {
        if wanted.has(OpKind::RmsNorm, dtype) {
            cases.add(|m| norm(m, dtype, d))?;
        }
        if wanted.has(OpKind::Add, dtype) {
            cases.add(|m| bias(m, dtype, d))?;
        }
    }
    if wanted.has(OpKind::QkNorm, dtype) {
        cases.add(|m| qk_norm(m, dtype))?;
    }
    Ok(())
}

fn over_a_cache(cases: &mut Cases, wanted: &Wanted<'_>, kv_type: KvType) -> Result<(), BuildError> {
    if wanted.has(OpKind::Attn, kv_type.tensor_type()) {
        for (heads, kv_heads, head_dim) in [(2, 1, 32), (14, 2, 64), (9, 3, 64), (4, 4, 80), (4, 1, 128)] {
            for &(n_kv, n) in wanted.some(&[(1, 1), (40, 40), (300, 300), (700, 1)], 2) {
                cases.add(|m| attn(m, kv_type, [heads, kv_heads, head_dim], n_kv, n))?;
            }
        }
    }
    if wanted.has(OpKind::QkvBiasRopeStore, kv_type.tensor_type()) {
        for bias in [false, true] {
            cases.add(|m| bias_rope_store(m, kv_type, bias))?;
        }
    }
    Ok(())
}

fn of_values(cases: &mut Cases, wanted: &Wanted<'_>) -> Result<(), BuildError> {
    let f32 = TensorType::F32;
    use OpKind::{Add, Argmax, Mul, Scale, Silu, Softmax, SwiGlu};
    for kind in [Add, Mul, Scale, Silu, Softmax, Argmax, SwiGlu] {
        for (d, n) in [(1, 1), (31, 5), (896, 3)] {
            if wanted.has(kind, f32) {
                cases.add(|m| elementwise(m, kind, d, n))?;
            }
        }
    }
    if wanted.has(OpKind::Permute, f32) {
        for axes in [[1, 0, 2, 3], [0, 2, 1, 3]] {
            cases.add(|m| permute(m, axes))?;
        }
    }
    if wanted.has(OpKind::GetRows, f32) {
        cases.add(pick_rows)?;
    }
    if wanted.has(OpKind::BatchMatMul, f32) {
        cases.add(batch_matmul)?;
    }
    Ok(())
}
