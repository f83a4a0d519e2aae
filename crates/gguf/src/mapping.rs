//! A file mapped into memory: the one place in this crate with `unsafe`.
//!
//! Mapping costs no copy and lets the page cache be shared between processes. What it cannot give is protection from
//! other programs: a file cut short under the map raises SIGBUS on the next read of a missing page. Whoever cannot
//! rule that out (network drives, files still being downloaded) opens with `mmap: false`.
#![allow(unsafe_code, reason = "a file can be mapped only by an unsafe call; it is wrapped here once")]

use std::fs::File;
use std::io;

/// A read-only map of a whole file.
#[derive(Debug)]
pub(crate) struct Mapping(memmap2::Mmap);

impl Mapping {
    /// Maps all of `file` as it is now.
    ///
    /// The argument for soundness, which every use of the bytes relies on:
    /// - the map is read-only, and only shared slices of plain bytes leave this type, for which any value is valid;
    /// - the header is copied into owned values and those are checked, so no length, offset or text is read again;
    /// - tensor data is only ever computed with, never trusted as a length, a type or an unchecked index;
    /// - model files are written once, under a temporary name by our own downloader and writer, then renamed.
    ///
    /// That no other program writes to the file meanwhile is beyond any process's power; see the module's text.
    pub(crate) fn new(file: &File) -> io::Result<Mapping> {
        // SAFETY: the file is not modified by this process while mapped (it was opened for reading only), and the
        // points above keep a change from outside to wrong numbers or SIGBUS.
        unsafe { memmap2::Mmap::map(file) }.map(Mapping)
    }

    pub(crate) fn bytes(&self) -> &[u8] {
        &self.0
    }

    /// Bytes of the map in whole pages: behind the end of the file, the rest of the last page is mapped, too, and is zeros.
    /// `None` where the system does not say how large a page is.
    pub(crate) fn page_len(&self) -> Option<usize> {
        self.0.len().checked_next_multiple_of(page_bytes()?)
    }

    /// Lets the pages of a range go; reading them again brings them back from the file.
    pub(crate) fn release(&self, offset: usize, len: usize) {
        #[cfg(unix)]
        // SAFETY: the map is shared and read-only, so dropped pages come back with the file's own bytes: nothing that was
        // or will be read through the map changes.
        let released =
            unsafe { self.0.unchecked_advise_range(memmap2::UncheckedAdvice::DontNeed, offset, len) };
        // It is advice: a system that refuses keeps the pages, which only costs memory.
        #[cfg(unix)]
        drop(released);
        #[cfg(not(unix))]
        let _ = (offset, len);
    }
}

#[cfg(unix)]
fn page_bytes() -> Option<usize> {
    // SAFETY: it only asks, and takes no pointer.
    let bytes = unsafe { libc::sysconf(libc::_SC_PAGESIZE) };
    usize::try_from(bytes).ok().filter(|bytes| bytes.is_power_of_two())
}

#[cfg(not(unix))]
fn page_bytes() -> Option<usize> {
    None
}
