//! Bytes of one file → version, metadata, tensor table.
//!
//! Layout: magic, version, tensor count, entry count; the entries; the tensor table; padding to the alignment; the
//! data section, from whose start tensor offsets count. Counts are checked against the rest of the file, and vectors
//! grow only as their elements are read, so memory follows the bytes that are there and not the numbers they claim.
//! Overlapping tensors are refused: then all tensors together are never larger than the file.

use std::collections::HashSet;

use crate::cursor::{At, Cursor, value_of};
use crate::error::{
    Fault, MAX_ALIGNMENT, MAX_ARRAY_DEPTH, MAX_DIMS, MAX_KEY_BYTES, MAX_TENSOR_NAME_BYTES, shown,
};
use crate::foreign::Foreign;
use crate::{Array, Metadata, TensorType, Value, ValueType};

/// The alignment of a file that does not state one.
pub(crate) const DEFAULT_ALIGNMENT: u64 = 32;
/// Elements that a vector makes room for before any was read.
const FIRST_CAPACITY: usize = 4096;
/// Smallest entry: key length, one byte of key, type, one byte of value.
const MIN_ENTRY_BYTES: usize = 8 + 1 + 4 + 1;
/// Smallest tensor: name length, one byte of name, one dimension and their number, type, offset.
const MIN_TENSOR_BYTES: usize = 8 + 1 + 4 + 8 + 4 + 8;

/// Everything in front of a file's data.
#[derive(Debug)]
pub(crate) struct Header {
    pub(crate) version: u32,
    pub(crate) alignment: u64,
    pub(crate) metadata: Metadata,
    pub(crate) tensors: Vec<TensorEntry>,
}

/// One tensor; its data is known to lie in the file.
#[derive(Debug)]
pub(crate) struct TensorEntry {
    pub(crate) name: String,
    pub(crate) shape: Vec<usize>,
    pub(crate) dtype: TensorType,
    /// From the start of the file.
    pub(crate) offset: usize,
    pub(crate) n_bytes: usize,
}

/// Reads and checks the header of the file that consists of `bytes`.
pub(crate) fn parse(bytes: &[u8]) -> Result<Header, At> {
    let mut cursor = Cursor::new(bytes);
    let version = magic_and_version(&mut cursor, bytes)?;
    // Two counts come first; the things themselves follow in the same order as below, entries before tensors.
    let n_tensors = cursor.count(MIN_TENSOR_BYTES, || "tensors".into())?;
    let n_entries = cursor.count(MIN_ENTRY_BYTES, || "metadata entries".into())?;
    let (metadata, alignment) = entries(&mut cursor, n_entries)?;
    let raw = tensor_table(&mut cursor, n_tensors)?;
    let data_start = cursor.pos().next_multiple_of(alignment as usize);
    let tensors = place(raw, data_start, alignment, bytes.len())?;
    Ok(Header { version, alignment, metadata, tensors })
}

fn magic_and_version(cursor: &mut Cursor<'_>, bytes: &[u8]) -> Result<u32, At> {
    if !bytes.starts_with(b"GGUF") {
        return Err(At { offset: 0, fault: Fault::NotGguf { found: Foreign::recognise(bytes) } });
    }
    cursor.take(4, || "the magic".into())?;
    let offset = cursor.pos();
    let version = cursor.u32(|| "the version".into())?;
    let fault = match (version, version.swap_bytes()) {
        (2 | 3, _) => return Ok(version),
        (_, swapped @ 1..=3) => Fault::BigEndian { version: swapped },
        _ => Fault::Version { version },
    };
    Err(At { offset, fault })
}

/// All entries, and the alignment that they state.
fn entries(cursor: &mut Cursor<'_>, count: usize) -> Result<(Metadata, u64), At> {
    let mut metadata = Metadata::new();
    let mut alignment = DEFAULT_ALIGNMENT;
    for _ in 0..count {
        let at_key = cursor.pos();
        let key = key(cursor)?;
        let at_value = cursor.pos();
        let value = value(cursor, key)?;
        if key == "general.alignment" {
            alignment = checked_alignment(&value).map_err(|fault| At { offset: at_value, fault })?;
        }
        if metadata.set(key, value).is_some() {
            return Err(At { offset: at_key, fault: Fault::DuplicateKey { key: shown(key) } });
        }
    }
    Ok((metadata, alignment))
}

fn key<'a>(cursor: &mut Cursor<'a>) -> Result<&'a str, At> {
    let offset = cursor.pos();
    let len = cursor.u64(|| "the length of a metadata key".into())?;
    if !(1..=MAX_KEY_BYTES).contains(&len) {
        return Err(At { offset, fault: Fault::KeyLength { len } });
    }
    cursor.str_of(len, || "a metadata key".into())
}

