//! The operations a graph is made of, each with its whole payload.
//!
//! Shapes follow GGML: dimension 0 is fastest, activations are `[d, n_tokens]`, a weight `[in, out]` lies in memory as
//! `out` rows of `in`. Sources and weights of each op, in order, are stated at its variant; [`crate::shape`] checks them.

use minfer_gguf::TensorType;

/// Which values a RoPE pair is made of.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub enum RopeStyle {
    /// Neighbours `(2i, 2i + 1)`: files of the llama architecture.
    Interleaved,
    /// Halves `(i, i + n_rot / 2)`: NeoX style, as qwen2 and qwen3 use it.
    Neox,
}

/// How rotary frequencies are stretched beyond the trained context.
#[derive(Clone, Copy, Debug, PartialEq)]
pub enum RopeScaling {
    /// Frequencies as trained.
    None,
    /// Every frequency divided by `factor`.
    Linear {
        /// Stretch of the context.
        factor: f32,
    },
    /// NTK by parts, <https://arxiv.org/abs/2309.00071>.
    Yarn {
        /// Stretch of the context.
        factor: f32,
        /// Context length of the training.
        original_ctx: u32,
        /// Multiplies the magnitude correction `1 + 0.1 ln(factor)`.
        attn_factor: f32,
        /// Turns over the original context above which a frequency is kept.
        beta_fast: f32,
        /// Turns over the original context below which a frequency is divided by `factor`.
        beta_slow: f32,
    },
}

/// A rotary position embedding (<https://arxiv.org/abs/2104.09864>).
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct RopeSpec {
    /// Which values are rotated together.
    pub style: RopeStyle,
    /// Values per head.
    pub head_dim: usize,
    /// Rotated values at the front of each head; the rest is copied.
    pub n_rot: usize,
    /// Base of the frequencies, `theta`.
    pub freq_base: f32,
    /// Stretch of the context.
    pub scaling: RopeScaling,
    /// Whether the node's last weight holds one divisor for each of the `n_rot / 2` frequencies.
    pub freq_factors: bool,
}

/// Keys or values.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub enum KvPart {
    /// Keys.
    K,
    /// Values.
    V,
}

/// Causal grouped-query attention over the blocks of the KV cache.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct AttnSpec {
    /// The layer whose KV regions are read.
    pub layer: usize,
    /// Query heads.
    pub n_heads: usize,
    /// Key and value heads; divides `n_heads`.
    pub n_kv_heads: usize,
    /// Values per head.
    pub head_dim: usize,
    /// Multiplies every score before the softmax.
    pub scale: f32,
}

/// Row ranges of a fused query, key and value projection.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub struct QkvDims {
    /// Rows of the query: `n_heads * head_dim`.
    pub q: usize,
    /// Rows of the key, and of the value: `n_kv_heads * head_dim`.
    pub kv: usize,
}

impl QkvDims {
    /// Rows of all three.
    pub fn total(&self) -> usize {
        self.q + 2 * self.kv
    }
}

