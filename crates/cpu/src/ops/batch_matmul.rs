//! The product of two batches of f32 matrices.

use std::ops::Range;

use super::outer::{Ahead, Extent, Rows, RowsMut, outer};
use crate::error::KernelError;
use crate::isa::Isa;
use crate::simd::{Kernel, LANES, Simd, dispatch};

/// Shapes of `a: [k, m, a_batch[0], a_batch[1]]`, `b: [k, n, b_batch[0], b_batch[1]]` and
/// `out: [m, n, b_batch[0], b_batch[1]]`, dimension 0 fastest.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct BatchShape {
    /// The summed dimension.
    pub k: usize,
    /// Rows of a matrix of `a`.
    pub m: usize,
    /// Rows of a matrix of `b`.
    pub n: usize,
    /// Matrices of `a`, each of which serves `b_batch / a_batch` consecutive ones of `b`, per dimension.
    pub a_batch: [usize; 2],
    /// Matrices of `b`.
    pub b_batch: [usize; 2],
}

impl BatchShape {
    /// Rows of the output: runs along `m`.
    pub fn n_rows(&self) -> usize {
        self.n * self.b_batch[0] * self.b_batch[1]
    }

    /// The matrix of `a` that serves a matrix of `b`.
    fn a_of(&self, b: usize) -> usize {
        let (b0, b1) = (b % self.b_batch[0], b / self.b_batch[0]);
        let (a0, a1) = (b0 * self.a_batch[0] / self.b_batch[0], b1 * self.a_batch[1] / self.b_batch[1]);
        a1 * self.a_batch[0] + a0
    }

    fn check(&self) -> Result<(), KernelError> {
        for (a, b) in self.a_batch.into_iter().zip(self.b_batch) {
            if a == 0 || !b.is_multiple_of(a) {
                let rule = "a divisor of the other batch size";
                return Err(KernelError::Parameter { what: "batch size", value: a as f64, rule });
            }
        }
        Ok(())
    }
}

/// The rows `rows` of `out[i, j] = sum over l of a[l, i] * b[l, j]`, per matrix: `fma` in the order of l, one accumulator
/// per output. `out` takes just these rows.
pub fn batch_matmul(
    isa: Isa,
    shape: BatchShape,
    a: &[f32],
    b: &[f32],
    rows: Range<usize>,
    out: &mut [f32],
) -> Result<(), KernelError> {
    shape.check()?;
    KernelError::check_len("a", a.len(), shape.k * shape.m * shape.a_batch[0] * shape.a_batch[1])?;
    KernelError::check_len("b", b.len(), shape.k * shape.n_rows())?;
    if rows.start > rows.end || rows.end > shape.n_rows() {
        let (index, limit) = (rows.end as i64, shape.n_rows() + 1);
        return Err(KernelError::Index { what: "end of rows", index, at: 0, limit });
    }
    KernelError::check_len("out", out.len(), rows.len() * shape.m)?;
    let mut out = out;
    let mut first = rows.start;
    while first < rows.end {
        let matrix = first / shape.n;
        let last = rows.end.min((matrix + 1) * shape.n);
        let (part, rest) = out.split_at_mut((last - first) * shape.m);
        let a = &a[shape.a_of(matrix) * shape.k * shape.m..][..shape.k * shape.m];
        let b = &b[first * shape.k..last * shape.k];
        dispatch(isa, Matmul { k: shape.k, m: shape.m, a, b, n_rows: last - first, out: part });
        (out, first) = (rest, last);
    }
    Ok(())
}

/// One matrix of `a` with some rows of `b`.
struct Matmul<'a> {
    k: usize,
    m: usize,
    a: &'a [f32],
    b: &'a [f32],
    n_rows: usize,
    out: &'a mut [f32],
}

