//! The format's limits and rules that reader and writer share, each as one check.

use crate::error::{Fault, shown};
use crate::{TensorType, Value};

/// The alignment of a file that does not state one.
pub(crate) const DEFAULT_ALIGNMENT: u64 = 32;
/// Longest metadata key, by the format's description.
pub const MAX_KEY_BYTES: u64 = 65535;
/// Deepest nesting of arrays; the format sets no limit, and real files use one level.
pub const MAX_ARRAY_DEPTH: usize = 8;
/// Largest `general.alignment`: half of it is the most that padding can waste per tensor.
pub const MAX_ALIGNMENT: u64 = 1 << 20;
/// Longest tensor name, by the format's description.
pub const MAX_TENSOR_NAME_BYTES: u64 = 64;
/// Most dimensions of a tensor.
pub const MAX_DIMS: u32 = 4;

/// The rule for the length of a metadata key.
pub(crate) fn check_key_len(len: u64) -> Result<(), Fault> {
    if (1..=MAX_KEY_BYTES).contains(&len) { Ok(()) } else { Err(Fault::KeyLength { len }) }
}

/// The alignment that `value` states, if it is a usable one.
pub(crate) fn checked_alignment(value: &Value) -> Result<u64, Fault> {
    let Some(n) = value.as_i128() else { return Err(Fault::Alignment { found: value.kind() }) };
    match u64::try_from(n) {
        Ok(n) if n.is_power_of_two() && (8..=MAX_ALIGNMENT).contains(&n) => Ok(n),
        _ => Err(Fault::Alignment { found: n.to_string() }),
    }
}

/// The rule for the length of a tensor's name.
pub(crate) fn check_tensor_name_len(len: u64) -> Result<(), Fault> {
    if (1..=MAX_TENSOR_NAME_BYTES).contains(&len) { Ok(()) } else { Err(Fault::TensorNameLength { len }) }
}

/// The rule for a tensor's number of dimensions.
pub(crate) fn check_n_dims(name: &str, n_dims: u32) -> Result<(), Fault> {
    if (1..=MAX_DIMS).contains(&n_dims) { Ok(()) } else { Err(Fault::Dims { name: shown(name), n_dims }) }
}

/// A tensor's shape in `usize` and its size in bytes.
pub(crate) fn checked_size(
    name: &str,
    shape: &[u64],
    dtype: TensorType,
) -> Result<(Vec<usize>, usize), Fault> {
    let too_large = || Fault::TensorSize { name: shown(name), shape: shape.to_vec() };
    if let Some(dim) = shape.iter().position(|&n| n == 0) {
        return Err(Fault::ZeroDim { name: shown(name), dim });
    }
    let dims: Vec<usize> =
        shape.iter().map(|&n| usize::try_from(n)).collect::<Result<_, _>>().map_err(|_| too_large())?;
    let (&row, outer) = dims.split_first().ok_or_else(too_large)?;
    if !row.is_multiple_of(dtype.block_elems()) {
        return Err(Fault::PartialBlock { name: shown(name), row: shape[0], dtype });
    }
    let n_rows = outer.iter().try_fold(1usize, |product, &n| product.checked_mul(n));
    let n_bytes = n_rows.zip(dtype.row_bytes(row)).and_then(|(rows, row_bytes)| rows.checked_mul(row_bytes));
    let n_elems = n_rows.and_then(|rows| rows.checked_mul(row));
    match n_bytes.zip(n_elems) {
        Some((n_bytes, _)) if isize::try_from(n_bytes).is_ok() => Ok((dims, n_bytes)),
        _ => Err(too_large()),
    }
}
