//! An open model: one file or several parts, merged into one tensor table.

use std::collections::HashMap;
use std::fs::File;
use std::ops::Range;
use std::path::{Path, PathBuf};

use crate::cursor::At;
use crate::error::{GgufError, SplitFault, shown};
use crate::identity;
use crate::mapped::{MappedBytes, MappedFile};
use crate::parse::{Header, parse};
use crate::split::{self, SplitKeys};
use crate::storage::Storage;
use crate::{Metadata, TensorType};

/// How to open a file.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct OpenOptions {
    /// Map the file (the default) instead of reading it into memory.
    pub mmap: bool,
}

impl Default for OpenOptions {
    fn default() -> Self {
        OpenOptions { mmap: true }
    }
}

/// An open GGUF model. Immutable data behind checked offsets, so one `Arc<Gguf>` serves all threads.
#[derive(Debug)]
pub struct Gguf {
    parts: Vec<Part>,
    metadata: Metadata,
    tensors: Vec<TensorInfo>,
    by_name: HashMap<String, usize>,
}

/// One file of a model.
#[derive(Debug)]
struct Part {
    path: Option<PathBuf>,
    storage: Storage,
    version: u32,
    alignment: u64,
    identity: Option<[u8; 48]>,
}

/// One tensor of a model.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct TensorInfo {
    /// Its name, unique in the model.
    pub name: String,
    /// 1 to 4 sizes, none of them zero; dimension 0 is fastest, and a whole number of blocks.
    pub shape: Vec<usize>,
    /// How its elements are stored.
    pub dtype: TensorType,
    offset: usize,
    n_bytes: usize,
    part: usize,
}

/// One file of a model, as the user should see it.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct FileInfo<'a> {
    /// Where it is, or `None` for bytes in memory.
    pub path: Option<&'a Path>,
    /// Its size in bytes.
    pub n_bytes: u64,
}

impl Gguf {
    /// Opens a model. If `path` is one part of a split model, all parts are opened.
    pub fn open(path: &Path) -> Result<Gguf, GgufError> {
        Gguf::open_with(path, &OpenOptions::default())
    }

    /// Opens a model as `options` say.
    pub fn open_with(path: &Path, options: &OpenOptions) -> Result<Gguf, GgufError> {
        let opened = open_part(path, options)?;
        let Some(split) = SplitKeys::read(&opened.1.metadata).map_err(|fault| in_split(path, fault))? else {
            return Gguf::merge(vec![opened]);
        };
        let paths = split::part_paths(path, split).map_err(|fault| in_split(path, fault))?;
        let mut given = Some(opened);
        let mut parts = Vec::new();
        for (number, part_path) in paths.iter().enumerate() {
            let this = if number == usize::from(split.no) { given.take() } else { None };
            let part = this.map_or_else(|| open_part(part_path, options), Ok)?;
            split.check_part(&part.1.metadata, number).map_err(|fault| in_split(part_path, fault))?;
            parts.push(part);
        }
        let model = Gguf::merge(parts)?;
        split.check_tensor_count(model.tensors.len()).map_err(|fault| in_split(path, fault))?;
        Ok(model)
    }

    /// Reads a model that is in memory. A part of a split model is refused, since the others cannot be found.
    pub fn from_bytes(bytes: Vec<u8>) -> Result<Gguf, GgufError> {
        let opened = parse_part(None, Storage::from_vec(bytes), None)?;
        let split = SplitKeys::read(&opened.1.metadata).and_then(|keys| match keys {
            Some(keys) => Err(SplitFault::Name { count: keys.count.into(), suffix: keys.suffix() }),
            None => Ok(()),
        });
        split.map_err(|fault| GgufError::Split { path: None, fault })?;
        Gguf::merge(vec![opened])
    }

    /// Joins parts; the metadata is the first part's.
    fn merge(opened: Vec<(Part, Header)>) -> Result<Gguf, GgufError> {
        let mut model = Gguf {
            parts: Vec::new(),
            metadata: Metadata::new(),
            tensors: Vec::new(),
            by_name: HashMap::new(),
        };
        for (index, (part, header)) in opened.into_iter().enumerate() {
            if index == 0 {
                model.metadata = header.metadata;
            }
            for t in header.tensors {
                model
                    .add(TensorInfo {
                        name: t.name,
                        shape: t.shape,
                        dtype: t.dtype,
                        offset: t.offset,
                        n_bytes: t.n_bytes,
                        part: index,
                    })
                    .map_err(|fault| GgufError::Split { path: part.path.clone(), fault })?;
            }
            model.parts.push(part);
        }
        Ok(model)
    }

    fn add(&mut self, tensor: TensorInfo) -> Result<(), SplitFault> {
        if let Some(earlier) = self.by_name.insert(tensor.name.clone(), self.tensors.len()) {
            let other = self.tensors[earlier].part + 1;
            return Err(SplitFault::DuplicateTensor { name: shown(&tensor.name), other });
        }
        self.tensors.push(tensor);
        Ok(())
    }

    /// The metadata, in writable form: for overrides that a user states on the command line.
    pub fn metadata_mut(&mut self) -> &mut Metadata {
        &mut self.metadata
    }

    /// The metadata; that of the first part, if there are several.
    pub fn metadata(&self) -> &Metadata {
        &self.metadata
    }

