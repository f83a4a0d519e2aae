//! Why a file was refused: the place, the fault, and whose fault it is.
//!
//! A [`Fault`] says what was found and what was expected; [`GgufError`] adds the path and the byte offset, once.
//! Text from the file is shortened and escaped before it enters an error, so a message is always one line.

use std::fmt;
use std::io;
use std::path::{Path, PathBuf};

use crate::TensorType;
use crate::foreign::Foreign;
use crate::rules::{MAX_ALIGNMENT, MAX_ARRAY_DEPTH, MAX_DIMS, MAX_KEY_BYTES, MAX_TENSOR_NAME_BYTES};

/// A file could not be read, or is not a usable GGUF file.
#[derive(Debug, thiserror::Error)]
pub enum GgufError {
    /// The operating system refused.
    #[error("{path}: cannot {doing}: {source}", path = path.display())]
    Io {
        /// The file.
        path: PathBuf,
        /// What was attempted, as a verb: `open`, `read`, `map`.
        doing: &'static str,
        /// The system's own error.
        source: io::Error,
    },
    /// The path names something that holds no bytes of its own, such as a directory.
    #[error("{path}: {found}, expected a GGUF file", path = path.display())]
    NotAFile {
        /// The path.
        path: PathBuf,
        /// What is there, in words.
        found: &'static str,
    },
    /// The bytes at `offset` break a rule of the format.
    #[error("{place}at byte {offset}: {fault}", place = Place(path.as_deref()))]
    Refused {
        /// The file, or `None` for bytes in memory.
        path: Option<PathBuf>,
        /// Where in that file the offending value starts.
        offset: u64,
        /// What is wrong.
        fault: Fault,
    },
    /// The parts of a split model do not make one model.
    #[error("{place}{fault}", place = Place(path.as_deref()))]
    Split {
        /// The part that does not fit, or `None` for bytes in memory.
        path: Option<PathBuf>,
        /// What is wrong.
        fault: SplitFault,
    },
}

/// Whose fault a refusal is; decides exit codes and what to tell the user.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum FaultClass {
    /// The operating system, a wrong path, or a missing part.
    Access,
    /// Another kind of file.
    NotGguf,
    /// A GGUF file of a kind that this reader does not do: version, byte order, tensor type.
    Unsupported,
    /// The file ends before what it claims to hold: an interrupted download, or a wrong claim.
    Truncated,
    /// The file contradicts the format or itself.
    Malformed,
}

/// One broken rule of the file format.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
pub enum Fault {
    /// The file starts with something other than `GGUF`.
    #[error("not a GGUF file: {found}")]
    NotGguf {
        /// What the file seems to be.
        found: Foreign,
    },
    /// A little-endian file of a version that is not 2 or 3.
    #[error("GGUF version {version} is not supported, expected 2 or 3")]
    Version {
        /// The version in the file.
        version: u32,
    },
    /// A file for big-endian machines.
    #[error("big-endian GGUF (version {version}) is not supported, expected little-endian")]
    BigEndian {
        /// The version, read in the file's own byte order.
        version: u32,
    },
    /// The file ends before `what` does.
    #[error("the file ends inside {what}: {needed} bytes needed, {available} left")]
    Truncated {
        /// What was being read.
        what: String,
        /// Bytes that it takes.
        needed: u64,
        /// Bytes from its start to the end of the file.
        available: u64,
    },
    /// A claimed number of things that cannot fit into the rest of the file.
    #[error("{claimed} {what} claimed, but the rest of the file has room for at most {at_most}")]
    Count {
        /// What is counted.
        what: String,
        /// The number in the file.
        claimed: u64,
        /// How many of the smallest possible size would fit.
        at_most: u64,
    },
    /// A metadata key that is empty or too long.
    #[error("a metadata key of {len} bytes, expected 1 to {MAX_KEY_BYTES}")]
    KeyLength {
        /// Its length.
        len: u64,
    },
    /// Text that is not UTF-8.
    #[error("{what} is not UTF-8 (invalid from its byte {valid_up_to})")]
    NotUtf8 {
        /// Which text.
        what: String,
        /// How many leading bytes are valid.
        valid_up_to: usize,
    },
    /// The same key twice.
    #[error("metadata key '{key}' appears twice")]
    DuplicateKey {
        /// The key.
        key: String,
    },
    /// A value type that the format does not have.
    #[error("{what} has unknown value type {id}, expected 0 to 12")]
    ValueType {
        /// The value, by its key.
        what: String,
        /// The id in the file.
        id: u32,
    },
    /// A truth value other than 0 and 1.
    #[error("{what} is a truth value of {found}, expected 0 or 1")]
    Bool {
        /// The value, by its key.
        what: String,
        /// The byte in the file.
        found: u8,
    },
    /// Arrays inside arrays beyond the limit.
    #[error("{what} nests arrays deeper than {MAX_ARRAY_DEPTH} levels")]
    ArrayDepth {
        /// The value, by its key.
        what: String,
    },
    /// `general.alignment` is not a usable alignment.
    #[error("general.alignment is {found}, expected a power of two from 8 to {MAX_ALIGNMENT}")]
    Alignment {
        /// The value or its type.
        found: String,
    },
    /// A tensor name that is empty or too long.
    #[error("a tensor name of {len} bytes, expected 1 to {MAX_TENSOR_NAME_BYTES}")]
    TensorNameLength {
        /// Its length.
        len: u64,
    },
    /// Two tensors of one name.
    #[error("tensor '{name}' appears twice")]
    DuplicateTensor {
        /// The name.
        name: String,
    },
    /// Too few or too many dimensions.
    #[error("tensor '{name}' has {n_dims} dimensions, expected 1 to {MAX_DIMS}")]
    Dims {
        /// The tensor.
        name: String,
        /// The number in the file.
        n_dims: u32,
    },
    /// A dimension without elements.
    #[error("tensor '{name}' has dimension {dim} of size 0, expected at least 1")]
    ZeroDim {
        /// The tensor.
        name: String,
        /// Which dimension.
        dim: usize,
    },
    /// A size that does not fit into memory addresses.
    #[error("tensor '{name}' of shape {shape:?} is larger than any memory")]
    TensorSize {
        /// The tensor.
        name: String,
        /// The shape in the file.
        shape: Vec<u64>,
    },
    /// A tensor type that GGML never had, or has got since.
    #[error("tensor '{name}' has unknown type {id}")]
    TensorType {
        /// The tensor.
        name: String,
        /// The id in the file.
        id: u32,
    },
    /// A tensor type that GGML had once.
    #[error("tensor '{name}' has type {id} ({was}, removed from GGML)")]
    RemovedTensorType {
        /// The tensor.
        name: String,
        /// The id in the file.
        id: u32,
        /// The type's former name.
        was: &'static str,
    },
    /// Rows that are not whole blocks.
    #[error(
        "tensor '{name}' has rows of {row} elements, expected a multiple of {block} for {dtype}",
        block = dtype.block_elems()
    )]
    PartialBlock {
        /// The tensor.
        name: String,
        /// Elements of a row.
        row: u64,
        /// The type.
        dtype: TensorType,
    },
    /// A tensor's data starts off the alignment.
    #[error("tensor '{name}' has data offset {at}, expected a multiple of {alignment}")]
    MisalignedOffset {
        /// The tensor.
        name: String,
        /// Its offset from the start of the data section.
        at: u64,
        /// The file's alignment.
        alignment: u64,
    },
    /// A tensor's data ends after the file does.
    #[error(
        "tensor '{name}' needs {bytes} bytes from data offset {at}, but the data section has {available}"
    )]
    DataOutOfFile {
        /// The tensor.
        name: String,
        /// Its offset from the start of the data section.
        at: u64,
        /// Its size.
        bytes: u64,
        /// Bytes from the start of the data section to the end of the file.
        available: u64,
    },
    /// Two tensors that share bytes.
    #[error("the data of tensor '{name}' overlaps that of tensor '{other}'")]
    Overlap {
        /// The tensor that starts later in the file.
        name: String,
        /// The one that it runs into.
        other: String,
    },
}

