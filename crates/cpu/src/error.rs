//! What the kernels refuse.

/// A precondition of a kernel doesn't hold; nothing has been written.
#[derive(Clone, Debug, PartialEq, thiserror::Error)]
pub enum KernelError {
    /// A slice has the wrong length.
    #[error("{what} has {got} elements, expected {expected}")]
    Length {
        /// The argument.
        what: &'static str,
        /// The length it must have.
        expected: usize,
        /// The length it has.
        got: usize,
    },
    /// A slice isn't a whole number of rows.
    #[error("{what} has {got} elements, not a multiple of {row_len}")]
    Rows {
        /// The argument.
        what: &'static str,
        /// The length of a row.
        row_len: usize,
        /// The length of the slice.
        got: usize,
    },
    /// A row index, slot, block number or the like points outside.
    #[error("{what} {index} at position {at} is not below {limit}")]
    Index {
        /// What the index names.
        what: &'static str,
        /// Its value.
        index: i64,
        /// Where in the list of indices it stands.
        at: usize,
        /// The number of things that can be named.
        limit: usize,
    },
    /// A parameter of the op has a value that makes no sense.
    #[error("{what} is {value}; it must be {rule}")]
    Parameter {
        /// The parameter.
        what: &'static str,
        /// Its value.
        value: f64,
        /// What would be accepted.
        rule: &'static str,
    },
}

impl KernelError {
    /// `got == expected`, or the error.
    pub(crate) fn check_len(what: &'static str, got: usize, expected: usize) -> Result<(), KernelError> {
        if got == expected { Ok(()) } else { Err(KernelError::Length { what, expected, got }) }
    }

    /// The number of rows of `row_len` elements in `got` elements.
    pub(crate) fn check_rows(what: &'static str, got: usize, row_len: usize) -> Result<usize, KernelError> {
        match got.checked_div(row_len) {
            Some(n_rows) if n_rows * row_len == got => Ok(n_rows),
            None if got == 0 => Ok(0),
            _ => Err(KernelError::Rows { what, row_len, got }),
        }
    }

    /// `index` as an unsigned number below `limit`, or the error.
    pub(crate) fn check_index(
        what: &'static str,
        index: i32,
        at: usize,
        limit: usize,
    ) -> Result<usize, KernelError> {
        match usize::try_from(index) {
            Ok(i) if i < limit => Ok(i),
            _ => Err(KernelError::Index { what, index: i64::from(index), at, limit }),
        }
    }
}
