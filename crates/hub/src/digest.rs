//! SHA-256 in hexadecimal, of bytes and of files.

use std::fs::File;
use std::io::{self, Read};
use std::path::Path;

use sha2::{Digest, Sha256};

/// How much is read and written at once, in bytes.
pub(crate) const BLOCK_BYTES: usize = 1 << 20;

pub(crate) fn sha256_hex(bytes: &[u8]) -> String {
    hex(&Sha256::digest(bytes))
}

pub(crate) fn hex(bytes: &[u8]) -> String {
    bytes.iter().map(|byte| format!("{byte:02x}")).collect()
}

/// Whether `text` has the shape of a SHA-256: 64 hexadecimal digits.
pub(crate) fn is_sha256(text: &str) -> bool {
    text.len() == 64 && text.bytes().all(|byte| byte.is_ascii_hexdigit())
}

/// SHA-256 of a file; `on_bytes` is told how many bytes were read so far.
pub(crate) fn sha256_of(path: &Path, on_bytes: &mut dyn FnMut(u64)) -> io::Result<String> {
    let mut file = File::open(path)?;
    let (mut digest, mut block, mut done) = (Sha256::new(), vec![0; BLOCK_BYTES], 0);
    loop {
        match read_block(&mut file, &mut block)? {
            0 => return Ok(hex(&digest.finalize())),
            n => {
                digest.update(&block[..n]);
                done += n as u64;
                on_bytes(done);
            }
        }
    }
}

/// Fills `block` as far as the source goes, and returns how far that is: 0 at the end.
pub(crate) fn read_block(source: &mut dyn Read, block: &mut [u8]) -> io::Result<usize> {
    let mut filled = 0;
    while filled < block.len() {
        match source.read(&mut block[filled..]) {
            Ok(0) => break,
            Ok(n) => filled += n,
            Err(error) if error.kind() == io::ErrorKind::Interrupted => {}
            Err(error) => return Err(error),
        }
    }
    Ok(filled)
}

#[cfg(test)]
mod tests {
    use super::*;

    const ABC: &str = "ba7816bf8f01cfea414140de5dae2223b00361a396177a9cb410ff61f20015ad";

    #[test]
    fn the_standard_test_vector_from_memory_and_from_a_file() {
        assert_eq!(sha256_hex(b"abc"), ABC);
        let folder = tempfile::tempdir().unwrap();
        let path = folder.path().join("abc");
        std::fs::write(&path, b"abc").unwrap();
        let mut seen = Vec::new();
        assert_eq!(sha256_of(&path, &mut |done| seen.push(done)).unwrap(), ABC);
        assert_eq!(seen, [3]);
    }

    #[test]
    fn shape_of_a_digest() {
        assert!(is_sha256(ABC));
        assert!(!is_sha256(&ABC[1..]));
        assert!(!is_sha256(&ABC.replace('b', "x")));
    }
}
