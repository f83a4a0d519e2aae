//! Products of weights and activations.

use minfer_gguf::TensorType;

use super::{Constant, Kernel, THREADS, dequant};

/// Elements of a row that one thread multiplies at once; see the order of additions in `matmul.wgsl`.
const STRETCH: usize = 128;

/// The form of the kernel for a size. It decides who does what, and no result.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct Form {
    /// Stretches of a row that are worked on at once.
    lanes: u32,
    /// Columns of a workgroup.
    pub(crate) cols: u32,
    /// Whether a row ends within a group.
    tail: bool,
}

impl Form {
    /// For rows of `k` elements and `n` columns.
    pub(crate) fn of(k: usize, n: usize) -> Form {
        let stretches = k.div_ceil(STRETCH).next_power_of_two() as u32;
        let lanes = stretches.clamp(4, 32);
        let cols = if n == 1 { 1 } else { lanes.min(8) };
        Form { lanes, cols, tail: !k.is_multiple_of(dequant::GROUP) }
    }

    /// Rows of a workgroup.
    pub(crate) fn rows(self) -> u32 {
        THREADS / self.lanes
    }
}

/// `out = w x` for weights of a type.
pub(crate) fn matmul(dtype: TensorType, form: Form) -> Kernel {
    let tail = if form.tail { "-tail" } else { "" };
    let name = format!("{}-matmul-l{}-c{}{tail}", dequant::label(dtype), form.lanes, form.cols);
    let constants = [
        ("LANES", Constant::U32(form.lanes)),
        ("ROWS", Constant::U32(form.rows())),
        ("COLS", Constant::U32(form.cols)),
        ("TAIL", Constant::Bool(form.tail)),
    ];
    let pieces = [dequant::pieces(dtype), &[include_str!("matmul.wgsl")]].concat();
    Kernel::new(name, &constants, &pieces)
}

#[cfg(test)]
pub(super) fn all() -> Vec<Kernel> {
    let forms = |dtype: TensorType| {
        let tails: &[usize] = if dtype.block_elems() == 1 { &[0, 1] } else { &[0] };
        let sizes = [32, 1024, 2048, 4096].into_iter().flat_map(|k| tails.iter().map(move |t| k - t));
        sizes.flat_map(move |k| [1, 2].map(|n| matmul(dtype, Form::of(k, n))))
    };
    dequant::types().flat_map(forms).collect()
}