/// The alignment that `value` states, if it is a usable one.
pub(crate) fn checked_alignment(value: &Value) -> Result<u64, Fault> {
    let Some(n) = value.as_i128() else { return Err(Fault::Alignment { found: value.kind() }) };
    match u64::try_from(n) {
        Ok(n) if n.is_power_of_two() && (8..=MAX_ALIGNMENT).contains(&n) => Ok(n),
        _ => Err(Fault::Alignment { found: n.to_string() }),
    }
}

fn value(cursor: &mut Cursor<'_>, key: &str) -> Result<Value, At> {
    let what = || value_of(key);
    Ok(match value_type(cursor, key)? {
        ValueType::U8 => Value::U8(cursor.u8(what)?),
        ValueType::I8 => Value::I8(i8::from_le_bytes(cursor.array(what)?)),
        ValueType::U16 => Value::U16(u16::from_le_bytes(cursor.array(what)?)),
        ValueType::I16 => Value::I16(i16::from_le_bytes(cursor.array(what)?)),
        ValueType::U32 => Value::U32(u32::from_le_bytes(cursor.array(what)?)),
        ValueType::I32 => Value::I32(i32::from_le_bytes(cursor.array(what)?)),
        ValueType::U64 => Value::U64(u64::from_le_bytes(cursor.array(what)?)),
        ValueType::I64 => Value::I64(i64::from_le_bytes(cursor.array(what)?)),
        ValueType::F32 => Value::F32(f32::from_le_bytes(cursor.array(what)?)),
        ValueType::F64 => Value::F64(f64::from_le_bytes(cursor.array(what)?)),
        ValueType::Bool => Value::Bool(truth(cursor, key)?),
        ValueType::String => Value::String(cursor.str(what)?.to_owned()),
        ValueType::Array => Value::Array(array(cursor, key, MAX_ARRAY_DEPTH)?),
    })
}

fn value_type(cursor: &mut Cursor<'_>, key: &str) -> Result<ValueType, At> {
    let offset = cursor.pos();
    let id = cursor.u32(|| format!("the type of '{}'", shown(key)))?;
    ValueType::from_id(id).ok_or_else(|| At { offset, fault: Fault::ValueType { what: value_of(key), id } })
}

fn truth(cursor: &mut Cursor<'_>, key: &str) -> Result<bool, At> {
    let offset = cursor.pos();
    match cursor.u8(|| value_of(key))? {
        0 => Ok(false),
        1 => Ok(true),
        found => Err(At { offset, fault: Fault::Bool { what: value_of(key), found } }),
    }
}

/// An array that may nest `depth` levels, itself included.
fn array(cursor: &mut Cursor<'_>, key: &str, depth: usize) -> Result<Array, At> {
    let offset = cursor.pos();
    let Some(depth) = depth.checked_sub(1) else {
        return Err(At { offset, fault: Fault::ArrayDepth { what: value_of(key) } });
    };
    Ok(match value_type(cursor, key)? {
        ValueType::U8 => Array::U8(numbers(cursor, key, u8::from_le_bytes)?),
        ValueType::I8 => Array::I8(numbers(cursor, key, i8::from_le_bytes)?),
        ValueType::U16 => Array::U16(numbers(cursor, key, u16::from_le_bytes)?),
        ValueType::I16 => Array::I16(numbers(cursor, key, i16::from_le_bytes)?),
        ValueType::U32 => Array::U32(numbers(cursor, key, u32::from_le_bytes)?),
        ValueType::I32 => Array::I32(numbers(cursor, key, i32::from_le_bytes)?),
        ValueType::U64 => Array::U64(numbers(cursor, key, u64::from_le_bytes)?),
        ValueType::I64 => Array::I64(numbers(cursor, key, i64::from_le_bytes)?),
        ValueType::F32 => Array::F32(numbers(cursor, key, f32::from_le_bytes)?),
        ValueType::F64 => Array::F64(numbers(cursor, key, f64::from_le_bytes)?),
        ValueType::Bool => Array::Bool(elements(cursor, key, 1, |c| truth(c, key))?),
        ValueType::String => {
            Array::String(elements(cursor, key, 8, |c| Ok(c.str(|| element_of(key))?.to_owned()))?)
        }
        ValueType::Array => Array::Array(elements(cursor, key, 12, |c| array(c, key, depth))?),
    })
}

fn element_of(key: &str) -> String {
    format!("an element of '{}'", shown(key))
}

/// A count, then that many numbers of `N` bytes, all of which are in the file.
fn numbers<T, const N: usize>(c: &mut Cursor<'_>, key: &str, from: fn([u8; N]) -> T) -> Result<Vec<T>, At> {
    let count = c.count(N, || format!("elements of '{}'", shown(key)))?;
    let bytes = c.take((count * N) as u64, || value_of(key))?;
    Ok(bytes.as_chunks::<N>().0.iter().map(|&chunk| from(chunk)).collect())
}