/// One operation. `x: [a, b]` gives the shape of a source, `w: [in, out]` that of a weight; every activation is f32.
#[derive(Clone, Debug, PartialEq)]
pub enum Op {
    /// Filled by the caller before each step.
    Input,
    /// `ids: [n]`, weight `[d, rows]`, or `x: [d, rows]`, `ids: [n]` without weight → `[d, n]`: columns by index.
    GetRows,
    /// `a: [d, n]`, `b: [d, n]`, or `a` and a weight `[d]` added to every column → `[d, n]`.
    Add,
    /// `a: [d, n]`, `b: [d, n]` → `[d, n]`, elementwise product.
    Mul,
    /// `x` times a constant.
    Scale {
        /// The constant.
        factor: f32,
    },
    /// `x · sigmoid(x)`.
    Silu,
    /// Softmax over dimension 0.
    Softmax,
    /// `x: [d, n]`, d at most 2^24, gives `[2, n]`: of each column the place of an element, as a number, and the element. It is
    /// the first that is NaN or positive infinity; without one, the largest, the first among equals.
    Argmax,
    /// `x: [d, n]`, weight `[d]`: `x / sqrt(mean(x²) + eps) · w` of each column (<https://arxiv.org/abs/1910.07467>).
    RmsNorm {
        /// Added to the mean of squares.
        eps: f32,
    },
    /// [`Op::RmsNorm`] of each head: `x: [heads · head_dim, n]`, weight `[head_dim]`.
    QkNorm {
        /// Added to the mean of squares.
        eps: f32,
        /// Values per head.
        head_dim: usize,
    },
    /// `x: [in, n]`, weight `[in, out]` → `[out, n]`.
    MatMul,
    /// `a: [k, m, p, q]`, `b: [k, n, p, q]` → `[m, n, p, q]`: `out[i, j] = Σ a[·, i] b[·, j]` for each `(p, q)`.
    BatchMatMul,
    /// `x: [heads · head_dim, n]`, `positions: [n]`; weight: divisors `[n_rot / 2]` when the spec says so.
    Rope(RopeSpec),
    /// `q: [n_heads · head_dim, n]`, K region, V region, `block_table: [blocks, sequences]`, `seq_rows: [n]` (column of
    /// the table), `kv_lens: [n]` (positions seen, from 0) → `[n_heads · head_dim, n]`.
    Attn(AttnSpec),
    /// `x: [kv_dim, n]`, `slots: [n]`: writes each column into its slot of the layer's region; no buffer of its own.
    KvcacheStore {
        /// The layer whose region is written.
        layer: usize,
        /// Keys or values.
        part: KvPart,
    },
    /// Source: the node that stored this step's columns. Stands for the layer's region; no buffer of its own.
    KvcacheLoad {
        /// The layer whose region is read.
        layer: usize,
        /// Keys or values.
        part: KvPart,
    },
    /// A contiguous part of `x`, starting `offset` elements in; shape is the node's.
    View {
        /// Elements before the part.
        offset: usize,
    },
    /// The same elements under another shape.
    Reshape,
    /// Dimension `i` of the result is dimension `axes[i]` of the source; elements are moved.
    Permute {
        /// A permutation of `0..4`.
        axes: [usize; 4],
    },
    /// `gate: [d, n]`, `up: [d, n]` → `silu(gate) · up`; made by fusion of `Mul(Silu(gate), up)`.
    SwiGlu,
    /// `x: [in, n]`, weights q, k, v → `[q + kv + kv, n]`: three [`Op::MatMul`] side by side.
    FusedQkv(QkvDims),
    /// [`Op::FusedQkv`] followed by [`Op::QkNorm`] of the query and key heads; weights q, k, v, q norm, k norm.
    FusedQkvNorm {
        /// Row ranges of the projection.
        dims: QkvDims,
        /// Added to the mean of squares.
        eps: f32,
        /// Values per head.
        head_dim: usize,
    },
    /// `qkv: [q + kv + kv, n]`, `positions: [n]`, `slots: [n]`; weights: biases of q, k, v when `bias`, then divisors when
    /// the RoPE has them → the rotated query `[q, n]`. Adds biases, rotates query and key, stores key and value.
    QkvBiasRopeStore {
        /// The layer whose regions are written.
        layer: usize,
        /// Row ranges of the source.
        dims: QkvDims,
        /// Whether the projections have biases.
        bias: bool,
        /// The rotation of query and key.
        rope: RopeSpec,
    },
    /// `x: [in, n]`, weights gate, up → `silu(gate x) · (up x)`.
    FusedFfn,
}

/// An [`Op`] without its payload: what backends are asked about and what reports count.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash, PartialOrd, Ord)]
#[allow(missing_docs, reason = "documented at the variants of `Op`")]
pub enum OpKind {
    Input,
    GetRows,
    Add,
    Mul,
    Scale,
    Silu,
    Softmax,
    Argmax,
    RmsNorm,
    QkNorm,
    MatMul,
    BatchMatMul,
    Rope,
    Attn,
    KvcacheStore,
    KvcacheLoad,
    View,
    Reshape,
    Permute,
    SwiGlu,
    FusedQkv,
    FusedQkvNorm,
    QkvBiasRopeStore,
    FusedFfn,
}

/// Kinds in declaration order with their names in traces and exports.
const KINDS: [(OpKind, &str); 24] = [
    (OpKind::Input, "Input"),
    (OpKind::GetRows, "GetRows"),
    (OpKind::Add, "Add"),
    (OpKind::Mul, "Mul"),
    (OpKind::Scale, "Scale"),
    (OpKind::Silu, "Silu"),
    (OpKind::Softmax, "Softmax"),
    (OpKind::Argmax, "Argmax"),
    (OpKind::RmsNorm, "RmsNorm"),
    (OpKind::QkNorm, "QkNorm"),
    (OpKind::MatMul, "MatMul"),
    (OpKind::BatchMatMul, "BatchMatMul"),
    (OpKind::Rope, "RoPE"),
    (OpKind::Attn, "Attn"),
    (OpKind::KvcacheStore, "KvcacheStore"),
    (OpKind::KvcacheLoad, "KvcacheLoad"),
    (OpKind::View, "View"),
    (OpKind::Reshape, "Reshape"),
    (OpKind::Permute, "Permute"),
    (OpKind::SwiGlu, "SwiGLU"),
    (OpKind::FusedQkv, "FusedQKV"),
    (OpKind::FusedQkvNorm, "FusedQkvNorm"),
    (OpKind::QkvBiasRopeStore, "QkvBiasRopeStore"),
    (OpKind::FusedFfn, "FusedFFN"),
];

