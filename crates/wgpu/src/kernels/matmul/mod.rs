//! Products of weights and activations: a kernel for few columns, one for many, and those that fuse what a decode step
//! multiplies side by side. All of them give the same bits; `operand.wgsl` has the order of additions.

use minfer_gguf::TensorType;

use super::{Constant, Kernel, THREADS, dequant, elementwise};

/// Elements of a row that a thread multiplies between two barriers.
const STRETCH: usize = 128;

/// Most columns that the kernel for few columns gets.
pub(crate) const FEW_COLUMNS: usize = 8;

/// Rows and columns of a tile.
const TILE: (u32, u32) = (64, 16);

const PARAMS: &str = include_str!("params.wgsl");
const OPERAND: &str = include_str!("operand.wgsl");

/// How the threads of a workgroup add up what they have of a row. The bits are the same.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Sums {
    /// Four neighbours at a time, within subgroups.
    Shared,
    /// Each thread alone: without subgroup operations.
    Alone,
}

/// The form of the kernel for few columns: threads share a row, each multiplies its part with all columns.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct Few {
    /// Threads that share a row.
    lanes: u32,
    /// Columns of a workgroup.
    cols: u32,
    /// Whether a row ends within a group.
    tail: bool,
    sums: Sums,
}

/// The kernel for a size. It decides who does what, and no result.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Form {
    /// For few columns.
    Few(Few),
    /// For many: a tile of rows and columns, weights dequantized once for it.
    Tile {
        /// Whether a row ends within a group.
        tail: bool,
    },
}

impl Form {
    /// For rows of `k` elements and `n` columns.
    pub(crate) fn of(k: usize, n: usize, sums: Sums) -> Form {
        match Few::of(k, n, sums) {
            Some(few) => Form::Few(few),
            None => Form::Tile { tail: has_tail(k) },
        }
    }

    /// Rows and columns of a workgroup.
    pub(crate) fn extent(self) -> (u32, u32) {
        match self {
            Form::Few(few) => few.extent(),
            Form::Tile { .. } => TILE,
        }
    }
}

impl Few {
    /// For rows of `k` elements and `n` columns; `None` for too many columns.
    pub(crate) fn of(k: usize, n: usize, sums: Sums) -> Option<Few> {
        let stretches = k.div_ceil(STRETCH).next_power_of_two() as u32;
        let lanes = stretches.clamp(4, 32);
        let cols = lanes.min(n.min(FEW_COLUMNS).next_power_of_two() as u32);
        (n <= FEW_COLUMNS).then_some(Few { lanes, cols, tail: has_tail(k), sums })
    }

    /// Rows and columns of a workgroup.
    pub(crate) fn extent(self) -> (u32, u32) {
        (THREADS / self.lanes, self.cols)
    }
}

fn has_tail(k: usize) -> bool {
    !k.is_multiple_of(dequant::GROUP)
}

fn label(tail: bool) -> &'static str {
    if tail { "-tail" } else { "" }
}

/// `out = w x` for weights of a type.
pub(crate) fn matmul(dtype: TensorType, form: Form) -> Kernel {
    let head = [dequant::ONE];
    let tail = match form {
        Form::Few(form) => return few(dtype, form, "matmul", &head, include_str!("matmul.wgsl")),
        Form::Tile { tail } => tail,
    };
    let name = format!("{}-matmul-tile{}", dequant::label(dtype), label(tail));
    let rest = [OPERAND, include_str!("tile.wgsl")];
    let pieces = [&[PARAMS], &head[..], dequant::pieces(dtype), &rest].concat();
    Kernel::new(name, &[("TAIL", Constant::Bool(tail))], &pieces)
}

/// Two or three matrices of a type whose rows follow one another in the result.
pub(crate) fn stacked(dtype: TensorType, form: Few) -> Kernel {
    few(dtype, form, "stacked", &[], include_str!("stacked.wgsl"))
}

/// `silu(w x) * (w1 x)` for two matrices of a type.
pub(crate) fn gated(dtype: TensorType, form: Few) -> Kernel {
    few(dtype, form, "gated", &[elementwise::OPS], include_str!("gated.wgsl"))
}

fn few(dtype: TensorType, form: Few, op: &str, head: &[&str], body: &str) -> Kernel {
    let Few { lanes, cols, tail, sums } = form;
    let constants = [
        ("LANES", Constant::U32(lanes)),
        ("ROWS", Constant::U32(THREADS / lanes)),
        ("COLS", Constant::U32(cols)),
        ("TAIL", Constant::Bool(tail)),
    ];
    let (quads, inputs, index, how) = match sums {
        Sums::Alone => (
            include_str!("quads_alone.wgsl"),
            "@builtin(local_invocation_index) local: u32",
            "local",
            "-alone",
        ),
        // Threads of a subgroup need not be neighbours by `local_invocation_index`.
        Sums::Shared => (
            include_str!("quads_shared.wgsl"),
            "@builtin(subgroup_id) subgroup: u32, @builtin(subgroup_size) width: u32, \
             @builtin(subgroup_invocation_id) place: u32",
            "subgroup * width + place",
            "",
        ),
    };
    let body = body.replace("THREAD_INPUTS", inputs).replace("THREAD_INDEX", index);
    let rest = [OPERAND, quads, include_str!("few.wgsl"), &body];
    let pieces = [&[PARAMS], head, dequant::pieces(dtype), &rest].concat();
    let name = format!("{}-{op}-l{lanes}-c{cols}{}{how}", dequant::label(dtype), label(tail));
    Kernel::new(name, &constants, &pieces)
}

#[cfg(test)]
pub(super) fn all() -> Vec<Kernel> {
    dequant::types().flat_map(all_of).collect()
}

#[cfg(test)]
fn all_of(dtype: TensorType) -> Vec<Kernel> {
    let tails: &[usize] = if dtype.block_elems() == 1 { &[0, 1] } else { &[0] };
    let mut kernels = Vec::new();
    for k in [32, 1024, 2048, 4096].into_iter().flat_map(|k| tails.iter().map(move |t| k - t)) {
        for n in [1, 2, 4, 8] {
            let forms = [Sums::Alone, Sums::Shared].into_iter().filter_map(|sums| Few::of(k, n, sums));
            // Four lanes have four columns at most.
            for form in forms.filter(|form| form.cols == n as u32) {
                kernels.push(matmul(dtype, Form::Few(form)));
                if form.lanes == 16 {
                    kernels.extend([stacked(dtype, form), gated(dtype, form)]);
                }
            }
        }
    }
    kernels.extend(tails.iter().map(|t| matmul(dtype, Form::Tile { tail: *t > 0 })));
    kernels
}
