//! What the CPU says it can run. A claim without a kernel, or a kernel without a claim, fails the op matrix test.

use minfer_gguf::TensorType;
use minfer_graph::{Op, Support};

use super::weights::supports_vector;
use crate::matmul::PackedMatrix;

pub(super) fn op(op: &Op, dtype: TensorType) -> Support {
    match op {
        Op::MatMul | Op::FusedQkv(_) | Op::FusedFfn => matrix(dtype),
        // Asked about with the types of the norms, too, which are types of matrices as well.
        Op::FusedQkvNorm { .. } => matrix(dtype),
        Op::GetRows => matrix(dtype),
        Op::RmsNorm { .. } | Op::QkNorm { .. } | Op::Add | Op::Rope(_) => vector(dtype),
        Op::Attn(_) | Op::KvcacheStore { .. } | Op::KvcacheLoad { .. } | Op::QkvBiasRopeStore { .. } => {
            cache(dtype)
        }
        Op::Input | Op::View { .. } | Op::Reshape => value(dtype),
        Op::Scale { .. }
        | Op::Silu
        | Op::Softmax
        | Op::Argmax
        | Op::BatchMatMul
        | Op::Permute { .. }
        | Op::Mul
        | Op::SwiGlu => yes_if(dtype == TensorType::F32, "activations are f32"),
    }
}

fn matrix(dtype: TensorType) -> Support {
    yes_if(PackedMatrix::supports(dtype), "no matrix product for this weight type")
}

fn vector(dtype: TensorType) -> Support {
    yes_if(supports_vector(dtype), "vectors are F32, F16 or BF16")
}

fn cache(dtype: TensorType) -> Support {
    let claimed = matches!(dtype, TensorType::F16 | TensorType::F32 | TensorType::Q8_0);
    yes_if(claimed, "the KV cache is F16, F32 or Q8_0")
}

fn value(dtype: TensorType) -> Support {
    yes_if(matches!(dtype, TensorType::F32 | TensorType::I32), "values are f32 or i32")
}

fn yes_if(yes: bool, reason: &'static str) -> Support {
    if yes { Support::Yes } else { Support::No(reason) }
}
