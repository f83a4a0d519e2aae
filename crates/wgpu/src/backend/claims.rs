//! What the kernels can run. A claim without a kernel, or a kernel without a claim, fails the op matrix test.

use minfer_gguf::TensorType;
use minfer_graph::{AttnSpan, KvType, Op, RopeSpec, Support};

use crate::kernels::attention::MAX_HEAD_DIM;
use crate::kernels::dequant;

pub(super) fn op(op: &Op, dtype: TensorType) -> Support {
    match op {
        Op::MatMul | Op::FusedQkv(_) | Op::FusedFfn | Op::FusedQkvNorm { .. } | Op::GetRows => {
            yes_if(dequant::supports(dtype), "no kernel reads this weight type")
        }
        Op::Rope(spec) => rope(spec, vector(dtype)),
        Op::RmsNorm { .. } | Op::QkNorm { .. } | Op::Add => vector(dtype),
        Op::Attn(_) | Op::KvcacheStore { .. } | Op::KvcacheLoad { .. } => cache(dtype),
        Op::QkvBiasRopeStore { rope: spec, .. } => rope(spec, cache(dtype)),
        Op::Input | Op::View { .. } | Op::Reshape => {
            yes_if(matches!(dtype, TensorType::F32 | TensorType::I32), "values are f32 or i32")
        }
        Op::Scale { .. } | Op::Silu | Op::Mul | Op::SwiGlu | Op::Argmax => {
            yes_if(dtype == TensorType::F32, "activations are f32")
        }
        Op::Softmax | Op::BatchMatMul | Op::Permute { .. } => Support::No("there is no kernel"),
    }
}

pub(super) fn span(span: &AttnSpan) -> Support {
    if !span.head_dim.is_multiple_of(2) || span.head_dim > MAX_HEAD_DIM {
        return Support::No("heads have an even number of values, at most 256");
    }
    yes_if(matches!(span.kv_type, KvType::F16 | KvType::F32), "the KV cache is F16 or F32")
}

/// The types of vectors.
pub(super) fn supports_vector(dtype: TensorType) -> bool {
    matches!(dtype, TensorType::F32 | TensorType::F16 | TensorType::BF16)
}

fn vector(dtype: TensorType) -> Support {
    yes_if(supports_vector(dtype), "vectors are F32, F16 or BF16")
}

fn cache(dtype: TensorType) -> Support {
    yes_if(matches!(dtype, TensorType::F16 | TensorType::F32), "the KV cache is F16 or F32")
}

fn rope(spec: &RopeSpec, otherwise: Support) -> Support {
    if spec.head_dim.is_multiple_of(2) {
        otherwise
    } else {
        Support::No("heads have an odd number of values")
    }
}

/// What these kernels leave to other engines, and why.
pub fn refusals() -> Vec<(String, &'static str)> {
    let weights = TensorType::all().filter_map(|t| match op(&Op::MatMul, t) {
        Support::No(reason) => Some((format!("{t} weights"), reason)),
        Support::Yes => None,
    });
    let mut all: Vec<_> = weights.collect();
    let others = [Op::Softmax, Op::BatchMatMul, Op::Permute { axes: [0, 1, 2, 3] }];
    for other in others {
        if let Support::No(reason) = op(&other, TensorType::F32) {
            all.push((other.kind().name().into(), reason));
        }
    }
    if let Support::No(reason) = cache(TensorType::Q8_0) {
        all.push(("attention over a Q8_0 cache".into(), reason));
    }
    all
}

fn yes_if(yes: bool, reason: &'static str) -> Support {
    if yes { Support::Yes } else { Support::No(reason) }
}
