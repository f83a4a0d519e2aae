//! Reading and writing a file of packed weights.

use std::fs::{self, File};
use std::io::{self, Write};
use std::path::Path;
use std::sync::atomic::{AtomicBool, Ordering};

use tempfile::NamedTempFile;

use super::contents::{CHUNK_BYTES, Contents};
use super::mapping::MappedFile;
use crate::pool::{MAX_PIECES, Pool};

/// How names of files begin that are not complete.
pub(super) const TEMPORARY: &str = ".packing-";

/// There is no file to use.
pub(super) enum OpenError {
    Missing,
    Io(io::Error),
    /// It is not what its name says.
    Damaged,
}

/// Maps the file and checks every byte of it, on all threads.
pub(super) fn open(path: &Path, contents: &Contents, pool: &Pool) -> Result<MappedFile, OpenError> {
    // Asked before opening: opening a named pipe would wait for a writer.
    let about = fs::metadata(path).map_err(|e| match e.kind() {
        io::ErrorKind::NotFound => OpenError::Missing,
        _ => OpenError::Io(e),
    })?;
    if !about.is_file() {
        return Err(OpenError::Io(io::Error::other("it is not a file")));
    }
    let file = File::open(path).map_err(OpenError::Io)?;
    let about = file.metadata().map_err(OpenError::Io)?;
    if about.len() != contents.file_bytes() {
        return Err(OpenError::Damaged);
    }
    let map = MappedFile::new(&file).map_err(OpenError::Io)?;
    // Mapped is what the file was at that moment.
    let (weights, table) = map.bytes().split_at_checked(contents.n_bytes()).ok_or(OpenError::Damaged)?;
    let sums = contents.sums(table).ok_or(OpenError::Damaged)?;
    match all_equal(weights, &sums, pool) {
        true => Ok(map),
        false => Err(OpenError::Damaged),
    }
}

fn all_equal(weights: &[u8], sums: &[u32], pool: &Pool) -> bool {
    let equal = AtomicBool::new(true);
    let chunks: Vec<_> = weights.chunks(CHUNK_BYTES).zip(sums).collect();
    for chunks in chunks.chunks(MAX_PIECES) {
        pool.run(chunks.len(), &|i| {
            let (chunk, sum) = chunks[i];
            if crc32fast::hash(chunk) != *sum {
                equal.store(false, Ordering::Relaxed);
            }
        });
    }
    equal.into_inner()
}

/// A file that is being written, matrix after matrix.
pub(super) struct Writer {
    file: NamedTempFile,
    /// Bytes of the next chunk.
    stage: Vec<u8>,
    /// Bytes before it.
    n_written: usize,
    sums: Vec<u32>,
}

impl Writer {
    pub(super) fn create(folder: &Path) -> io::Result<Writer> {
        let file = tempfile::Builder::new().prefix(TEMPORARY).tempfile_in(folder)?;
        // Tells others that it is not left behind. Where files cannot be locked, its age does.
        let _ = file.as_file().try_lock();
        Ok(Writer { file, stage: Vec::with_capacity(CHUNK_BYTES), n_written: 0, sums: Vec::new() })
    }

    /// The next matrix; an error if it is not its turn.
    pub(super) fn append(&mut self, contents: &Contents, name: &str, packed: &[u8]) -> io::Result<()> {
        let at = self.n_written + self.stage.len();
        match contents.named(name) {
            Some(piece) if piece.offset >= at && piece.len == packed.len() => {
                self.put(&vec![0; piece.offset - at])?;
                self.put(packed)
            }
            _ => Err(io::Error::other(format!("'{name}' was loaded out of order"))),
        }
    }

    /// Whole chunks go from where they are. Each is one write at a multiple of its size, so that the system can give it a
    /// huge page.
    fn put(&mut self, mut bytes: &[u8]) -> io::Result<()> {
        while !bytes.is_empty() {
            if self.stage.is_empty() && bytes.len() >= CHUNK_BYTES {
                let (chunk, rest) = bytes.split_at(CHUNK_BYTES);
                bytes = rest;
                self.write(chunk)?;
                continue;
            }
            let (now, rest) = bytes.split_at(bytes.len().min(CHUNK_BYTES - self.stage.len()));
            bytes = rest;
            self.stage.extend_from_slice(now);
            if self.stage.len() == CHUNK_BYTES {
                self.flush()?;
            }
        }
        Ok(())
    }

    fn flush(&mut self) -> io::Result<()> {
        let mut stage = std::mem::take(&mut self.stage);
        let written = self.write(&stage);
        stage.clear();
        self.stage = stage;
        written
    }

    fn write(&mut self, chunk: &[u8]) -> io::Result<()> {
        self.sums.push(crc32fast::hash(chunk));
        self.n_written += chunk.len();
        self.file.write_all(chunk)
    }

    /// Gives the file its name; an error if a matrix is missing. There is no wait for the disk: what a loss of power leaves
    /// of the file fails its checksums.
    pub(super) fn finish(mut self, contents: &Contents, path: &Path) -> io::Result<()> {
        if self.n_written + self.stage.len() != contents.n_bytes() {
            return Err(io::Error::other("not all weights were loaded"));
        }
        if !self.stage.is_empty() {
            self.flush()?;
        }
        let table = contents.table(&self.sums);
        self.file.write_all(&table)?;
        self.file.persist(path).map_err(|e| e.error)?;
        Ok(())
    }
}
