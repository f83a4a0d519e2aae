//! The bytes of a file: mapped, or read into memory.

use std::fs::File;
use std::io::{self, Read};
use std::sync::Arc;

use crate::mapping::Mapping;

/// Data in memory starts at a multiple of this, so that a tensor at an aligned offset is aligned for vector loads.
const MEMORY_ALIGNMENT: usize = 64;

/// Immutable bytes that stay where they are.
#[derive(Debug)]
pub(crate) enum Storage {
    Mapped(Arc<Mapping>),
    Memory(Memory),
}

impl Storage {
    pub(crate) fn map(file: &File) -> io::Result<Storage> {
        Mapping::new(file).map(|mapping| Storage::Mapped(Arc::new(mapping)))
    }

    /// Reads the whole file, which should be `len` bytes long.
    pub(crate) fn read(file: &mut File, len: u64) -> io::Result<Storage> {
        let too_large = |_| io::Error::from(io::ErrorKind::OutOfMemory);
        let len = usize::try_from(len).map_err(too_large)?;
        let mut memory = Memory::zeroed(len)?;
        file.read_exact(memory.bytes_mut())?;
        Ok(Storage::Memory(memory))
    }

    pub(crate) fn from_vec(bytes: Vec<u8>) -> Storage {
        Storage::Memory(Memory::from_vec(bytes))
    }

    /// Lets the memory of a range go, where a file can bring it back.
    pub(crate) fn release(&self, offset: usize, len: usize) {
        if let Storage::Mapped(mapping) = self {
            mapping.release(offset, len);
        }
    }

    /// The map, if the bytes lie in one.
    pub(crate) fn mapping(&self) -> Option<&Arc<Mapping>> {
        match self {
            Storage::Mapped(mapping) => Some(mapping),
            Storage::Memory(_) => None,
        }
    }

    pub(crate) fn bytes(&self) -> &[u8] {
        match self {
            Storage::Mapped(mapping) => mapping.bytes(),
            Storage::Memory(memory) => memory.bytes(),
        }
    }
}

/// Bytes on the heap, aligned by starting a little way into the buffer. The buffer is never resized, so they stay.
#[derive(Debug)]
pub(crate) struct Memory {
    buffer: Vec<u8>,
    start: usize,
    len: usize,
}

impl Memory {
    fn zeroed(len: usize) -> io::Result<Memory> {
        let out_of_memory = || io::Error::from(io::ErrorKind::OutOfMemory);
        let capacity = len.checked_add(MEMORY_ALIGNMENT).ok_or_else(out_of_memory)?;
        let mut buffer = Vec::new();
        buffer.try_reserve_exact(capacity).map_err(|_| out_of_memory())?;
        buffer.resize(capacity, 0);
        // `align_offset` may decline, by contract; an unaligned start is slower, not wrong.
        let start = buffer.as_ptr().align_offset(MEMORY_ALIGNMENT).min(MEMORY_ALIGNMENT);
        Ok(Memory { buffer, start, len })
    }

    fn from_vec(buffer: Vec<u8>) -> Memory {
        let len = buffer.len();
        Memory { buffer, start: 0, len }.aligned()
    }

    /// The same bytes at an aligned place, if there is memory for a copy.
    fn aligned(self) -> Memory {
        if self.bytes().as_ptr().align_offset(MEMORY_ALIGNMENT) == 0 {
            return self;
        }
        let Ok(mut copy) = Memory::zeroed(self.len) else { return self };
        copy.bytes_mut().copy_from_slice(self.bytes());
        copy
    }

    fn bytes(&self) -> &[u8] {
        &self.buffer[self.start..self.start + self.len]
    }

    fn bytes_mut(&mut self) -> &mut [u8] {
        &mut self.buffer[self.start..self.start + self.len]
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn memory_is_aligned_and_keeps_its_bytes() {
        for len in [0usize, 1, 63, 64, 65, 1000] {
            let bytes: Vec<u8> = (0..len).map(|i| i as u8).collect();
            let storage = Storage::from_vec(bytes.clone());
            assert_eq!(storage.bytes(), bytes);
            assert_eq!(storage.bytes().as_ptr() as usize % MEMORY_ALIGNMENT, 0, "length {len}");
        }
    }
}