    /// All tensors, in file order, part after part.
    pub fn tensors(&self) -> impl ExactSizeIterator<Item = &TensorInfo> {
        self.tensors.iter()
    }

    /// The tensor of this name.
    pub fn tensor(&self, name: &str) -> Option<&TensorInfo> {
        self.by_name.get(name).map(|&i| &self.tensors[i])
    }

    /// The tensor's bytes: rows of blocks, exactly [`TensorInfo::n_bytes`] long.
    ///
    /// # Panics
    /// If `tensor` belongs to another model and its bytes lie outside this one.
    pub fn data(&self, tensor: &TensorInfo) -> &[u8] {
        &self.parts[tensor.part].storage.bytes()[tensor.offset..][..tensor.n_bytes]
    }

    /// Where the tensor's bytes are mapped; `None` if its file was read into memory.
    ///
    /// # Panics
    /// If `tensor` belongs to another model with more files.
    pub fn mapped(&self, tensor: &TensorInfo) -> Option<MappedBytes> {
        let mapping = self.parts[tensor.part].storage.mapping()?;
        let range = tensor.offset..tensor.offset + tensor.n_bytes;
        Some(MappedBytes { file: MappedFile::new(mapping.clone()), range })
    }

    /// Says that some of the tensor's bytes will not be read soon: a mapped file gives their pages back to the system.
    /// Reading them again is allowed and costs a read from the file.
    ///
    /// # Panics
    /// As [`Self::data`]; if the range ends outside the tensor.
    pub fn release(&self, tensor: &TensorInfo, bytes: Range<usize>) {
        let n_bytes = self.data(tensor)[bytes.clone()].len();
        self.parts[tensor.part].storage.release(tensor.offset + bytes.start, n_bytes);
    }

    /// The format version, 2 or 3; that of the first part.
    pub fn version(&self) -> u32 {
        self.parts[0].version
    }

    /// What tensor data is aligned to, in bytes; that of the first part.
    pub fn alignment(&self) -> u64 {
        self.parts[0].alignment
    }

    /// Bytes that tell this content from all other content of files on this machine, without reading it: equal identities
    /// mean equal tensors. `None` for bytes in memory, for files that changed within the last two seconds, and on systems that
    /// do not count changes of files.
    pub fn identity(&self) -> Option<Vec<u8>> {
        let parts: Option<Vec<_>> = self.parts.iter().map(|part| part.identity).collect();
        Some(parts?.concat())
    }

    /// The files of the model, in order.
    pub fn files(&self) -> impl ExactSizeIterator<Item = FileInfo<'_>> {
        self.parts
            .iter()
            .map(|part| FileInfo { path: part.path.as_deref(), n_bytes: part.storage.bytes().len() as u64 })
    }
}

impl TensorInfo {
    /// Number of elements.
    pub fn n_elems(&self) -> usize {
        self.shape.iter().product()
    }

    /// Number of rows: the product of all dimensions but the first.
    pub fn n_rows(&self) -> usize {
        self.shape[1..].iter().product()
    }

    /// Bytes of one row (dimension 0).
    pub fn row_bytes(&self) -> usize {
        self.n_bytes / self.n_rows()
    }

    /// Bytes of all elements.
    pub fn n_bytes(&self) -> usize {
        self.n_bytes
    }

    /// Where the data starts, in bytes from the start of its file.
    pub fn offset(&self) -> usize {
        self.offset
    }

    /// Which file holds the data: an index into [`Gguf::files`].
    pub fn part(&self) -> usize {
        self.part
    }
}

fn in_split(path: &Path, fault: SplitFault) -> GgufError {
    GgufError::Split { path: Some(path.to_owned()), fault }
}

fn open_part(path: &Path, options: &OpenOptions) -> Result<(Part, Header), GgufError> {
    let io = |doing| move |source| GgufError::Io { path: path.to_owned(), doing, source };
    // Asked before opening: opening a named pipe would wait for a writer.
    let about = std::fs::metadata(path).map_err(io("open"))?;
    if !about.is_file() {
        let found = if about.is_dir() { "a directory" } else { "not a regular file" };
        return Err(GgufError::NotAFile { path: path.to_owned(), found });
    }
    let mut file = File::open(path).map_err(io("open"))?;
    let storage = match options.mmap {
        // An empty file cannot be mapped everywhere, and is refused by the parser anyway.
        true if about.len() > 0 => Storage::map(&file).map_err(io("map"))?,
        _ => Storage::read(&mut file, about.len()).map_err(io("read"))?,
    };
    // Asked after mapping: what changed in between has another identity by then.
    let identity = file.metadata().ok().as_ref().and_then(identity::of);
    parse_part(Some(path.to_owned()), storage, identity)
}

fn parse_part(
    path: Option<PathBuf>,
    storage: Storage,
    identity: Option<[u8; 48]>,
) -> Result<(Part, Header), GgufError> {
    match parse(storage.bytes()) {
        Ok(header) => {
            let Header { version, alignment, .. } = header;
            let part = Part { path, storage, version, alignment, identity };
            Ok((part, header))
        }
        Err(At { offset, fault }) => Err(GgufError::Refused { path, offset: offset as u64, fault }),
    }
}
