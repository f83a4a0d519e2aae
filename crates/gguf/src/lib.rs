//! The GGUF file format: reading, writing, tensor types and their reference dequantization.
//!
//! A file is hostile input: every count, length and offset is checked against the size of the file before anything is
//! allocated, and every refusal is a typed error that names the byte offset and what was expected there.
//!
//! ```
//! use minfer_gguf::{Gguf, GgufWriter, Metadata, TensorType, Value, dequantize};
//!
//! let mut metadata = Metadata::new();
//! metadata.set("general.architecture", Value::String("llama".into()));
//! let mut writer = GgufWriter::new(metadata)?;
//! writer.add_tensor("w", &[2, 3], TensorType::F16)?;
//! let mut data = writer.start(Vec::new())?;
//! data.write(&[0x00, 0x3c].repeat(6))?;
//!
//! let model = Gguf::from_bytes(data.finish()?)?;
//! let tensor = model.tensor("w").ok_or("no tensor 'w'")?;
//! let mut row = [0.0; 2];
//! dequantize(tensor.dtype, &model.data(tensor)[..tensor.row_bytes()], &mut row)?;
//! assert_eq!(row, [1.0, 1.0]);
//! # Ok::<(), Box<dyn std::error::Error>>(())
//! ```
//!
//! Format: <https://github.com/ggml-org/ggml/blob/master/docs/gguf.md>.

mod atomic;
mod cursor;
mod error;
mod file;
mod foreign;
mod identity;
mod mapped;
mod mapping;
mod metadata;
mod parse;
mod quant;
mod rules;
mod split;
mod storage;
mod strings;
mod tensor_type;
mod writer;

pub use atomic::{AtomicFile, create_atomically, remove_unfinished};
pub use error::{Fault, FaultClass, GgufError, SplitFault};
pub use file::{FileInfo, Gguf, OpenOptions, TensorInfo};
pub use foreign::Foreign;
pub use mapped::{MappedBytes, MappedFile};
pub use metadata::{Array, Metadata, MetadataError, Value, ValueType};
pub use quant::{
    NotFinite, QuantError, can_dequantize, can_quantize, dequantize, not_finite, quantize, scale_offsets,
};
pub use rules::{MAX_ALIGNMENT, MAX_ARRAY_DEPTH, MAX_DIMS, MAX_KEY_BYTES, MAX_TENSOR_NAME_BYTES};
pub use strings::Strings;
pub use tensor_type::TensorType;
pub use writer::{DataWriter, GgufWriter, WriteError};
