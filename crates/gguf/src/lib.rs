//! The GGUF file format: reading, writing, tensor types and their reference dequantization.
//!
//! A file is hostile input: every count, length and offset is checked against the size of the file before anything is
//! allocated, and every refusal is a typed error that names the byte offset and what was expected there.
//!
//! Format: <https://github.com/ggml-org/ggml/blob/master/docs/gguf.md>.

mod atomic;
mod cursor;
mod error;
mod file;
mod foreign;
mod mapping;
mod metadata;
mod parse;
mod quant;
mod split;
mod storage;
mod tensor_type;
mod writer;

pub use atomic::create_atomically;
pub use error::{
    Fault, FaultClass, GgufError, MAX_ALIGNMENT, MAX_ARRAY_DEPTH, MAX_DIMS, MAX_KEY_BYTES,
    MAX_TENSOR_NAME_BYTES, SplitFault,
};
pub use file::{FileInfo, Gguf, OpenOptions, TensorInfo};
pub use foreign::Foreign;
pub use metadata::{Array, Metadata, MetadataError, Value, ValueType};
pub use quant::{QuantError, can_dequantize, can_quantize, dequantize, quantize};
pub use tensor_type::TensorType;
pub use writer::{DataWriter, GgufWriter, WriteError};