impl OpKind {
    /// Every kind.
    pub fn all() -> impl ExactSizeIterator<Item = OpKind> {
        KINDS.iter().map(|k| k.0)
    }

    /// The name in traces and exports: `SwiGLU`.
    pub fn name(self) -> &'static str {
        KINDS[self as usize].1
    }

    /// Whether this is a fused op, which a backend claims through
    /// [`supports_fused`](crate::BackendDriver::supports_fused).
    pub fn is_fused(self) -> bool {
        matches!(
            self,
            OpKind::SwiGlu
                | OpKind::FusedQkv
                | OpKind::FusedQkvNorm
                | OpKind::QkvBiasRopeStore
                | OpKind::FusedFfn
        )
    }
}

impl Op {
    /// The op without its payload.
    pub fn kind(&self) -> OpKind {
        match self {
            Op::Input => OpKind::Input,
            Op::GetRows => OpKind::GetRows,
            Op::Add => OpKind::Add,
            Op::Mul => OpKind::Mul,
            Op::Scale { .. } => OpKind::Scale,
            Op::Silu => OpKind::Silu,
            Op::Softmax => OpKind::Softmax,
            Op::Argmax => OpKind::Argmax,
            Op::RmsNorm { .. } => OpKind::RmsNorm,
            Op::QkNorm { .. } => OpKind::QkNorm,
            Op::MatMul => OpKind::MatMul,
            Op::BatchMatMul => OpKind::BatchMatMul,
            Op::Rope(_) => OpKind::Rope,
            Op::Attn(_) => OpKind::Attn,
            Op::KvcacheStore { .. } => OpKind::KvcacheStore,
            Op::KvcacheLoad { .. } => OpKind::KvcacheLoad,
            Op::View { .. } => OpKind::View,
            Op::Reshape => OpKind::Reshape,
            Op::Permute { .. } => OpKind::Permute,
            Op::SwiGlu => OpKind::SwiGlu,
            Op::FusedQkv(_) => OpKind::FusedQkv,
            Op::FusedQkvNorm { .. } => OpKind::FusedQkvNorm,
            Op::QkvBiasRopeStore { .. } => OpKind::QkvBiasRopeStore,
            Op::FusedFfn => OpKind::FusedFfn,
        }
    }

    /// Whether running the op writes the KV cache, so that it is live even when nothing reads its value.
    pub fn has_side_effect(&self) -> bool {
        matches!(self, Op::KvcacheStore { .. } | Op::QkvBiasRopeStore { .. })
    }

    /// Whether the node stands for a KV region and has no buffer of its own.
    pub fn is_kv_handle(&self) -> bool {
        matches!(self, Op::KvcacheStore { .. } | Op::KvcacheLoad { .. })
    }

    /// Whether the result is the source's own memory seen differently.
    pub fn is_view(&self) -> bool {
        matches!(self, Op::View { .. } | Op::Reshape)
    }

    /// Whether the op may overwrite its first source when nothing else reads it.
    pub fn may_run_in_place(&self) -> bool {
        matches!(self, Op::Silu | Op::Rope(_))
    }

    /// The layer whose KV regions the op touches.
    pub fn kv_layer(&self) -> Option<usize> {
        match self {
            Op::Attn(spec) => Some(spec.layer),
            Op::KvcacheStore { layer, .. }
            | Op::KvcacheLoad { layer, .. }
            | Op::QkvBiasRopeStore { layer, .. } => Some(*layer),
            _ => None,
        }
    }
}

/// A weight that a node names: never its bytes.
#[derive(Clone, Debug, PartialEq, Eq, Hash)]
pub struct WeightRef {
    /// Name in the model file.
    pub name: std::sync::Arc<str>,
    /// How its elements are stored.
    pub dtype: TensorType,
    /// Dimension 0 fastest; unused dimensions are 1.
    pub shape: [usize; 4],
}

impl WeightRef {
    /// Bytes in the model file.
    pub fn file_bytes(&self) -> usize {
        let rows = self.shape[1..].iter().fold(1usize, |n, d| n.saturating_mul(*d));
        self.dtype.row_bytes(self.shape[0]).unwrap_or(usize::MAX).saturating_mul(rows)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn every_kind_has_its_own_row() {
        for (i, (kind, _)) in KINDS.iter().enumerate() {
            assert_eq!(*kind as usize, i);
        }
        let names: std::collections::HashSet<_> = KINDS.iter().map(|k| k.1).collect();
        assert_eq!(names.len(), KINDS.len());
    }
}
