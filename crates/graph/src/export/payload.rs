//! The payload of an op as names and values.

use crate::op::{KvPart, Op, QkvDims, RopeScaling, RopeSpec, RopeStyle};

/// What the op carries, in a fixed order.
pub(super) fn payload(op: &Op) -> Vec<(&'static str, String)> {
    match op {
        Op::RmsNorm { eps } => vec![("eps", float(*eps))],
        Op::QkNorm { eps, head_dim } => vec![("eps", float(*eps)), ("head_dim", head_dim.to_string())],
        Op::Scale { factor } => vec![("factor", float(*factor))],
        Op::Rope(spec) => rope(spec),
        Op::Attn(spec) => vec![
            ("layer", spec.layer.to_string()),
            ("n_heads", spec.n_heads.to_string()),
            ("n_kv_heads", spec.n_kv_heads.to_string()),
            ("head_dim", spec.head_dim.to_string()),
            ("scale", float(spec.scale)),
        ],
        Op::KvcacheStore { layer, part } | Op::KvcacheLoad { layer, part } => {
            vec![("layer", layer.to_string()), ("part", part_name(*part).into())]
        }
        Op::View { offset } => vec![("offset", offset.to_string())],
        Op::Permute { axes } => vec![("axes", axes.map(|a| a.to_string()).join(","))],
        Op::FusedQkv(dims) => qkv(dims),
        Op::FusedQkvNorm { dims, eps, head_dim } => {
            [qkv(dims), vec![("eps", float(*eps)), ("head_dim", head_dim.to_string())]].concat()
        }
        Op::QkvBiasRopeStore { layer, dims, bias, rope: spec } => {
            [vec![("layer", layer.to_string())], qkv(dims), vec![("bias", bias.to_string())], rope(spec)]
                .concat()
        }
        Op::Input
        | Op::GetRows
        | Op::Add
        | Op::Mul
        | Op::Silu
        | Op::Softmax
        | Op::Argmax
        | Op::MatMul
        | Op::BatchMatMul
        | Op::Reshape
        | Op::SwiGlu
        | Op::FusedFfn => Vec::new(),
    }
}

/// `RmsNorm{eps=1e-6}`.
pub(super) fn op_text(op: &Op) -> String {
    let payload: Vec<_> = payload(op).into_iter().map(|(name, value)| format!("{name}={value}")).collect();
    match payload.is_empty() {
        true => op.kind().name().into(),
        false => format!("{}{{{}}}", op.kind().name(), payload.join(" ")),
    }
}

/// The shortest decimal that gives the same `f32`.
fn float(x: f32) -> String {
    format!("{x:?}")
}

fn qkv(dims: &QkvDims) -> Vec<(&'static str, String)> {
    vec![("q", dims.q.to_string()), ("kv", dims.kv.to_string())]
}

fn part_name(part: KvPart) -> &'static str {
    match part {
        KvPart::K => "k",
        KvPart::V => "v",
    }
}

fn rope(spec: &RopeSpec) -> Vec<(&'static str, String)> {
    let style = match spec.style {
        RopeStyle::Interleaved => "interleaved",
        RopeStyle::Neox => "neox",
    };
    let mut all = vec![
        ("style", style.into()),
        ("head_dim", spec.head_dim.to_string()),
        ("n_rot", spec.n_rot.to_string()),
        ("freq_base", float(spec.freq_base)),
        ("freq_factors", spec.freq_factors.to_string()),
    ];
    all.extend(scaling(&spec.scaling));
    all
}

fn scaling(scaling: &RopeScaling) -> Vec<(&'static str, String)> {
    match scaling {
        RopeScaling::None => vec![("scaling", "none".into())],
        RopeScaling::Linear { factor } => vec![("scaling", "linear".into()), ("factor", float(*factor))],
        RopeScaling::Yarn { factor, original_ctx, attn_factor, beta_fast, beta_slow } => vec![
            ("scaling", "yarn".into()),
            ("factor", float(*factor)),
            ("original_ctx", original_ctx.to_string()),
            ("attn_factor", float(*attn_factor)),
            ("beta_fast", float(*beta_fast)),
            ("beta_slow", float(*beta_slow)),
        ],
    }
}
