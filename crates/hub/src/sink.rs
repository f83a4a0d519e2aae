//! The file that parts are joined into.

use std::fs::File;
use std::io::{self, Write};
use std::path::Path;

use sha2::{Digest, Sha256};

use crate::digest;

/// The first bytes of every GGUF file.
const GGUF_MAGIC: [u8; 4] = *b"GGUF";

/// A new file that counts and digests what is written to it.
pub(crate) struct Sink {
    file: File,
    digest: Sha256,
    size: u64,
    head: [u8; 4],
}

/// What a [`Sink`] took in.
#[derive(Debug, PartialEq, Eq)]
pub(crate) struct Written {
    pub(crate) size: u64,
    pub(crate) sha256: String,
    pub(crate) is_gguf: bool,
}

impl Sink {
    pub(crate) fn create(path: &Path) -> io::Result<Self> {
        Ok(Self { file: File::create_new(path)?, digest: Sha256::new(), size: 0, head: [0; 4] })
    }

    pub(crate) fn write(&mut self, block: &[u8]) -> io::Result<()> {
        self.file.write_all(block)?;
        self.digest.update(block);
        for (at, byte) in (self.size..4).zip(block) {
            self.head[at as usize] = *byte;
        }
        self.size += block.len() as u64;
        Ok(())
    }

    /// Bytes so far.
    pub(crate) fn size(&self) -> u64 {
        self.size
    }

    /// Flushes the file to the disk.
    pub(crate) fn finish(self) -> io::Result<Written> {
        self.file.sync_all()?;
        let sha256 = digest::hex(&self.digest.finalize());
        Ok(Written { size: self.size, sha256, is_gguf: self.head == GGUF_MAGIC })
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_is_written_in_pieces_is_counted_and_digested_as_one() {
        let folder = tempfile::tempdir().unwrap();
        let path = folder.path().join("out");
        let mut sink = Sink::create(&path).unwrap();
        for block in ["", "GG", "UFxy", "z"] {
            sink.write(block.as_bytes()).unwrap();
        }
        let sha256 = digest::sha256_hex(b"GGUFxyz");
        assert_eq!(sink.finish().unwrap(), Written { size: 7, sha256, is_gguf: true });
        assert_eq!(std::fs::read(&path).unwrap(), b"GGUFxyz");
    }

    #[test]
    fn other_beginnings_are_not_gguf() {
        for bytes in ["", "GGU", "xGGUF"] {
            let folder = tempfile::tempdir().unwrap();
            let mut sink = Sink::create(&folder.path().join("out")).unwrap();
            sink.write(bytes.as_bytes()).unwrap();
            assert!(!sink.finish().unwrap().is_gguf, "{bytes:?}");
        }
    }
}
