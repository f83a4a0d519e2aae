//! Copies with the dimensions in another order.

use std::ops::Range;

use crate::error::KernelError;

/// The rows `rows` (runs along dimension 0) of `x` with its dimensions reordered: dimension `i` of `x` becomes dimension
/// `axes[i]` of the result. `x` has shape `shape`, dimension 0 fastest; `out` takes just these rows.
pub fn permute(
    x: &[f32],
    shape: [usize; 4],
    axes: [usize; 4],
    rows: Range<usize>,
    out: &mut [f32],
) -> Result<(), KernelError> {
    KernelError::check_len("x", x.len(), shape.iter().product())?;
    let source = inverse(axes)?;
    let strides = [1, shape[0], shape[0] * shape[1], shape[0] * shape[1] * shape[2]];
    let (out_shape, out_strides) = (source.map(|i| shape[i]), source.map(|i| strides[i]));
    let n_rows = out_shape[1] * out_shape[2] * out_shape[3];
    if rows.start > rows.end || rows.end > n_rows {
        return Err(KernelError::Index {
            what: "end of rows",
            index: rows.end as i64,
            at: 0,
            limit: n_rows + 1,
        });
    }
    KernelError::check_len("out", out.len(), rows.len() * out_shape[0])?;
    for (row, out) in rows.zip(out.chunks_exact_mut(out_shape[0].max(1))) {
        let (i1, i2) = (row % out_shape[1], row / out_shape[1] % out_shape[2]);
        let i3 = row / (out_shape[1] * out_shape[2]);
        let start = i1 * out_strides[1] + i2 * out_strides[2] + i3 * out_strides[3];
        for (i0, out) in out.iter_mut().enumerate() {
            *out = x[start + i0 * out_strides[0]];
        }
    }
    Ok(())
}

/// Which dimension of the source each dimension of the result is.
fn inverse(axes: [usize; 4]) -> Result<[usize; 4], KernelError> {
    let mut source = [usize::MAX; 4];
    for (i, &axis) in axes.iter().enumerate() {
        let rule = "one of a permutation of 0, 1, 2, 3";
        let error = KernelError::Parameter { what: "axis", value: axis as f64, rule };
        *source.get_mut(axis).filter(|from| **from == usize::MAX).ok_or(error)? = i;
    }
    Ok(source)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn every_permutation_puts_every_element_in_its_place() {
        let shape = [2usize, 3, 4, 5];
        let x: Vec<f32> = (0..120).map(|i| i as f32).collect();
        let mut n_permutations = 0;
        for code in 0..256usize {
            let axes: [usize; 4] = std::array::from_fn(|i| code >> (2 * i) & 3);
            let mut out_shape = [0; 4];
            (0..4).for_each(|i| out_shape[axes[i]] = shape[i]);
            let n_rows = 120 / out_shape[0].max(1);
            let mut out = vec![0.0; 120];
            let Ok(()) = permute(&x, shape, axes, 0..n_rows, &mut out) else {
                assert!((0..4).any(|i| !axes.contains(&i)));
                continue;
            };
            n_permutations += 1;
            for (i, &value) in x.iter().enumerate() {
                let index = [i % 2, i / 2 % 3, i / 6 % 4, i / 24];
                let mut to = [0; 4];
                (0..4).for_each(|i| to[axes[i]] = index[i]);
                let at = to[0] + out_shape[0] * (to[1] + out_shape[1] * (to[2] + out_shape[2] * to[3]));
                assert_eq!(out[at], value);
            }
            let mut part = vec![0.0; out_shape[0] * 2];
            permute(&x, shape, axes, 1..3, &mut part).unwrap();
            assert_eq!(part, out[out_shape[0]..3 * out_shape[0]]);
        }
        assert_eq!(n_permutations, 24);
    }

    #[test]
    fn rows_and_lengths_outside_are_refused() {
        let x = [0.0; 6];
        let axes = [1, 0, 2, 3];
        let error = permute(&x, [2, 3, 1, 1], axes, 0..3, &mut [0.0; 9]);
        assert_eq!(error, Err(KernelError::Index { what: "end of rows", index: 3, at: 0, limit: 3 }));
        let error = permute(&x, [2, 2, 1, 1], axes, 0..2, &mut [0.0; 4]);
        assert_eq!(error, Err(KernelError::Length { what: "x", expected: 4, got: 6 }));
    }
}
