//! Bytes of one file → version, metadata, tensor table.
//!
//! Layout: magic, version, tensor count, entry count; the entries; the tensor table; padding to the alignment; the
//! data section, from whose start tensor offsets count. Counts are checked against the rest of the file, and vectors
//! grow only as their elements are read, so memory follows the bytes that are there and not the numbers they claim.
//! Overlapping tensors are refused: then all tensors together are never larger than the file.

use crate::cursor::{At, Cursor};
use crate::error::{Fault, shown};
use crate::foreign::Foreign;
use crate::rules::{DEFAULT_ALIGNMENT, check_key_len, checked_alignment};
use crate::{Metadata, TensorType};

mod tensors;
mod values;

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
    // The counts are in one order, the things themselves in the other.
    let n_tensors = cursor.count(MIN_TENSOR_BYTES, || "tensors".into())?;
    let n_entries = cursor.count(MIN_ENTRY_BYTES, || "metadata entries".into())?;
    let (metadata, alignment) = entries(&mut cursor, n_entries)?;
    let table = tensors::table(&mut cursor, n_tensors)?;
    let data_start = cursor.pos().next_multiple_of(alignment as usize);
    let tensors = tensors::place(table, data_start, alignment, bytes.len())?;
    Ok(Header { version, alignment, metadata, tensors })
}

fn magic_and_version(cursor: &mut Cursor<'_>, bytes: &[u8]) -> Result<u32, At> {
    if !bytes.starts_with(b"GGUF") {
        return Err(Fault::NotGguf { found: Foreign::recognise(bytes) }.at(0));
    }
    cursor.take(4, || "the magic".into())?;
    let offset = cursor.pos();
    let version = cursor.u32(|| "the version".into())?;
    let fault = match (version, version.swap_bytes()) {
        (2 | 3, _) => return Ok(version),
        (_, swapped @ 1..=3) => Fault::BigEndian { version: swapped },
        _ => Fault::Version { version },
    };
    Err(fault.at(offset))
}

/// All entries, and the alignment that they state.
fn entries(cursor: &mut Cursor<'_>, count: usize) -> Result<(Metadata, u64), At> {
    let mut metadata = Metadata::new();
    let mut alignment = DEFAULT_ALIGNMENT;
    for _ in 0..count {
        let at_key = cursor.pos();
        let key = key(cursor)?;
        let at_value = cursor.pos();
        let value = values::value(cursor, &key)?;
        if key == "general.alignment" {
            alignment = checked_alignment(&value).map_err(|fault| fault.at(at_value))?;
        }
        if metadata.get(&key).is_some() {
            return Err(Fault::DuplicateKey { key: shown(&key) }.at(at_key));
        }
        metadata.set(key, value);
    }
    Ok((metadata, alignment))
}

fn key(cursor: &mut Cursor<'_>) -> Result<String, At> {
    let offset = cursor.pos();
    let len = cursor.u64(|| "the length of a metadata key".into())?;
    check_key_len(len).map_err(|fault| fault.at(offset))?;
    cursor.str_of(len, || "a metadata key".into())
}
