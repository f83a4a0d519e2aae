//! Arrays for NumPy: one in a `.npy` file, or many in an `.npz` archive (NEP 1, format version 1.0).
//!
//! Dimensions are given as everywhere in minfer, fastest first; NumPy's shape is the reverse. Files appear under their
//! name only when complete. Arrays of an archive go to the file one by one, so it may be larger than memory.

use std::io::{self, Seek, SeekFrom, Write};
use std::path::Path;

use half::f16;
use minfer_gguf::AtomicFile;
use zip::write::SimpleFileOptions;
use zip::{CompressionMethod, ZipWriter};

/// NumPy's own limit.
const MAX_DIMS: usize = 64;

/// The header's length, with magic and version, is a multiple of this.
const ALIGNMENT: usize = 64;

/// Bytes that are converted at a time.
const BUFFER_BYTES: usize = 8192;

/// Zip archives address larger members with 64-bit fields, which must be announced before writing.
const ZIP64_BYTES: u64 = u32::MAX as u64 - ALIGNMENT as u64 * 1024;

/// Why an array wasn't written.
#[derive(Debug, thiserror::Error)]
pub enum NpzError {
    /// Dimensions and data contradict each other.
    #[error("{found} elements for dimensions {dims:?}")]
    Shape {
        /// Dimensions, fastest first.
        dims: Vec<usize>,
        /// Number of elements given.
        found: usize,
    },
    /// More dimensions than NumPy takes.
    #[error("{0} dimensions; NumPy takes {MAX_DIMS}")]
    TooManyDims(usize),
    /// Two arrays of an archive have the same name, or one has none.
    #[error("an array named {0:?} can't be added: the name is empty or taken")]
    Name(String),
    /// The archive can't be written.
    #[error(transparent)]
    Zip(#[from] zip::result::ZipError),
    /// The file can't be written.
    #[error(transparent)]
    Io(#[from] io::Error),
}

/// Elements of an array, in memory order.
#[derive(Clone, Copy, Debug)]
pub enum Elements<'a> {
    /// 32-bit floats.
    F32(&'a [f32]),
    /// 16-bit floats.
    F16(&'a [f16]),
    /// 32-bit integers.
    I32(&'a [i32]),
}

impl Elements<'_> {
    fn len(&self) -> usize {
        match self {
            Elements::F32(x) => x.len(),
            Elements::F16(x) => x.len(),
            Elements::I32(x) => x.len(),
        }
    }

    fn element_bytes(&self) -> usize {
        match self {
            Elements::F32(_) | Elements::I32(_) => 4,
            Elements::F16(_) => 2,
        }
    }

    fn descr(&self) -> &'static str {
        match self {
            Elements::F32(_) => "<f4",
            Elements::F16(_) => "<f2",
            Elements::I32(_) => "<i4",
        }
    }

    fn write(&self, out: &mut impl Write) -> io::Result<()> {
        match self {
            Elements::F32(x) => write_le(x, f32::to_le_bytes, out),
            Elements::F16(x) => write_le(x, f16::to_le_bytes, out),
            Elements::I32(x) => write_le(x, i32::to_le_bytes, out),
        }
    }
}

/// Writes one array to `path`. The product of `dims` (fastest first; none is a scalar) must be the number of elements.
pub fn write_npy(path: &Path, dims: &[usize], elements: Elements<'_>) -> Result<(), NpzError> {
    check_shape(dims, elements)?;
    let mut file = AtomicFile::create(path)?;
    write_array(&mut file, dims, elements)?;
    Ok(file.commit()?)
}

/// One array of 32-bit floats that is written piece by piece, so it may be larger than memory. Without
/// [`finish`](Self::finish) no file appears.
pub struct NpyWriter {
    file: AtomicFile,
    dims: Vec<usize>,
    n_written: usize,
}

impl NpyWriter {
    /// Begins the array that will be `path`; `dims` as for [`write_npy`].
    pub fn create(path: &Path, dims: &[usize]) -> Result<Self, NpzError> {
        if dims.len() > MAX_DIMS {
            return Err(NpzError::TooManyDims(dims.len()));
        }
        let mut file = AtomicFile::create(path)?;
        file.write_all(&header(dims, Elements::F32(&[]).descr()))?;
        Ok(NpyWriter { file, dims: dims.to_vec(), n_written: 0 })
    }

    /// Adds the next elements, in memory order.
    pub fn append(&mut self, elements: &[f32]) -> Result<(), NpzError> {
        self.n_written += elements.len();
        Ok(Elements::F32(elements).write(&mut self.file)?)
    }

    /// Completes the file and gives it its name. Errors, and leaves no file, if more or fewer elements came than the
    /// dimensions say.
    pub fn finish(self) -> Result<(), NpzError> {
        check_count(&self.dims, self.n_written)?;
        Ok(self.file.commit()?)
    }
}

/// An archive being written. Without [`finish`](Self::finish) no file appears.
pub struct NpzWriter {
    zip: ZipWriter<UntilItFails>,
    names: std::collections::HashSet<String>,
    method: CompressionMethod,
}

impl NpzWriter {
    /// Begins the archive that will be `path`. Arrays are stored as they are, or `deflated`: smaller and much slower.
    pub fn create(path: &Path, deflated: bool) -> Result<Self, NpzError> {
        let method = if deflated { CompressionMethod::Deflated } else { CompressionMethod::Stored };
        let zip = ZipWriter::new(UntilItFails { file: AtomicFile::create(path)?, has_failed: false });
        Ok(NpzWriter { zip, names: Default::default(), method })
    }

    /// Writes an array that NumPy will know as `name`. An error about name or shape leaves the archive as it was.
    pub fn add(&mut self, name: &str, dims: &[usize], elements: Elements<'_>) -> Result<(), NpzError> {
        check_shape(dims, elements)?;
        if name.is_empty() || !self.names.insert(name.to_owned()) {
            return Err(NpzError::Name(name.to_owned()));
        }
        let n_bytes = elements.len() as u64 * elements.element_bytes() as u64;
        let options = SimpleFileOptions::default()
            .compression_method(self.method)
            .large_file(n_bytes > ZIP64_BYTES)
            .last_modified_time(zip::DateTime::default());
        self.zip.start_file(format!("{name}.npy"), options)?;
        Ok(write_array(&mut self.zip, dims, elements)?)
    }

    /// Completes the archive and gives it its name.
    pub fn finish(self) -> Result<(), NpzError> {
        Ok(self.zip.finish()?.commit()?)
    }
}

/// A file that swallows what comes after an error. A `ZipWriter` that is dropped unfinished writes the end of the
/// archive, and on standard error what it thinks of a disk that is still full; the file does not appear either way.
struct UntilItFails {
    file: AtomicFile,
    has_failed: bool,
}

impl UntilItFails {
    fn attempt<T>(
        &mut self,
        swallowed: T,
        write: impl FnOnce(&mut AtomicFile) -> io::Result<T>,
    ) -> io::Result<T> {
        if self.has_failed {
            return Ok(swallowed);
        }
        let result = write(&mut self.file);
        self.has_failed = result.is_err();
        result
    }

    /// Errors if anything was swallowed.
    fn commit(self) -> io::Result<()> {
        if self.has_failed { Err(io::Error::other("an earlier write failed")) } else { self.file.commit() }
    }
}

impl Write for UntilItFails {
    fn write(&mut self, bytes: &[u8]) -> io::Result<usize> {
        self.attempt(bytes.len(), |file| file.write(bytes))
    }

    fn flush(&mut self) -> io::Result<()> {
        self.attempt((), AtomicFile::flush)
    }
}

impl Seek for UntilItFails {
    fn seek(&mut self, to: SeekFrom) -> io::Result<u64> {
        self.attempt(0, |file| file.seek(to))
    }
}

fn check_shape(dims: &[usize], elements: Elements<'_>) -> Result<(), NpzError> {
    if dims.len() > MAX_DIMS {
        return Err(NpzError::TooManyDims(dims.len()));
    }
    check_count(dims, elements.len())
}

fn check_count(dims: &[usize], found: usize) -> Result<(), NpzError> {
    let product = dims.iter().try_fold(1usize, |product, &dim| product.checked_mul(dim));
    if product == Some(found) { Ok(()) } else { Err(NpzError::Shape { dims: dims.to_vec(), found }) }
}

fn write_array(out: &mut impl Write, dims: &[usize], elements: Elements<'_>) -> io::Result<()> {
    out.write_all(&header(dims, elements.descr()))?;
    elements.write(out)
}

/// Magic, version 1.0, length (u16, little-endian), then a Python dictionary padded with spaces and ended by a newline.
fn header(dims: &[usize], descr: &str) -> Vec<u8> {
    let shape: String = dims.iter().rev().map(|dim| format!("{dim}, ")).collect();
    // Python writes (), (3,), (2, 3).
    let shape = if dims.len() == 1 { shape.trim_end() } else { shape.trim_end_matches(", ") };
    let dictionary = format!("{{'descr': '{descr}', 'fortran_order': False, 'shape': ({shape}), }}");
    let prefix_bytes = 10;
    let total = (prefix_bytes + dictionary.len() + 1).next_multiple_of(ALIGNMENT);
    // At most MAX_DIMS numbers of 20 digits: far below 65536.
    let dictionary_bytes = (total - prefix_bytes) as u16;

    let mut header = b"\x93NUMPY\x01\x00".to_vec();
    header.extend(dictionary_bytes.to_le_bytes());
    header.extend(dictionary.as_bytes());
    header.resize(total - 1, b' ');
    header.push(b'\n');
    header
}

fn write_le<T: Copy, const N: usize>(
    values: &[T],
    to_le_bytes: impl Fn(T) -> [u8; N],
    out: &mut impl Write,
) -> io::Result<()> {
    let mut buffer = Vec::with_capacity(BUFFER_BYTES);
    for chunk in values.chunks(BUFFER_BYTES / N) {
        buffer.clear();
        buffer.extend(chunk.iter().flat_map(|&value| to_le_bytes(value)));
        out.write_all(&buffer)?;
    }
    Ok(())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_header_is_numpys_to_the_byte() {
        let expected = b"\x93NUMPY\x01\x00v\x00{'descr': '<f4', 'fortran_order': False, 'shape': (2, 3), }\
            \x20                                                         \n";
        let found = header(&[3, 2], "<f4");
        assert_eq!(String::from_utf8_lossy(&found), String::from_utf8_lossy(expected));
        assert_eq!(found.len(), 128);
    }

    #[test]
    fn shapes_are_spelled_as_python_does() {
        for (dims, shape) in [(&[][..], "()"), (&[3], "(3,)"), (&[0, 7], "(7, 0)"), (&[1, 2, 3], "(3, 2, 1)")]
        {
            let text = String::from_utf8_lossy(&header(dims, "<i4")[10..]).into_owned();
            assert!(text.contains(&format!("'shape': {shape}, }}")), "{text}");
            assert!(text.ends_with('\n') && (text.len() + 10).is_multiple_of(ALIGNMENT), "{text:?}");
        }
        let widest = header(&[usize::MAX; MAX_DIMS], "<f4");
        assert_eq!(usize::from(u16::from_le_bytes([widest[8], widest[9]])) + 10, widest.len());
    }

    #[test]
    fn a_shape_that_is_not_the_datas_is_refused() {
        let folder = tempfile::tempdir().unwrap();
        let path = folder.path().join("a.npy");
        for dims in [&[2, 2][..], &[], &[usize::MAX, 3], &[0]] {
            let error = write_npy(&path, dims, Elements::F32(&[1.0, 2.0, 3.0])).unwrap_err();
            assert!(matches!(error, NpzError::Shape { found: 3, .. }), "{error}");
        }
        let error = write_npy(&path, &[1; 65], Elements::I32(&[1])).unwrap_err();
        assert!(matches!(error, NpzError::TooManyDims(65)));
        assert_eq!(std::fs::read_dir(&folder).unwrap().count(), 0);
    }

    #[test]
    fn an_array_written_in_pieces_is_the_same_file() {
        let folder = tempfile::tempdir().unwrap();
        let (whole, pieces) = (folder.path().join("whole.npy"), folder.path().join("pieces.npy"));
        write_npy(&whole, &[2, 2], Elements::F32(&[1.0, 2.0, 3.0, 4.0])).unwrap();
        let mut npy = NpyWriter::create(&pieces, &[2, 2]).unwrap();
        npy.append(&[1.0]).unwrap();
        npy.append(&[2.0, 3.0, 4.0]).unwrap();
        assert!(!pieces.exists());
        npy.finish().unwrap();
        assert_eq!(std::fs::read(whole).unwrap(), std::fs::read(pieces).unwrap());
    }

    #[test]
    fn an_array_with_elements_missing_does_not_appear() {
        let folder = tempfile::tempdir().unwrap();
        let mut npy = NpyWriter::create(&folder.path().join("a.npy"), &[2, 2]).unwrap();
        npy.append(&[1.0; 3]).unwrap();
        assert!(matches!(npy.finish(), Err(NpzError::Shape { found: 3, .. })));
        assert_eq!(std::fs::read_dir(&folder).unwrap().count(), 0);
    }

    #[test]
    fn an_archive_appears_when_finished_and_refuses_a_name_twice() {
        let folder = tempfile::tempdir().unwrap();
        let path = folder.path().join("a.npz");
        drop(NpzWriter::create(&path, false).unwrap());
        assert_eq!(std::fs::read_dir(&folder).unwrap().count(), 0);

        let mut npz = NpzWriter::create(&path, false).unwrap();
        npz.add("x", &[1], Elements::I32(&[5])).unwrap();
        assert!(matches!(npz.add("x", &[1], Elements::I32(&[6])), Err(NpzError::Name(name)) if name == "x"));
        assert!(matches!(npz.add("", &[1], Elements::I32(&[6])), Err(NpzError::Name(_))));
        assert!(!path.exists());
        npz.finish().unwrap();
        assert_eq!(std::fs::read_dir(&folder).unwrap().count(), 1);
        assert!(std::fs::read(&path).unwrap().starts_with(b"PK"));
    }
}
