//! Chosen rows of the activations, such as those whose logits are wanted.

use crate::error::KernelError;

/// `out[i] = x[rows[i]]`, rows of `row_len` elements.
pub fn get_rows(x: &[f32], row_len: usize, rows: &[i32], out: &mut [f32]) -> Result<(), KernelError> {
    let n_rows = KernelError::check_rows("x", x.len(), row_len)?;
    KernelError::check_len("out", out.len(), rows.len() * row_len)?;
    for (at, &row) in rows.iter().enumerate() {
        KernelError::check_index("row", row, at, n_rows)?;
    }
    for (&row, out) in rows.iter().zip(out.chunks_exact_mut(row_len.max(1))) {
        out.copy_from_slice(&x[row as usize * row_len..][..row_len]);
    }
    Ok(())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn rows_are_gathered_in_the_order_asked_for() {
        let x: Vec<f32> = (0..12).map(|i| i as f32).collect();
        let mut out = [0.0; 9];
        get_rows(&x, 3, &[3, 0, 3], &mut out).unwrap();
        assert_eq!(out, [9.0, 10.0, 11.0, 0.0, 1.0, 2.0, 9.0, 10.0, 11.0]);
    }

    #[test]
    fn rows_outside_are_refused_before_anything_is_written() {
        for bad in [-1, 4, i32::MAX, i32::MIN] {
            let mut out = [5.0; 6];
            let error = get_rows(&[0.0; 12], 3, &[0, bad], &mut out);
            let expected = KernelError::Index { what: "row", index: i64::from(bad), at: 1, limit: 4 };
            assert_eq!(error, Err(expected));
            assert_eq!(out, [5.0; 6]);
        }
    }
}