/// A count, then that many elements of at least `min_bytes`.
fn elements<T>(
    cursor: &mut Cursor<'_>,
    key: &str,
    min_bytes: usize,
    mut read: impl FnMut(&mut Cursor<'_>) -> Result<T, At>,
) -> Result<Vec<T>, At> {
    let count = cursor.count(min_bytes, || format!("elements of '{}'", shown(key)))?;
    let mut out = Vec::with_capacity(count.min(FIRST_CAPACITY));
    for _ in 0..count {
        out.push(read(cursor)?);
    }
    Ok(out)
}

/// A row of the tensor table as it is in the file, sizes checked, place in the file not yet.
struct RawTensor {
    entry: TensorEntry,
    /// From the start of the data section.
    data_offset: u64,
    /// Where in the file the offset is written.
    at_offset: usize,
}

fn tensor_table(cursor: &mut Cursor<'_>, count: usize) -> Result<Vec<RawTensor>, At> {
    let mut names = HashSet::new();
    let mut out = Vec::with_capacity(count.min(FIRST_CAPACITY));
    for _ in 0..count {
        let offset = cursor.pos();
        let tensor = raw_tensor(cursor)?;
        if !names.insert(tensor.entry.name.clone()) {
            return Err(At { offset, fault: Fault::DuplicateTensor { name: shown(&tensor.entry.name) } });
        }
        out.push(tensor);
    }
    Ok(out)
}

fn raw_tensor(cursor: &mut Cursor<'_>) -> Result<RawTensor, At> {
    let name = tensor_name(cursor)?;
    let of_name = |part: &str| format!("the {part} of tensor '{}'", shown(name));
    let at_dims = cursor.pos();
    let n_dims = cursor.u32(|| of_name("number of dimensions"))?;
    check_n_dims(name, n_dims).map_err(|fault| At { offset: at_dims, fault })?;
    let at_shape = cursor.pos();
    let mut shape = Vec::with_capacity(n_dims as usize);
    for _ in 0..n_dims {
        shape.push(cursor.u64(|| of_name("shape"))?);
    }
    let at_type = cursor.pos();
    let id = cursor.u32(|| of_name("type"))?;
    let dtype = tensor_type(name, id).map_err(|fault| At { offset: at_type, fault })?;
    let at_offset = cursor.pos();
    let data_offset = cursor.u64(|| of_name("offset"))?;
    let (shape, n_bytes) =
        checked_size(name, &shape, dtype).map_err(|fault| At { offset: at_shape, fault })?;
    let entry = TensorEntry { name: name.to_owned(), shape, dtype, offset: 0, n_bytes };
    Ok(RawTensor { entry, data_offset, at_offset })
}

fn tensor_name<'a>(cursor: &mut Cursor<'a>) -> Result<&'a str, At> {
    let offset = cursor.pos();
    let len = cursor.u64(|| "the length of a tensor name".into())?;
    check_tensor_name_len(len).map_err(|fault| At { offset, fault })?;
    cursor.str_of(len, || "a tensor name".into())
}

/// The rule for the length of a tensor's name.
pub(crate) fn check_tensor_name_len(len: u64) -> Result<(), Fault> {
    if (1..=MAX_TENSOR_NAME_BYTES).contains(&len) { Ok(()) } else { Err(Fault::TensorNameLength { len }) }
}

/// The rule for a tensor's number of dimensions.
pub(crate) fn check_n_dims(name: &str, n_dims: u32) -> Result<(), Fault> {
    if (1..=MAX_DIMS).contains(&n_dims) { Ok(()) } else { Err(Fault::Dims { name: shown(name), n_dims }) }
}

fn tensor_type(name: &str, id: u32) -> Result<TensorType, Fault> {
    TensorType::from_id(id).ok_or_else(|| match TensorType::removed_name(id) {
        Some(was) => Fault::RemovedTensorType { name: shown(name), id, was },
        None => Fault::TensorType { name: shown(name), id },
    })
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

/// Turns data offsets into file offsets, after checking that every tensor lies in the file and on its own bytes.
fn place(
    raw: Vec<RawTensor>,
    data_start: usize,
    alignment: u64,
    file_len: usize,
) -> Result<Vec<TensorEntry>, At> {
    let available = file_len.saturating_sub(data_start) as u64;
    for tensor in &raw {
        check_place(tensor, alignment, available).map_err(|fault| At { offset: tensor.at_offset, fault })?;
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
            return Err(At { offset: second.at_offset, fault: Fault::Overlap { name, other } });
        }
    }
    Ok(())
}
