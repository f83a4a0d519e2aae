//! The product with a weight matrix, and what products share: one quantization of their activations, one fork-join.

#![expect(unsafe_code, reason = "the matrices of a fork-join write interleaved parts of one output")]

use std::cell::RefCell;
use std::sync::{Arc, OnceLock};

use minfer_graph::KernelFault;

use super::{Cx, Step, product_refused, refused};
use crate::backend::memory::Span;
use crate::isa::Isa;
use crate::matmul::{
    Activations, OutPtr, PANEL_ROWS, PackedMatrix, QuantizedActivations, Scratch, matmul_panels,
};
use crate::ops;
use crate::pool::{Cost, Pool, SharedOut, piece_range};

/// Work for one byte of weights and one token; decides only into how many pieces a product is cut.
const BYTE_PS: u64 = 60;
const QUANTIZE_PS: u64 = 400;

thread_local! {
    static SCRATCH: RefCell<Scratch> = RefCell::default();
}

/// The activations of a product.
pub(in crate::backend) struct Input {
    pub(in crate::backend) x: Span<f32>,
    pub(in crate::backend) n_tokens: usize,
    pub(in crate::backend) k: usize,
    /// Whether a step before this one quantized the same value, and none has quantized another since.
    pub(in crate::backend) is_quantized: bool,
}

impl Input {
    /// Quantizes the activations if some matrix wants them so and it has not been done, and prepares them for all that do.
    pub(super) fn ready<const N: usize>(
        &self,
        cx: &mut Cx<'_>,
        matrices: [&PackedMatrix; N],
    ) -> Result<(), KernelFault> {
        const { assert!(N <= QuantizedActivations::MAX_TYPES) };
        let wanted = matrices.iter().any(|m| Activations::quantized_for(m.dtype()));
        if !wanted {
            return Ok(());
        }
        if !(self.is_quantized && cx.working.is_current) {
            self.quantize(cx)?;
        }
        cx.working.activations.prepare(&matrices.map(|m| m.dtype()));
        Ok(())
    }

    fn quantize(&self, cx: &mut Cx<'_>) -> Result<(), KernelFault> {
        let x = self.x.get(cx.access);
        let writer =
            cx.working.activations.begin(x, self.n_tokens, self.k, cx.isa).map_err(product_refused)?;
        let n_tiles = writer.n_tiles();
        let n_pieces = Cost::of(x.len(), QUANTIZE_PS).n_pieces(n_tiles, cx.pool.n_threads());
        cx.pool.run(n_pieces, &|i| writer.write_tiles(piece_range(n_tiles, n_pieces, i)));
        cx.working.is_current = true;
        Ok(())
    }

    /// The form in which `matrix` reads the activations.
    fn form<'a>(
        &'a self,
        x: &'a [f32],
        quantized: &'a QuantizedActivations,
        matrix: &PackedMatrix,
    ) -> Activations<'a> {
        match Activations::quantized_for(matrix.dtype()) {
            true => Activations::Quantized(quantized),
            false => Activations::F32 { x, n_tokens: self.n_tokens, k: self.k },
        }
    }
}

/// Multiplies several matrices with the same activations in one fork-join. A column of `out` holds their outputs one after
/// the other: of `n_tokens` columns, `out[column][rows before the matrix + row]`.
pub(super) fn products<const N: usize>(
    pool: &Pool,
    isa: Isa,
    (input, x, quantized): (&Input, &[f32], &QuantizedActivations),
    matrices: [&PackedMatrix; N],
    out: &mut [f32],
) -> Result<(), KernelFault> {
    let n_tokens = input.n_tokens;
    let stride: usize = matrices.iter().map(|w| w.rows()).sum();
    if n_tokens.checked_mul(stride) != Some(out.len()) {
        return Err(KernelFault::Bug("a product does not fit its output".into()));
    }
    let base = out.as_mut_ptr();
    let mut offset = 0;
    let jobs = matrices.map(|w| {
        // SAFETY: a column holds `stride` values (the length was checked), and the rows of this matrix are those from
        // `offset` on, which no other matrix has; pieces below are disjoint panels.
        let to = unsafe { OutPtr::new(base.wrapping_add(offset), stride, n_tokens, w.rows()) };
        offset += w.rows();
        (w, input.form(x, quantized, w), to)
    });
    let n_panels: usize = matrices.iter().map(|w| w.n_panels()).sum();
    let bytes: usize = matrices.iter().map(|w| w.bytes()).sum();
    let n_pieces = Cost::of(bytes.saturating_mul(n_tokens), BYTE_PS).n_pieces(n_panels, pool.n_threads());
    let failed = OnceLock::new();
    pool.run(n_pieces, &|i| {
        let range = piece_range(n_panels, n_pieces, i);
        SCRATCH.with_borrow_mut(|scratch| {
            let mut first = 0;
            for (w, x, to) in &jobs {
                let start = range.start.clamp(first, first + w.n_panels()) - first;
                let end = range.end.clamp(first, first + w.n_panels()) - first;
                first += w.n_panels();
                if let (true, Err(e)) = (start < end, matmul_panels(w, x, *to, start..end, isa, scratch)) {
                    // The first error says it all.
                    let _ = failed.set(e);
                }
            }
        });
    });
    failed.into_inner().map_or(Ok(()), |e| Err(product_refused(e)))
}