impl Kernel for Matmul<'_> {
    type Out = ();

    /// 16 rows of `a` at a time are the lanes; they are transposed first.
    #[inline(always)]
    fn run<S: Simd>(self, s: S) {
        let Matmul { k, m, a, b, n_rows, out } = self;
        let mut buffer = vec![0.0; k * LANES];
        let mut sums = vec![0.0; n_rows * LANES];
        for first in (0..m).step_by(LANES) {
            let n_lanes = LANES.min(m - first);
            for lane in 0..n_lanes {
                for (l, &x) in a[(first + lane) * k..][..k].iter().enumerate() {
                    buffer[l * LANES + lane] = x;
                }
            }
            sums.fill(0.0);
            let c = RowsMut { data: &mut sums, stride: LANES };
            let extent = Extent { n_rows, n_sum: k, n_vecs: 1 };
            let panel = Rows { data: &buffer, stride: LANES };
            outer(s, Rows { data: b, stride: k }, panel, c, extent, &mut Ahead::nothing());
            for (out, sums) in out.chunks_exact_mut(m).zip(sums.chunks_exact(LANES)) {
                out[first..first + n_lanes].copy_from_slice(&sums[..n_lanes]);
            }
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::testing::{assert_same_bits, hard_f32s, same_bits_on_all};

    fn defined(shape: &BatchShape, a: &[f32], b: &[f32]) -> Vec<f32> {
        let BatchShape { k, m, n, a_batch, b_batch } = *shape;
        let mut out = Vec::new();
        for (b1, b0, j) in (0..b_batch[1])
            .flat_map(|b1| (0..b_batch[0]).flat_map(move |b0| (0..n).map(move |j| (b1, b0, j))))
        {
            let (a1, a0) = (b1 / (b_batch[1] / a_batch[1]), b0 / (b_batch[0] / a_batch[0]));
            for i in 0..m {
                let row_a = ((a1 * a_batch[0] + a0) * m + i) * k;
                let row_b = ((b1 * b_batch[0] + b0) * n + j) * k;
                out.push((0..k).fold(0.0f32, |acc, l| b[row_b + l].mul_add(a[row_a + l], acc)));
            }
        }
        out
    }

    #[test]
    fn batch_matmul_has_the_bits_of_its_definition() {
        let shapes = [
            (1, 1, 1, [1, 1], [1, 1]),
            (5, 16, 8, [1, 1], [1, 1]),
            (33, 17, 9, [2, 1], [4, 3]),
            (8, 40, 19, [1, 2], [1, 2]),
            (0, 3, 2, [1, 1], [1, 1]),
            (3, 0, 2, [1, 1], [1, 1]),
        ];
        for (k, m, n, a_batch, b_batch) in shapes {
            let shape = BatchShape { k, m, n, a_batch, b_batch };
            let a = hard_f32s(k * m * a_batch[0] * a_batch[1], 1);
            let b = hard_f32s(k * shape.n_rows(), 2);
            let all = same_bits_on_all("batch_matmul", |isa| {
                let mut out = vec![7.0; m * shape.n_rows()];
                batch_matmul(isa, shape, &a, &b, 0..shape.n_rows(), &mut out).unwrap();
                out
            });
            assert_same_bits("definition", &all, &defined(&shape, &a, &b));
            let rows = shape.n_rows() / 3..shape.n_rows() - shape.n_rows() / 4;
            let mut part = vec![7.0; m * rows.len()];
            batch_matmul(Isa::detect(), shape, &a, &b, rows.clone(), &mut part).unwrap();
            assert_same_bits("part", &part, &all[rows.start * m..rows.end * m]);
        }
    }

    #[test]
    fn shapes_that_do_not_fit_are_refused() {
        let shape = BatchShape { k: 2, m: 3, n: 4, a_batch: [2, 1], b_batch: [3, 1] };
        let error = batch_matmul(Isa::Scalar, shape, &[0.0; 12], &[0.0; 24], 0..12, &mut [0.0; 36]);
        assert!(matches!(error, Err(KernelError::Parameter { what: "batch size", .. })));
        let shape = BatchShape { a_batch: [1, 1], ..shape };
        let error = batch_matmul(Isa::Scalar, shape, &[0.0; 6], &[0.0; 24], 0..13, &mut [0.0; 39]);
        assert_eq!(error, Err(KernelError::Index { what: "end of rows", index: 13, at: 0, limit: 13 }));
        let error = batch_matmul(Isa::Scalar, shape, &[0.0; 5], &[0.0; 24], 0..12, &mut [0.0; 36]);
        assert_eq!(error, Err(KernelError::Length { what: "a", expected: 6, got: 5 }));
    }
}