/// Why the parts of a split model do not fit together.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
pub enum SplitFault {
    /// A `split.*` key has an unusable value.
    #[error("split key '{key}' is {found}, expected {expected}")]
    Key {
        /// The key.
        key: &'static str,
        /// What is there.
        found: String,
        /// What should be.
        expected: String,
    },
    /// The file is a part, but its name does not lead to the others.
    #[error(
        "this is one of {count} parts, but its name does not end in '{suffix}', so the others cannot be found"
    )]
    Name {
        /// The number of parts.
        count: u32,
        /// What this part's name should end in.
        suffix: String,
    },
    /// A part is not beside the others.
    #[error("part {number} of {count} is missing")]
    MissingPart {
        /// Its number, from 1.
        number: u32,
        /// The number of parts.
        count: u32,
    },
    /// The parts' tensors are not as many as promised.
    #[error("the parts hold {found} tensors, but split.tensors.count says {expected}")]
    TensorCount {
        /// Tensors in all parts together.
        found: usize,
        /// The number promised.
        expected: u64,
    },
    /// A tensor that is in two parts.
    #[error("tensor '{name}' is also in part {other}")]
    DuplicateTensor {
        /// The tensor.
        name: String,
        /// The other part's number, from 1.
        other: usize,
    },
}

impl GgufError {
    /// Whose fault it is.
    pub fn class(&self) -> FaultClass {
        match self {
            GgufError::Io { .. } | GgufError::NotAFile { .. } => FaultClass::Access,
            GgufError::Refused { fault, .. } => fault.class(),
            GgufError::Split { fault, .. } => fault.class(),
        }
    }

    /// The file, unless the bytes came from memory.
    pub fn path(&self) -> Option<&Path> {
        match self {
            GgufError::Io { path, .. } | GgufError::NotAFile { path, .. } => Some(path),
            GgufError::Refused { path, .. } | GgufError::Split { path, .. } => path.as_deref(),
        }
    }
}

impl Fault {
    /// Whose fault it is.
    pub fn class(&self) -> FaultClass {
        match self {
            Fault::NotGguf { .. } => FaultClass::NotGguf,
            Fault::Version { .. }
            | Fault::BigEndian { .. }
            | Fault::TensorType { .. }
            | Fault::RemovedTensorType { .. } => FaultClass::Unsupported,
            Fault::Truncated { .. } | Fault::Count { .. } | Fault::DataOutOfFile { .. } => {
                FaultClass::Truncated
            }
            _ => FaultClass::Malformed,
        }
    }
}

impl SplitFault {
    /// Whose fault it is.
    pub fn class(&self) -> FaultClass {
        match self {
            SplitFault::Name { .. } | SplitFault::MissingPart { .. } => FaultClass::Access,
            _ => FaultClass::Malformed,
        }
    }
}

/// Text from a file as it may enter a message: escaped, and cut after 80 characters.
pub(crate) fn shown(text: &str) -> String {
    const MAX_CHARS: usize = 80;
    let mut out: String = text.chars().take(MAX_CHARS).flat_map(char::escape_debug).collect();
    if text.chars().nth(MAX_CHARS).is_some() {
        out.push('…');
    }
    out
}

/// `path: `, or nothing for bytes in memory.
struct Place<'a>(Option<&'a Path>);

impl fmt::Display for Place<'_> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        self.0.map_or(Ok(()), |path| write!(f, "{}: ", path.display()))
    }
}
