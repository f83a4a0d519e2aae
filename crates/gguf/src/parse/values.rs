//! Metadata values, arrays of any nesting among them.

use crate::cursor::{At, Cursor, value_of};
use crate::error::{Fault, shown};
use crate::rules::MAX_ARRAY_DEPTH;
use crate::strings::NotText;
use crate::{Array, Strings, Value, ValueType};

use super::FIRST_CAPACITY;

/// Bytes of the length before a text.
const LENGTH_BYTES: usize = 8;

/// The value of `key`: its type, then its bytes.
pub(super) fn value(cursor: &mut Cursor<'_>, key: &str) -> Result<Value, At> {
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
        ValueType::String => Value::String(cursor.str(what)?),
        ValueType::Array => Value::Array(array(cursor, key, MAX_ARRAY_DEPTH)?),
    })
}

fn value_type(cursor: &mut Cursor<'_>, key: &str) -> Result<ValueType, At> {
    let offset = cursor.pos();
    let id = cursor.u32(|| format!("the type of '{}'", shown(key)))?;
    ValueType::from_id(id).ok_or_else(|| Fault::ValueType { what: value_of(key), id }.at(offset))
}

fn truth(cursor: &mut Cursor<'_>, key: &str) -> Result<bool, At> {
    let offset = cursor.pos();
    match cursor.u8(|| value_of(key))? {
        0 => Ok(false),
        1 => Ok(true),
        found => Err(Fault::Bool { what: value_of(key), found }.at(offset)),
    }
}

/// An array that may nest `depth` levels, itself included.
fn array(cursor: &mut Cursor<'_>, key: &str, depth: usize) -> Result<Array, At> {
    let offset = cursor.pos();
    let Some(depth) = depth.checked_sub(1) else {
        return Err(Fault::ArrayDepth { what: value_of(key) }.at(offset));
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
        ValueType::String => Array::String(strings(cursor, key)?),
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

/// A count, then that many texts. Copied, then checked: the bytes may be a file's that somebody else is changing.
fn strings(cursor: &mut Cursor<'_>, key: &str) -> Result<Strings, At> {
    let what = || element_of(key);
    let count = cursor.count(LENGTH_BYTES, || format!("elements of '{}'", shown(key)))?;
    let first = cursor.pos();
    let (mut bytes, mut ends) = (Vec::new(), Vec::with_capacity(count.min(FIRST_CAPACITY)));
    for _ in 0..count {
        let len = cursor.u64(|| format!("the length of {}", what()))?;
        bytes.extend_from_slice(cursor.take(len, what)?);
        ends.push(bytes.len());
    }
    Strings::from_parts(bytes, ends).map_err(|NotText { index, start, valid_up_to }| {
        let offset = first + (index + 1) * LENGTH_BYTES + start + valid_up_to;
        Fault::NotUtf8 { what: what(), valid_up_to }.at(offset)
    })
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
