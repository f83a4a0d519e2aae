//! Arity, element types and shapes of every op: one function that the builder and the verifier share.

use crate::graph::{DType, Shape};
use crate::op::{KvPart, Op, QkvDims, RopeSpec, WeightRef};

/// What is known of an operand.
#[derive(Clone, Copy, Debug)]
pub struct Operand {
    /// Extents.
    pub shape: Shape,
    /// Element type.
    pub dtype: DType,
}

/// An op was given operands that it cannot take.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
pub enum ShapeError {
    /// Wrong number of sources.
    #[error("takes {expected} sources, has {found}")]
    Sources {
        /// What the op's definition says.
        expected: &'static str,
        /// How many there are.
        found: usize,
    },
    /// Wrong number of weights.
    #[error("takes {expected} weights, has {found}")]
    Weights {
        /// What the op's definition says.
        expected: usize,
        /// How many there are.
        found: usize,
    },
    /// A source of the wrong element type.
    #[error("source {index} should be {}, is {}", expected.name(), found.name())]
    DType {
        /// Which source.
        index: usize,
        /// What the op's definition says.
        expected: DType,
        /// What it is.
        found: DType,
    },
    /// A source or weight of the wrong shape.
    #[error("{what} should be {expected:?}, is {found:?}")]
    Shape {
        /// Which operand.
        what: String,
        /// What the op's definition says.
        expected: Shape,
        /// What it is.
        found: Shape,
    },
    /// A payload that makes no sense for the operands.
    #[error("{0}")]
    Payload(&'static str),
}

/// Shape and element type of the value that `op` makes. For [`Op::Input`], [`Op::View`] and [`Op::Reshape`] the shape is
/// the caller's choice, `wanted`, and is checked against the source.
pub fn infer(
    op: &Op,
    src: &[Operand],
    weights: &[WeightRef],
    wanted: Operand,
) -> Result<Operand, ShapeError> {
    let check = Check { src, weights };
    let f32_of = |shape| Operand { shape, dtype: DType::F32 };
    match op {
        Op::Input => check.arity("0", src.is_empty(), 0).map(|()| wanted),
        Op::GetRows => check.get_rows().map(f32_of),
        Op::Add => check.add().map(f32_of),
        Op::Scale { .. } | Op::Silu | Op::Softmax => check.unary().map(f32_of),
        Op::Argmax => check.argmax().map(f32_of),
        Op::RmsNorm { .. } => check.norm(None).map(f32_of),
        Op::QkNorm { head_dim, .. } => check.norm(Some(*head_dim)).map(f32_of),
        Op::MatMul => check.matmul().map(f32_of),
        Op::BatchMatMul => check.batch_matmul().map(f32_of),
        Op::Rope(spec) => check.rope(spec).map(f32_of),
        Op::Attn(spec) => check.attn(spec.n_heads, spec.n_kv_heads, spec.head_dim).map(f32_of),
        Op::KvcacheStore { .. } => check.store().map(|shape| Operand { shape, dtype: wanted.dtype }),
        Op::KvcacheLoad { part, .. } => check.load(*part, wanted),
        Op::View { offset } => check.view(*offset, wanted),
        Op::Reshape => check.reshape(wanted),
        Op::Permute { axes } => check.permute(*axes).map(f32_of),
        Op::Mul | Op::SwiGlu => check.pair().map(f32_of),
        Op::FusedQkv(dims) => check.fused_qkv(dims, None).map(f32_of),
        Op::FusedQkvNorm { dims, head_dim, .. } => check.fused_qkv(dims, Some(*head_dim)).map(f32_of),
        Op::QkvBiasRopeStore { dims, bias, rope, .. } => {
            check.qkv_bias_rope_store(dims, *bias, rope).map(f32_of)
        }
        Op::FusedFfn => check.fused_ffn().map(f32_of),
    }
}

struct Check<'a> {
    src: &'a [Operand],
    weights: &'a [WeightRef],
}

