//! Reading and writing with a checksum at the end.

use std::io::{self, Read, Write};

use sha2::{Digest, Sha256};

/// Bytes of the checksum.
pub(super) const SUM_BYTES: usize = 32;

pub(super) struct HashedWriter<W> {
    out: W,
    hash: Sha256,
}

impl<W: Write> HashedWriter<W> {
    pub(super) fn new(out: W) -> Self {
        HashedWriter { out, hash: Sha256::new() }
    }

    /// Writes the checksum of all that was written.
    pub(super) fn finish(mut self) -> io::Result<W> {
        self.out.write_all(&self.hash.finalize())?;
        Ok(self.out)
    }
}

impl<W: Write> Write for HashedWriter<W> {
    fn write(&mut self, bytes: &[u8]) -> io::Result<usize> {
        let n = self.out.write(bytes)?;
        self.hash.update(&bytes[..n]);
        Ok(n)
    }

    fn flush(&mut self) -> io::Result<()> {
        self.out.flush()
    }
}

pub(super) struct HashedReader<R> {
    input: R,
    hash: Sha256,
}

impl<R: Read> HashedReader<R> {
    pub(super) fn new(input: R) -> Self {
        HashedReader { input, hash: Sha256::new() }
    }

    /// Reads the checksum, and compares it with that of all that was read before.
    pub(super) fn sum_is_right(mut self) -> io::Result<bool> {
        let mut sum = [0; SUM_BYTES];
        self.input.read_exact(&mut sum)?;
        Ok(self.hash.finalize()[..] == sum)
    }
}

impl<R: Read> Read for HashedReader<R> {
    fn read(&mut self, bytes: &mut [u8]) -> io::Result<usize> {
        let n = self.input.read(bytes)?;
        self.hash.update(&bytes[..n]);
        Ok(n)
    }
}
