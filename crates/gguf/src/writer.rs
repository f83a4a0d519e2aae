//! Writes GGUF version 3.
//!
//! The header needs all tensor sizes but no data: [`GgufWriter`] collects metadata and tensors and computes offsets,
//! [`GgufWriter::start`] writes the header, and the [`DataWriter`] that it returns takes the data in the same order, in
//! pieces of any size. Whatever the reader would refuse is refused here, before a byte is written.

use std::collections::HashSet;
use std::io::{self, Write};

use crate::error::{Fault, shown};
use crate::rules::{
    DEFAULT_ALIGNMENT, MAX_ARRAY_DEPTH, check_key_len, check_n_dims, check_tensor_name_len,
    checked_alignment, checked_size,
};
use crate::{Array, Metadata, TensorType, Value};

const VERSION: u32 = 3;

/// A file could not be written.
#[derive(Debug, thiserror::Error)]
pub enum WriteError {
    /// The contents break a rule of the format.
    #[error("cannot write this as GGUF: {0}")]
    Refused(#[from] Fault),
    /// More data than the tensor has room for.
    #[error("tensor '{name}' takes {expected} bytes more, but {found} were given")]
    TooMuchData {
        /// The tensor.
        name: String,
        /// Bytes that are still missing.
        expected: usize,
        /// Bytes that were given.
        found: usize,
    },
    /// Data after the last tensor.
    #[error("{found} bytes given after the last tensor's data")]
    NoSuchTensor {
        /// Bytes that were given.
        found: usize,
    },
    /// The file was finished early.
    #[error("tensor '{name}' still lacks {missing} bytes of data")]
    Incomplete {
        /// The first incomplete tensor.
        name: String,
        /// Bytes that it lacks.
        missing: usize,
    },
    /// The output refused.
    #[error("cannot write: {0}")]
    Io(#[from] io::Error),
}

/// The contents of a file to be written, without the tensors' data.
#[derive(Debug)]
pub struct GgufWriter {
    metadata: Metadata,
    tensors: Vec<Planned>,
    names: HashSet<String>,
    alignment: u64,
    /// Where the next tensor starts, from the start of the data section.
    end: u64,
}

/// A tensor whose data is to come.
#[derive(Debug)]
struct Planned {
    name: String,
    shape: Vec<usize>,
    dtype: TensorType,
    offset: u64,
    n_bytes: usize,
}

impl GgufWriter {
    /// Starts with `metadata`; data is aligned as `general.alignment` says, else to 32 bytes.
    pub fn new(metadata: Metadata) -> Result<GgufWriter, WriteError> {
        for (key, value) in metadata.iter() {
            check_entry(key, value)?;
        }
        let alignment = metadata.get("general.alignment").map_or(Ok(DEFAULT_ALIGNMENT), checked_alignment)?;
        Ok(GgufWriter { metadata, tensors: Vec::new(), names: HashSet::new(), alignment, end: 0 })
    }

    /// Adds a tensor; dimension 0 of `shape` is fastest. Returns its size in bytes.
    pub fn add_tensor(
        &mut self,
        name: &str,
        shape: &[usize],
        dtype: TensorType,
    ) -> Result<usize, WriteError> {
        check_tensor_name_len(name.len() as u64)?;
        check_n_dims(name, u32::try_from(shape.len()).unwrap_or(u32::MAX))?;
        let dims: Vec<u64> = shape.iter().map(|&n| n as u64).collect();
        let (shape, n_bytes) = checked_size(name, &dims, dtype)?;
        let too_large = || Fault::TensorSize { name: shown(name), shape: dims.clone() };
        let end =
            self.end.checked_add(n_bytes as u64).and_then(|end| end.checked_next_multiple_of(self.alignment));
        let end = end.ok_or_else(too_large)?;
        if !self.names.insert(name.to_owned()) {
            return Err(Fault::DuplicateTensor { name: shown(name) }.into());
        }
        self.tensors.push(Planned { name: name.to_owned(), shape, dtype, offset: self.end, n_bytes });
        self.end = end;
        Ok(n_bytes)
    }

    /// Writes everything in front of the data.
    pub fn start<W: Write>(self, mut out: W) -> Result<DataWriter<W>, WriteError> {
        let mut header = self.header();
        header.resize(header.len().next_multiple_of(self.alignment as usize), 0);
        out.write_all(&header)?;
        Ok(DataWriter { out, tensors: self.tensors.into_iter(), current: None, alignment: self.alignment })
    }

    fn header(&self) -> Vec<u8> {
        let mut out = Vec::new();
        out.extend(b"GGUF");
        out.extend(VERSION.to_le_bytes());
        out.extend((self.tensors.len() as u64).to_le_bytes());
        out.extend((self.metadata.len() as u64).to_le_bytes());
        for (key, value) in self.metadata.iter() {
            put_str(&mut out, key);
            out.extend((value.value_type() as u32).to_le_bytes());
            put_value(&mut out, value);
        }
        for tensor in &self.tensors {
            put_tensor(&mut out, tensor);
        }
        out
    }
}

/// Takes the tensors' data, in the order in which they were added.
#[derive(Debug)]
pub struct DataWriter<W> {
    out: W,
    tensors: std::vec::IntoIter<Planned>,
    /// The tensor that is being written, and how many bytes it lacks (at least one).
    current: Option<(Planned, usize)>,
    alignment: u64,
}

impl<W: Write> DataWriter<W> {
    /// Writes the next bytes of the current tensor; after its last one the next tensor is current.
    ///
    /// Errors if `bytes` is more than the tensor lacks; nothing is written then.
    pub fn write(&mut self, bytes: &[u8]) -> Result<(), WriteError> {
        if bytes.is_empty() {
            return Ok(());
        }
        let Some((tensor, lacking)) = self.take_current() else {
            return Err(WriteError::NoSuchTensor { found: bytes.len() });
        };
        let Some(left) = lacking.checked_sub(bytes.len()) else {
            let name = shown(&tensor.name);
            self.current = Some((tensor, lacking));
            return Err(WriteError::TooMuchData { name, expected: lacking, found: bytes.len() });
        };
        self.out.write_all(bytes)?;
        if left == 0 {
            return self.pad(tensor.n_bytes);
        }
        self.current = Some((tensor, left));
        Ok(())
    }

    /// The first tensor that lacks data, and how many bytes.
    fn take_current(&mut self) -> Option<(Planned, usize)> {
        self.current.take().or_else(|| {
            let tensor = self.tensors.next()?;
            let n_bytes = tensor.n_bytes;
            Some((tensor, n_bytes))
        })
    }

    fn pad(&mut self, n_bytes: usize) -> Result<(), WriteError> {
        let padding = (n_bytes as u64).next_multiple_of(self.alignment) - n_bytes as u64;
        io::copy(&mut io::Read::take(io::repeat(0), padding), &mut self.out)?;
        Ok(())
    }

    /// Checks that all data is there, flushes, and returns the output.
    pub fn finish(mut self) -> Result<W, WriteError> {
        if let Some((tensor, missing)) = self.take_current() {
            return Err(WriteError::Incomplete { name: shown(&tensor.name), missing });
        }
        self.out.flush()?;
        Ok(self.out)
    }
}

fn check_entry(key: &str, value: &Value) -> Result<(), Fault> {
    check_key_len(key.len() as u64)?;
    match value {
        Value::Array(array) if depth(array) > MAX_ARRAY_DEPTH => {
            Err(Fault::ArrayDepth { what: crate::cursor::value_of(key) })
        }
        _ => Ok(()),
    }
}

/// Levels of arrays, `array` included.
fn depth(array: &Array) -> usize {
    match array {
        Array::Array(inner) => 1 + inner.iter().map(depth).max().unwrap_or(0),
        _ => 1,
    }
}

fn put_str(out: &mut Vec<u8>, text: &str) {
    out.extend((text.len() as u64).to_le_bytes());
    out.extend(text.as_bytes());
}

fn put_value(out: &mut Vec<u8>, value: &Value) {
    match value {
        Value::U8(x) => out.push(*x),
        Value::I8(x) => out.extend(x.to_le_bytes()),
        Value::U16(x) => out.extend(x.to_le_bytes()),
        Value::I16(x) => out.extend(x.to_le_bytes()),
        Value::U32(x) => out.extend(x.to_le_bytes()),
        Value::I32(x) => out.extend(x.to_le_bytes()),
        Value::U64(x) => out.extend(x.to_le_bytes()),
        Value::I64(x) => out.extend(x.to_le_bytes()),
        Value::F32(x) => out.extend(x.to_le_bytes()),
        Value::F64(x) => out.extend(x.to_le_bytes()),
        Value::Bool(x) => out.push(u8::from(*x)),
        Value::String(x) => put_str(out, x),
        Value::Array(x) => put_array(out, x),
    }
}

fn put_array(out: &mut Vec<u8>, array: &Array) {
    out.extend((array.element_type() as u32).to_le_bytes());
    out.extend((array.len() as u64).to_le_bytes());
    match array {
        Array::U8(v) => out.extend(v),
        Array::I8(v) => out.extend(v.iter().flat_map(|x| x.to_le_bytes())),
        Array::U16(v) => out.extend(v.iter().flat_map(|x| x.to_le_bytes())),
        Array::I16(v) => out.extend(v.iter().flat_map(|x| x.to_le_bytes())),
        Array::U32(v) => out.extend(v.iter().flat_map(|x| x.to_le_bytes())),
        Array::I32(v) => out.extend(v.iter().flat_map(|x| x.to_le_bytes())),
        Array::U64(v) => out.extend(v.iter().flat_map(|x| x.to_le_bytes())),
        Array::I64(v) => out.extend(v.iter().flat_map(|x| x.to_le_bytes())),
        Array::F32(v) => out.extend(v.iter().flat_map(|x| x.to_le_bytes())),
        Array::F64(v) => out.extend(v.iter().flat_map(|x| x.to_le_bytes())),
        Array::Bool(v) => out.extend(v.iter().map(|&x| u8::from(x))),
        Array::String(v) => v.iter().for_each(|x| put_str(out, x)),
        Array::Array(v) => v.iter().for_each(|x| put_array(out, x)),
    }
}

fn put_tensor(out: &mut Vec<u8>, tensor: &Planned) {
    put_str(out, &tensor.name);
    out.extend((tensor.shape.len() as u32).to_le_bytes());
    out.extend(tensor.shape.iter().flat_map(|&n| (n as u64).to_le_bytes()));
    out.extend((tensor.dtype as u32).to_le_bytes());
    out.extend(tensor.offset.to_le_bytes());
}
