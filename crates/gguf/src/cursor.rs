//! Reads little-endian values from bytes, never past their end.

use crate::error::{Fault, shown};

/// A fault with the byte offset of the value it is about.
#[derive(Debug)]
pub(crate) struct At {
    pub(crate) offset: usize,
    pub(crate) fault: Fault,
}

impl Fault {
    pub(crate) fn at(self, offset: usize) -> At {
        At { offset, fault: self }
    }
}

/// A position in the bytes of a file.
pub(crate) struct Cursor<'a> {
    bytes: &'a [u8],
    pos: usize,
}

impl<'a> Cursor<'a> {
    pub(crate) fn new(bytes: &'a [u8]) -> Self {
        Cursor { bytes, pos: 0 }
    }

    pub(crate) fn pos(&self) -> usize {
        self.pos
    }

    pub(crate) fn remaining(&self) -> usize {
        self.bytes.len() - self.pos
    }

    /// The next `len` bytes; `what` names them if the file ends first.
    pub(crate) fn take(&mut self, len: u64, what: impl Fn() -> String) -> Result<&'a [u8], At> {
        let rest = &self.bytes[self.pos..];
        match usize::try_from(len).ok().and_then(|len| rest.get(..len)) {
            Some(taken) => {
                self.pos += taken.len();
                Ok(taken)
            }
            None => {
                let available = rest.len() as u64;
                Err(Fault::Truncated { what: what(), needed: len, available }.at(self.pos))
            }
        }
    }

    pub(crate) fn array<const N: usize>(&mut self, what: impl Fn() -> String) -> Result<[u8; N], At> {
        let mut out = [0; N];
        out.copy_from_slice(self.take(N as u64, what)?);
        Ok(out)
    }

    pub(crate) fn u8(&mut self, what: impl Fn() -> String) -> Result<u8, At> {
        self.array::<1>(what).map(|[b]| b)
    }

    pub(crate) fn u32(&mut self, what: impl Fn() -> String) -> Result<u32, At> {
        self.array(what).map(u32::from_le_bytes)
    }

    pub(crate) fn u64(&mut self, what: impl Fn() -> String) -> Result<u64, At> {
        self.array(what).map(u64::from_le_bytes)
    }

    /// A count of things that take at least `min_bytes` each; refused if the file has no room for so many.
    pub(crate) fn count(&mut self, min_bytes: usize, what: impl Fn() -> String) -> Result<usize, At> {
        let offset = self.pos;
        let claimed = self.u64(|| format!("the number of {}", what()))?;
        let at_most = (self.remaining() / min_bytes) as u64;
        match usize::try_from(claimed) {
            Ok(count) if claimed <= at_most => Ok(count),
            _ => Err(Fault::Count { what: what(), claimed, at_most }.at(offset)),
        }
    }

    /// UTF-8 text behind a 64-bit length.
    pub(crate) fn str(&mut self, what: impl Fn() -> String) -> Result<String, At> {
        let len = self.u64(|| format!("the length of {}", what()))?;
        self.str_of(len, what)
    }

    /// UTF-8 text of `len` bytes. Copied, then checked: the bytes may be a file's that somebody else is changing.
    pub(crate) fn str_of(&mut self, len: u64, what: impl Fn() -> String) -> Result<String, At> {
        let offset = self.pos;
        let bytes = self.take(len, &what)?.to_vec();
        String::from_utf8(bytes).map_err(|e| {
            let valid_up_to = e.utf8_error().valid_up_to();
            Fault::NotUtf8 { what: what(), valid_up_to }.at(offset + valid_up_to)
        })
    }
}

/// How a metadata value is called in an error.
pub(crate) fn value_of(key: &str) -> String {
    format!("the value of '{}'", shown(key))
}
