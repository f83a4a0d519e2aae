//! The tensor table: names, shapes, types, and where the data lies.

use std::collections::HashSet;

use crate::TensorType;
use crate::cursor::{At, Cursor};
use crate::error::{Fault, shown};
use crate::rules::{check_n_dims, check_tensor_name_len, checked_size};

use super::{FIRST_CAPACITY, TensorEntry};

/// A row of the tensor table as it is in the file, sizes checked, place in the file not yet.
pub(super) struct RawTensor {
    entry: TensorEntry,
    /// From the start of the data section.
    data_offset: u64,
    /// Where in the file the offset is written.
    at_offset: usize,
}

/// `count` rows of the table.
pub(super) fn table(cursor: &mut Cursor<'_>, count: usize) -> Result<Vec<RawTensor>, At> {
    let mut names = HashSet::new();
    let mut out = Vec::with_capacity(count.min(FIRST_CAPACITY));
    for _ in 0..count {
        let offset = cursor.pos();
        let tensor = raw_tensor(cursor)?;
        if !names.insert(tensor.entry.name.clone()) {
            return Err(Fault::DuplicateTensor { name: shown(&tensor.entry.name) }.at(offset));
        }
        out.push(tensor);
    }
    Ok(out)
}

fn raw_tensor(cursor: &mut Cursor<'_>) -> Result<RawTensor, At> {
    let name = tensor_name(cursor)?;
    let of_name = |part: &str| format!("the {part} of tensor '{}'", shown(&name));
    let at_dims = cursor.pos();
    let n_dims = cursor.u32(|| of_name("number of dimensions"))?;
    check_n_dims(&name, n_dims).map_err(|fault| fault.at(at_dims))?;
    let at_shape = cursor.pos();
    let mut shape = Vec::with_capacity(n_dims as usize);
    for _ in 0..n_dims {
        shape.push(cursor.u64(|| of_name("shape"))?);
    }
    let at_type = cursor.pos();
    let id = cursor.u32(|| of_name("type"))?;
    let dtype = tensor_type(&name, id).map_err(|fault| fault.at(at_type))?;
    let at_offset = cursor.pos();
    let data_offset = cursor.u64(|| of_name("offset"))?;
    let (shape, n_bytes) = checked_size(&name, &shape, dtype).map_err(|fault| fault.at(at_shape))?;
    let entry = TensorEntry { name, shape, dtype, offset: 0, n_bytes };
    Ok(RawTensor { entry, data_offset, at_offset })
}

fn tensor_name(cursor: &mut Cursor<'_>) -> Result<String, At> {
    let offset = cursor.pos();
    let len = cursor.u64(|| "the length of a tensor name".into())?;
    check_tensor_name_len(len).map_err(|fault| fault.at(offset))?;
    cursor.str_of(len, || "a tensor name".into())
}

fn tensor_type(name: &str, id: u32) -> Result<TensorType, Fault> {
    TensorType::from_id(id).ok_or_else(|| match TensorType::removed_name(id) {
        Some(was) => Fault::RemovedTensorType { name: shown(name), id, was },
        None => Fault::TensorType { name: shown(name), id },
    })
}

/// Turns data offsets into file offsets, after checking that every tensor lies in the file and on its own bytes.
pub(super) fn place(
    raw: Vec<RawTensor>,
    data_start: usize,
    alignment: u64,
    file_len: usize,
) -> Result<Vec<TensorEntry>, At> {
    let available = file_len.saturating_sub(data_start) as u64;
    for tensor in &raw {
        check_place(tensor, alignment, available).map_err(|fault| fault.at(tensor.at_offset))?;
    }
    check_overlap(&raw)?;
    // Both sums are at most `file_len` now.
    let placed = |t: RawTensor| TensorEntry { offset: data_start + t.data_offset as usize, ..t.entry };
    Ok(raw.into_iter().map(placed).collect())
}

fn check_place(tensor: &RawTensor, alignment: u64, available: u64) -> Result<(), Fault> {
    let (name, at, bytes) = (&tensor.entry.name, tensor.data_offset, tensor.entry.n_bytes as u64);
    if !at.is_multiple_of(alignment) {
        return Err(Fault::MisalignedOffset { name: shown(name), at, alignment });
    }
    match at.checked_add(bytes) {
        Some(end) if end <= available => Ok(()),
        _ => Err(Fault::DataOutOfFile { name: shown(name), at, bytes, available }),
    }
}

fn check_overlap(raw: &[RawTensor]) -> Result<(), At> {
    let mut by_offset: Vec<&RawTensor> = raw.iter().collect();
    by_offset.sort_by_key(|t| t.data_offset);
    for pair in by_offset.windows(2) {
        let (first, second) = (pair[0], pair[1]);
        if first.data_offset + first.entry.n_bytes as u64 > second.data_offset {
            let (name, other) = (shown(&second.entry.name), shown(&first.entry.name));
            return Err(Fault::Overlap { name, other }.at(second.at_offset));
        }
    }
    Ok(())
}
