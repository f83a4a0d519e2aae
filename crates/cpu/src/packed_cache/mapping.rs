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

    /// How much of the file, all of which was read, is on huge pages: 0 to 1.
    #[cfg(target_os = "linux")]
    pub(super) fn huge_share(&self) -> f64 {
        let huge = huge_page_bytes(self.0.as_ptr().addr()).unwrap_or(0);
        huge as f64 / self.0.len() as f64
    }

    /// Other systems do not say; their file pages are those of all memory.
    #[cfg(not(target_os = "linux"))]
    pub(super) fn huge_share(&self) -> f64 {
        1.0
    }

    /// Lets the pages of a range go; reading them again brings them back from the file.
    pub(super) fn release(&self, range: Range<usize>) {
        #[cfg(unix)]
        // SAFETY: the map is shared and read-only, so dropped pages come back with the file's own bytes: nothing that was or
        // will be read through the map changes.
        let released = unsafe {
            self.0.unchecked_advise_range(memmap2::UncheckedAdvice::DontNeed, range.start, range.len())
        };
        // It is advice: a system that refuses keeps the pages, which only costs memory.
        #[cfg(unix)]
        let _ = released;
        #[cfg(not(unix))]
        let _ = range;
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

    /// Says that the bytes were copied: their pages may go.
    pub(crate) fn release(&self) {
        self.map.release(self.range.clone());
    }

    /// The bytes.
    pub fn as_slice(&self) -> &[u8] {
        &self.map.bytes()[self.range.clone()]
    }
}
