//! SHA-256 of a file, read once from front to back.

use std::fmt::Write;
use std::fs::File;
use std::io::{self, Read};
use std::path::Path;

use minfer_gguf::GgufError;
use sha2::{Digest, Sha256};

use crate::error::EngineError;

const BLOCK_BYTES: usize = 1 << 20;

/// In lower-case hexadecimal; `read` sees the size of each piece.
pub(super) fn sha256(path: &Path, read: &mut dyn FnMut(u64)) -> Result<String, EngineError> {
    let io = |source| failed(path, source);
    let mut file = File::open(path).map_err(io)?;
    let (mut digest, mut block) = (Sha256::new(), vec![0; BLOCK_BYTES]);
    loop {
        match file.read(&mut block) {
            Ok(0) => break,
            Ok(n) => {
                digest.update(&block[..n]);
                read(n as u64);
            }
            Err(error) if error.kind() == io::ErrorKind::Interrupted => {}
            Err(error) => return Err(io(error)),
        }
    }
    let mut hex = String::with_capacity(64);
    for byte in digest.finalize() {
        // Writing to a string cannot fail.
        let _ = write!(hex, "{byte:02x}");
    }
    Ok(hex)
}

pub(super) fn failed(path: &Path, source: io::Error) -> EngineError {
    GgufError::Io { path: path.to_owned(), doing: "read", source }.into()
}
