//! Columns by index, and norms of columns.

use minfer_gguf::TensorType;

use super::{Kernel, dequant};

pub(super) const STATUS: &str = include_str!("../common/status.wgsl");

/// Rows of a table of weights.
pub(crate) fn embed(dtype: TensorType) -> Kernel {
    let name = format!("{}-embed", dequant::label(dtype));
    let pieces = [dequant::pieces(dtype), &[dequant::ONE, STATUS, include_str!("embed.wgsl")]].concat();
    Kernel::new(name, &[], &pieces)
}

/// Columns of a value.
pub(crate) fn pick() -> Kernel {
    Kernel::new("f32-pick".into(), &[], &[STATUS, include_str!("pick.wgsl")])
}

/// The best element of columns.
pub(crate) fn argmax() -> Kernel {
    Kernel::new("f32-argmax".into(), &[], &[include_str!("argmax.wgsl")])
}

/// Root-mean-square norm of columns, or of heads.
pub(crate) fn rms_norm() -> Kernel {
    Kernel::new("f32-rms_norm".into(), &[], &[include_str!("rms_norm.wgsl")])
}

#[cfg(test)]
pub(super) fn all() -> Vec<Kernel> {
    dequant::types().map(embed).chain([pick(), argmax(), rms_norm()]).collect()
}