impl Check<'_> {
    fn arity(&self, sources: &'static str, ok: bool, weights: usize) -> Result<(), ShapeError> {
        if !ok {
            return Err(ShapeError::Sources { expected: sources, found: self.src.len() });
        }
        self.n_weights(weights)
    }

    fn n_weights(&self, expected: usize) -> Result<(), ShapeError> {
        let found = self.weights.len();
        if found == expected { Ok(()) } else { Err(ShapeError::Weights { expected, found }) }
    }

    fn dtype(&self, index: usize, expected: DType) -> Result<Shape, ShapeError> {
        let found = self.src[index].dtype;
        if found == expected {
            Ok(self.src[index].shape)
        } else {
            Err(ShapeError::DType { index, expected, found })
        }
    }

    fn source_shape(&self, index: usize, dtype: DType, expected: Shape) -> Result<(), ShapeError> {
        same(format_args!("source {index}"), expected, self.dtype(index, dtype)?)
    }

    fn weight_shape(&self, index: usize, expected: Shape) -> Result<(), ShapeError> {
        let w = &self.weights[index];
        same(format_args!("weight '{}'", w.name), expected, w.shape)
    }

    fn get_rows(&self) -> Result<Shape, ShapeError> {
        if self.src.len() == 1 {
            self.n_weights(1)?;
            let n = self.dtype(0, DType::I32)?[0];
            return Ok([self.weights[0].shape[0], n, 1, 1]);
        }
        self.arity("1 or 2", self.src.len() == 2, 0)?;
        let d = self.dtype(0, DType::F32)?[0];
        Ok([d, self.dtype(1, DType::I32)?[0], 1, 1])
    }

    fn add(&self) -> Result<Shape, ShapeError> {
        let shape = if self.src.is_empty() { [0; 4] } else { self.dtype(0, DType::F32)? };
        if self.src.len() == 1 {
            self.n_weights(1)?;
            self.weight_shape(0, [shape[0], 1, 1, 1])?;
            return Ok(shape);
        }
        self.arity("1 or 2", self.src.len() == 2, 0)?;
        self.pair()
    }

    fn unary(&self) -> Result<Shape, ShapeError> {
        self.arity("1", self.src.len() == 1, 0)?;
        self.dtype(0, DType::F32)
    }

    fn argmax(&self) -> Result<Shape, ShapeError> {
        let [d, n, outer, outermost] = self.unary()?;
        match (1..=1 << 24).contains(&d) {
            true => Ok([2, n, outer, outermost]),
            false => Err(ShapeError::Payload("a place is a number without rounding up to 2^24")),
        }
    }

    fn norm(&self, head_dim: Option<usize>) -> Result<Shape, ShapeError> {
        self.arity("1", self.src.len() == 1, 1)?;
        let shape = self.dtype(0, DType::F32)?;
        let d = head_dim.unwrap_or(shape[0]);
        divides(d, shape[0], "the head size must divide the row")?;
        self.weight_shape(0, [d, 1, 1, 1])?;
        Ok(shape)
    }

    fn matmul(&self) -> Result<Shape, ShapeError> {
        self.arity("1", self.src.len() == 1, 1)?;
        let shape = self.dtype(0, DType::F32)?;
        let out = self.weights[0].shape[1];
        self.weight_shape(0, [shape[0], out, 1, 1])?;
        Ok([out, shape[1], shape[2], shape[3]])
    }

    fn batch_matmul(&self) -> Result<Shape, ShapeError> {
        self.arity("2", self.src.len() == 2, 0)?;
        let (a, b) = (self.dtype(0, DType::F32)?, self.dtype(1, DType::F32)?);
        self.source_shape(1, DType::F32, [a[0], b[1], a[2], a[3]])?;
        Ok([a[1], b[1], a[2], a[3]])
    }

    fn rope_spec(&self, spec: &RopeSpec, rows: usize) -> Result<(), ShapeError> {
        divides(spec.head_dim, rows, "the head size must divide the row")?;
        if spec.n_rot == 0 || !spec.n_rot.is_multiple_of(2) || spec.n_rot > spec.head_dim {
            return Err(ShapeError::Payload("n_rot must be even, positive and at most the head size"));
        }
        Ok(())
    }

    fn rope(&self, spec: &RopeSpec) -> Result<Shape, ShapeError> {
        self.arity("2", self.src.len() == 2, spec.freq_factors as usize)?;
        let shape = self.dtype(0, DType::F32)?;
        self.rope_spec(spec, shape[0])?;
        self.source_shape(1, DType::I32, [shape[1], 1, 1, 1])?;
        if spec.freq_factors {
            self.weight_shape(0, [spec.n_rot / 2, 1, 1, 1])?;
        }
        Ok(shape)
    }

    fn attn(&self, n_heads: usize, n_kv_heads: usize, head_dim: usize) -> Result<Shape, ShapeError> {
        self.arity("6", self.src.len() == 6, 0)?;
        divides(n_kv_heads, n_heads, "the KV heads must divide the query heads")?;
        let n = self.src[0].shape[1];
        let shape = [n_heads * head_dim, n, 1, 1];
        self.source_shape(0, DType::F32, shape)?;
        self.dtype(3, DType::I32)?;
        self.source_shape(4, DType::I32, [n, 1, 1, 1])?;
        self.source_shape(5, DType::I32, [n, 1, 1, 1])?;
        Ok(shape)
    }

    fn store(&self) -> Result<Shape, ShapeError> {
        self.arity("2", self.src.len() == 2, 0)?;
        let shape = self.dtype(0, DType::F32)?;
        self.source_shape(1, DType::I32, [shape[1], 1, 1, 1])?;
        Ok(shape)
    }

    fn load(&self, _part: KvPart, wanted: Operand) -> Result<Operand, ShapeError> {
        self.arity("1", self.src.len() == 1, 0).map(|()| wanted)
    }

    fn view(&self, offset: usize, wanted: Operand) -> Result<Operand, ShapeError> {
        self.arity("1", self.src.len() == 1, 0)?;
        let whole: usize = self.dtype(0, wanted.dtype)?.iter().product();
        let part: usize = wanted.shape.iter().product();
        if offset.checked_add(part).is_none_or(|end| end > whole) {
            return Err(ShapeError::Payload("the view ends outside its source"));
        }
        Ok(wanted)
    }

    fn reshape(&self, wanted: Operand) -> Result<Operand, ShapeError> {
        self.arity("1", self.src.len() == 1, 0)?;
        let found = self.dtype(0, wanted.dtype)?;
        if found.iter().product::<usize>() != wanted.shape.iter().product::<usize>() {
            return Err(ShapeError::Shape { what: "source 0".into(), expected: wanted.shape, found });
        }
        Ok(wanted)
    }

    fn permute(&self, axes: [usize; 4]) -> Result<Shape, ShapeError> {
        self.arity("1", self.src.len() == 1, 0)?;
        let shape = self.dtype(0, DType::F32)?;
        let mut sorted = axes;
        sorted.sort_unstable();
        if sorted != [0, 1, 2, 3] {
            return Err(ShapeError::Payload("axes must be a permutation of 0, 1, 2, 3"));
        }
        Ok(axes.map(|a| shape[a]))
    }

    fn pair(&self) -> Result<Shape, ShapeError> {
        self.arity("2", self.src.len() == 2, 0)?;
        let shape = self.dtype(0, DType::F32)?;
        self.source_shape(1, DType::F32, shape)?;
        Ok(shape)
    }

    fn fused_qkv(&self, dims: &QkvDims, norm: Option<usize>) -> Result<Shape, ShapeError> {
        self.arity("1", self.src.len() == 1, if norm.is_some() { 5 } else { 3 })?;
        let shape = self.dtype(0, DType::F32)?;
        for (i, rows) in [dims.q, dims.kv, dims.kv].into_iter().enumerate() {
            self.weight_shape(i, [shape[0], rows, 1, 1])?;
        }
        if let Some(head_dim) = norm {
            divides(head_dim, dims.q, "the head size must divide the row")?;
            divides(head_dim, dims.kv, "the head size must divide the row")?;
            self.weight_shape(3, [head_dim, 1, 1, 1])?;
            self.weight_shape(4, [head_dim, 1, 1, 1])?;
        }
        Ok([dims.total(), shape[1], 1, 1])
    }

    fn qkv_bias_rope_store(&self, dims: &QkvDims, bias: bool, rope: &RopeSpec) -> Result<Shape, ShapeError> {
        let n_weights = 3 * bias as usize + rope.freq_factors as usize;
        self.arity("3", self.src.len() == 3, n_weights)?;
        let n = self.src[0].shape[1];
        self.source_shape(0, DType::F32, [dims.total(), n, 1, 1])?;
        self.source_shape(1, DType::I32, [n, 1, 1, 1])?;
        self.source_shape(2, DType::I32, [n, 1, 1, 1])?;
        self.rope_spec(rope, dims.q)?;
        self.rope_spec(rope, dims.kv)?;
        if bias {
            for (i, rows) in [dims.q, dims.kv, dims.kv].into_iter().enumerate() {
                self.weight_shape(i, [rows, 1, 1, 1])?;
            }
        }
        if rope.freq_factors {
            self.weight_shape(n_weights - 1, [rope.n_rot / 2, 1, 1, 1])?;
        }
        Ok([dims.q, n, 1, 1])
    }

    fn fused_ffn(&self) -> Result<Shape, ShapeError> {
        self.arity("1", self.src.len() == 1, 2)?;
        let shape = self.dtype(0, DType::F32)?;
        let n_ff = self.weights[0].shape[1];
        self.weight_shape(0, [shape[0], n_ff, 1, 1])?;
        self.weight_shape(1, [shape[0], n_ff, 1, 1])?;
        Ok([n_ff, shape[1], 1, 1])
    }
}

fn same(what: std::fmt::Arguments<'_>, expected: Shape, found: Shape) -> Result<(), ShapeError> {
    if expected == found {
        return Ok(());
    }
    Err(ShapeError::Shape { what: what.to_string(), expected, found })
}

fn divides(part: usize, whole: usize, complaint: &'static str) -> Result<(), ShapeError> {
    if part != 0 && whole.is_multiple_of(part) { Ok(()) } else { Err(ShapeError::Payload(complaint)) }
}
