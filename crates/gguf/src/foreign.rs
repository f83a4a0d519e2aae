//! Recognises the files that people hand over in place of a GGUF file.

use std::fmt;

/// What a file without the GGUF magic seems to be.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Foreign {
    /// No bytes at all.
    Empty,
    /// Fewer bytes than a magic.
    TooShort,
    /// Only zero bytes at the start, as a preallocated download has.
    Zeros,
    /// A web page.
    Html,
    /// The stub that git leaves where git-lfs is not installed.
    LfsPointer,
    /// Other text.
    Text,
    /// The safetensors format.
    Safetensors,
    /// A zip archive, which PyTorch checkpoints are.
    Zip,
    /// One of GGUF's predecessors, by its magic.
    LegacyGgml(&'static str),
    /// The magic in the wrong byte order.
    SwappedMagic,
    /// None of these; the first four bytes.
    Unknown([u8; 4]),
}

impl Foreign {
    /// What `bytes`, the start of a file without the GGUF magic, seem to be.
    pub(crate) fn recognise(bytes: &[u8]) -> Foreign {
        let start = &bytes[..bytes.len().min(512)];
        let Some(magic) = start.first_chunk::<4>() else {
            return if start.is_empty() { Foreign::Empty } else { Foreign::TooShort };
        };
        match magic {
            b"FUGG" => Foreign::SwappedMagic,
            b"PK\x03\x04" => Foreign::Zip,
            b"lmgg" | b"GGML" => Foreign::LegacyGgml("ggml"),
            b"fmgg" | b"GGMF" => Foreign::LegacyGgml("ggmf"),
            b"tjgg" | b"GGJT" => Foreign::LegacyGgml("ggjt"),
            b"algg" | b"GGLA" => Foreign::LegacyGgml("ggla"),
            _ if is_safetensors(bytes) => Foreign::Safetensors,
            _ if start.iter().all(|&b| b == 0) => Foreign::Zeros,
            _ => text_kind(start).unwrap_or(Foreign::Unknown(*magic)),
        }
    }
}

/// A safetensors file is a 64-bit length, then that many bytes of JSON.
fn is_safetensors(bytes: &[u8]) -> bool {
    let Some((len, json)) = bytes.split_first_chunk::<8>() else { return false };
    u64::from_le_bytes(*len) < 1 << 40 && json.starts_with(b"{\"")
}

fn text_kind(start: &[u8]) -> Option<Foreign> {
    let is_text = |b: &u8| matches!(b, b'\t' | b'\n' | b'\r' | 0x20..=0x7e | 0x80..);
    if !start.iter().all(is_text) {
        return None;
    }
    let head = start.trim_ascii_start().to_ascii_lowercase();
    Some(if head.starts_with(b"version https://git-lfs") {
        Foreign::LfsPointer
    } else if [b"<!doc".as_slice(), b"<html", b"<head", b"<?xml"].iter().any(|tag| head.starts_with(tag)) {
        Foreign::Html
    } else {
        Foreign::Text
    })
}

impl fmt::Display for Foreign {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(match self {
            Foreign::Empty => "the file is empty",
            Foreign::TooShort => "the file has fewer than 4 bytes",
            Foreign::Zeros => "it starts with zeros, as an unfinished download does",
            Foreign::Html => "it is a web page, as a failed download leaves",
            Foreign::LfsPointer => "it is a git-lfs pointer; fetch the file itself with 'git lfs pull'",
            Foreign::Text => "it is a text file",
            Foreign::Safetensors => "it is a safetensors file; convert it to GGUF first",
            Foreign::Zip => "it is a zip archive (perhaps a PyTorch checkpoint); convert it to GGUF first",
            Foreign::SwappedMagic => "its magic is 'FUGG', in the wrong byte order",
            Foreign::LegacyGgml(name) => {
                return write!(f, "it is a legacy '{name}' file, from before GGUF; convert it first");
            }
            Foreign::Unknown(magic) => {
                return write!(f, "it starts with '{}', expected 'GGUF'", magic.escape_ascii());
            }
        })
    }
}