/// `out = silu(gate · x) · (up · x)`: a piece computes some rows of both products in `both` and joins them while they are
/// in its cache. A column of `both` holds those of gate, then those of up.
pub(super) fn gated_product(
    pool: &Pool,
    isa: Isa,
    (input, x, quantized): (&Input, &[f32], &QuantizedActivations),
    [gate, up]: [&PackedMatrix; 2],
    both: &mut [f32],
    out: &mut [f32],
) -> Result<(), KernelFault> {
    let (n_tokens, n_rows) = (input.n_tokens, gate.rows());
    let fits = up.rows() == n_rows && n_tokens.checked_mul(n_rows) == Some(out.len());
    if !fits || both.len() != 2 * out.len() {
        return Err(KernelFault::Bug("a gated product does not fit its output".into()));
    }
    let base = both.as_mut_ptr();
    let jobs = [(gate, 0), (up, n_rows)].map(|(w, offset)| {
        // SAFETY: a column holds `2 * n_rows` values (the lengths were checked), of which each matrix has its half; pieces
        // below are disjoint panels.
        let to = unsafe { OutPtr::new(base.wrapping_add(offset), 2 * n_rows, n_tokens, n_rows) };
        (w, input.form(x, quantized, w), to)
    });
    let n_panels = gate.n_panels();
    let bytes = gate.bytes() + up.bytes();
    let n_pieces = Cost::of(bytes.saturating_mul(n_tokens), BYTE_PS).n_pieces(n_panels, pool.n_threads());
    let (out, failed) = (SharedOut::new(out), OnceLock::new());
    let piece = |i| -> Result<(), KernelFault> {
        let panels = piece_range(n_panels, n_pieces, i);
        SCRATCH
            .with_borrow_mut(|scratch| {
                jobs.iter().try_for_each(|(w, x, to)| matmul_panels(w, x, *to, panels.clone(), isa, scratch))
            })
            .map_err(product_refused)?;
        let rows = panels.start * PANEL_ROWS..n_rows.min(panels.end * PANEL_ROWS);
        for token in 0..n_tokens {
            // SAFETY: rows of this piece's panels, which nobody else has; of `both` they were just written.
            unsafe {
                let [gate, up] = [0, 1].map(|half| &*jobs[half].2.part(token, rows.clone()));
                let out = out.part(token * n_rows + rows.start..token * n_rows + rows.end);
                ops::swiglu(isa, gate, up, out).map_err(refused)?;
            }
        }
        Ok(())
    };
    pool.run(n_pieces, &|i| {
        if let Err(fault) = piece(i) {
            // The first error says it all.
            let _ = failed.set(fault);
        }
    });
    failed.into_inner().map_or(Ok(()), Err)
}

/// `out = w · x`.
pub(in crate::backend) struct MatMul {
    pub(in crate::backend) w: Arc<PackedMatrix>,
    pub(in crate::backend) input: Input,
    pub(in crate::backend) out: Span<f32>,
}

impl Step for MatMul {
    fn run(&self, cx: &mut Cx<'_>) -> Result<(), KernelFault> {
        self.input.ready(cx, [&*self.w])?;
        let x = self.input.x.get(cx.access);
        let out = self.out.get_mut(cx.access);
        let operand = (&self.input, x, &cx.working.activations);
        products(cx.pool, cx.isa, operand, [&*self.w], out)
    }
}
