//! The best element of each row.

use crate::error::KernelError;

/// For each row of `row_len` elements, the place of an element, as a number, and the element: the first that is NaN or positive
/// infinity; without one, the largest, the first among equals. `out` has two elements a row.
///
/// Nothing is added or rounded, so there is one version for all instruction sets.
pub fn argmax(x: &[f32], row_len: usize, out: &mut [f32]) -> Result<(), KernelError> {
    KernelError::check_rows("x", x.len(), row_len)?;
    KernelError::check_len("out", out.len(), x.len() / row_len.max(1) * 2)?;
    for (row, out) in x.chunks_exact(row_len.max(1)).zip(out.chunks_exact_mut(2)) {
        let place = best(row);
        out.copy_from_slice(&[place as f32, row[place]]);
    }
    Ok(())
}

/// `row` has at least one element.
fn best(row: &[f32]) -> usize {
    let mut best = 0;
    for (i, v) in row.iter().enumerate() {
        if v.is_nan() || *v == f32::INFINITY {
            return i;
        }
        if *v > row[best] {
            best = i;
        }
    }
    best
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_first_of_the_best_and_whatever_is_no_number_before_it() {
        let (inf, nan) = (f32::INFINITY, f32::NAN);
        let cases: [(&[f32], f32); 7] = [
            (&[1.0, 3.0, 3.0, 2.0], 1.0),
            (&[-0.0, 0.0, -1.0, -2.0], 0.0),
            (&[-inf, -inf, -5.0, -inf], 2.0),
            (&[-inf, -inf, -inf, -inf], 0.0),
            (&[9.0, 1.0, nan, inf], 2.0),
            (&[9.0, inf, nan, 99.0], 1.0),
            (&[-nan, inf, nan, 99.0], 0.0),
        ];
        for (row, place) in cases {
            let mut out = [7.0; 2];
            argmax(row, 4, &mut out).unwrap();
            assert_eq!((out[0], out[1].to_bits()), (place, row[place as usize].to_bits()), "{row:?}");
        }
        assert!(argmax(&[1.0; 8], 4, &mut [0.0; 3]).is_err() && argmax(&[1.0; 7], 4, &mut [0.0; 2]).is_err());
    }
}
