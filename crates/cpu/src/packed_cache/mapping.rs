//! A file of packed weights in memory, and parts of it.

#![expect(unsafe_code, reason = "a file can be mapped only by an unsafe call")]

use std::fs::File;
use std::io;
use std::ops::Range;
use std::sync::Arc;

use memmap2::Mmap;

/// A read-only map of a whole file.
pub(super) struct MappedFile(Mmap);

/// Some bytes of a mapped file, which stays mapped as long as a part of it is there.
#[derive(Clone)]
pub struct FilePart {
    map: Arc<MappedFile>,
    range: Range<usize>,
}

impl MappedFile {
    pub(super) fn new(file: &File) -> io::Result<MappedFile> {
        // SAFETY: the map is read-only, and only shared slices of plain bytes leave it, for which any value is valid: they
        // are computed with, never trusted as a length or an index. Files of this folder are never written to once they
        // have their name. That no other program writes to one is beyond a process's power, as with the model's own file.
        let map = unsafe { Mmap::map(file)? };
        // Advice: huge pages when the file comes from the disk. A system without them reads it with small ones.
        #[cfg(target_os = "linux")]
        let _ = map.advise(memmap2::Advice::HugePage);
        Ok(MappedFile(map))
    }

    pub(super) fn bytes(&self) -> &[u8] {
        &self.0
    }

    /// Whether three quarters of the file, all of which was read, are on huge pages.
    #[cfg(target_os = "linux")]
    pub(super) fn is_on_huge_pages(&self) -> bool {
        let huge = huge_page_bytes(self.0.as_ptr() as usize).unwrap_or(0);
        huge >= self.0.len() as u64 / 4 * 3
    }

    /// Other systems do not say; their file pages are those of all memory.
    #[cfg(not(target_os = "linux"))]
    pub(super) fn is_on_huge_pages(&self) -> bool {
        true
    }
}

/// Bytes of the mapping at this address that are mapped by huge pages.
#[cfg(target_os = "linux")]
fn huge_page_bytes(address: usize) -> Option<u64> {
    let text = std::fs::read_to_string("/proc/self/smaps").ok()?;
    let start = format!("{address:x}-");
    let mapping = text.lines().skip_while(|line| !line.starts_with(&start)).skip(1);
    let line =
        mapping.take_while(|line| !line.contains('-')).find_map(|l| l.strip_prefix("FilePmdMapped:"))?;
    line.trim().strip_suffix("kB")?.trim().parse::<u64>().ok()?.checked_mul(1024)
}

impl FilePart {
    /// `None` if the range ends behind the file.
    pub(super) fn new(map: Arc<MappedFile>, range: Range<usize>) -> Option<FilePart> {
        map.bytes().get(range.clone())?;
        Some(FilePart { map, range })
    }

    /// The bytes.
    pub fn as_slice(&self) -> &[u8] {
        &self.map.bytes()[self.range.clone()]
    }
}
