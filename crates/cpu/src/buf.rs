//! Memory for packed weights: zeroed, aligned to cache lines, on huge pages where the system has them.
//!
//! Streaming a matrix of small pages loses up to 8 % of the bandwidth to address translation. Huge pages need mappings
//! that start at a multiple of 2 MiB, which small separate mappings never do, so an [`Arena`] maps once for many matrices
//! and hands out disjoint pieces. Only whole huge pages are advised: the tail of a mapping stays on small pages,
//! and nothing is resident that was not written.

#![expect(unsafe_code, reason = "memory mappings, and slices cut from them")]

use std::ptr::NonNull;
use std::sync::Arc;

/// Alignment of every piece, a cache line and one AVX-512 register.
pub const ALIGN: usize = 64;

/// The system refused memory.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
#[error("no memory for {bytes} bytes of weights")]
pub struct OutOfMemory {
    /// How much was asked for.
    pub bytes: usize,
}

/// One mapping from which pieces are cut, front to back; it lives as long as any piece.
pub struct Arena {
    map: Arc<Mapping>,
    used: usize,
}

/// A zeroed piece of memory that starts at a multiple of [`ALIGN`] and is owned by this value alone.
pub struct AlignedBuf {
    /// Keeps the memory alive; the range `[ptr, ptr + len)` of it belongs to this value alone.
    _map: Arc<Mapping>,
    ptr: NonNull<u8>,
    len: usize,
}

// SAFETY: the value owns its range, like a `Box<[u8]>`; `Mapping` frees only when the last owner is gone.
unsafe impl Send for AlignedBuf {}
// SAFETY: a shared reference gives only shared slices.
unsafe impl Sync for AlignedBuf {}

impl Arena {
    /// Maps `capacity` zeroed bytes. They cost no memory until written.
    pub fn with_capacity(capacity: usize) -> Result<Arena, OutOfMemory> {
        Ok(Arena { map: Arc::new(Mapping::new(capacity)?), used: 0 })
    }

    /// How many bytes of the arena a piece of `len` bytes takes: add these up for [`Arena::with_capacity`].
    pub fn footprint(len: usize) -> usize {
        len.div_ceil(ALIGN).saturating_mul(ALIGN)
    }

    /// Cuts off a piece of `len` bytes; an error if the rest is too small.
    pub fn take(&mut self, len: usize) -> Result<AlignedBuf, OutOfMemory> {
        let size = Arena::footprint(len);
        if size > self.map.len - self.used {
            return Err(OutOfMemory { bytes: len });
        }
        // SAFETY: `used + size <= map.len`, so the pointer stays inside the mapping (or at its end for size 0).
        let ptr = unsafe { self.map.ptr.add(self.used) };
        self.used += size;
        Ok(AlignedBuf { _map: Arc::clone(&self.map), ptr, len })
    }
}

impl AlignedBuf {
    /// A piece of `len` bytes with a mapping of its own.
    pub fn zeroed(len: usize) -> Result<AlignedBuf, OutOfMemory> {
        Arena::with_capacity(Arena::footprint(len))?.take(len)
    }

    /// The first byte, for kernels that read by pointer.
    pub fn as_ptr(&self) -> *const u8 {
        self.ptr.as_ptr()
    }

    /// The bytes.
    pub fn as_slice(&self) -> &[u8] {
        // SAFETY: the range is initialized (zeroed), inside the mapping, and owned by `self`.
        unsafe { std::slice::from_raw_parts(self.ptr.as_ptr(), self.len) }
    }

    /// The bytes, for writing.
    pub fn as_mut_slice(&mut self) -> &mut [u8] {
        // SAFETY: as in `as_slice`, and `&mut self` makes the access unique.
        unsafe { std::slice::from_raw_parts_mut(self.ptr.as_ptr(), self.len) }
    }
}

/// Zeroed memory, freed on drop. `ptr` is a multiple of [`ALIGN`].
struct Mapping {
    ptr: NonNull<u8>,
    len: usize,
    system: system::Block,
}

// SAFETY: the mapping itself is plain memory; access goes through the pieces, each of which has one owner.
unsafe impl Send for Mapping {}
// SAFETY: as above.
unsafe impl Sync for Mapping {}

impl Mapping {
    fn new(len: usize) -> Result<Mapping, OutOfMemory> {
        let (system, ptr) = system::Block::zeroed(len).ok_or(OutOfMemory { bytes: len })?;
        Ok(Mapping { ptr, len, system })
    }
}

impl Drop for Mapping {
    fn drop(&mut self) {
        // SAFETY: called once, and no piece is left: each holds the `Arc` around this mapping.
        unsafe { self.system.free() }
    }
}

#[cfg(target_os = "linux")]
mod system {
    //! Anonymous `mmap`, aligned by mapping more and using an aligned part of it.

    use super::{ALIGN, NonNull};

    const HUGE_PAGE: usize = 2 << 20;

    pub(super) struct Block {
        start: *mut libc::c_void,
        len: usize,
    }

    impl Block {
        /// `len` zeroed bytes; from 2 MiB up they start at a multiple of 2 MiB.
        pub(super) fn zeroed(len: usize) -> Option<(Block, NonNull<u8>)> {
            let align = if len < HUGE_PAGE { ALIGN } else { HUGE_PAGE };
            let map_len = len.checked_add(align)?;
            let prot = libc::PROT_READ | libc::PROT_WRITE;
            let flags = libc::MAP_PRIVATE | libc::MAP_ANONYMOUS | libc::MAP_NORESERVE;
            // SAFETY: a new anonymous mapping touches no memory that exists.
            let start = unsafe { libc::mmap(std::ptr::null_mut(), map_len, prot, flags, -1, 0) };
            if start == libc::MAP_FAILED {
                return None;
            }
            let skip = start.align_offset(align);
            let first = start.wrapping_byte_add(skip).cast::<u8>();
            // Advice may fail (huge pages switched off): then the pages stay small, and nothing else changes.
            // SAFETY: the advised range lies inside the mapping just made.
            unsafe { libc::madvise(first.cast(), len / HUGE_PAGE * HUGE_PAGE, libc::MADV_HUGEPAGE) };
            Some((Block { start, len: map_len }, NonNull::new(first)?))
        }

        /// # Safety
        /// Called once, with no reference into the block left.
        pub(super) unsafe fn free(&mut self) {
            // SAFETY: this exact range was mapped by `zeroed`.
            unsafe { libc::munmap(self.start, self.len) };
        }
    }
}

#[cfg(not(target_os = "linux"))]
mod system {
    //! The global allocator.

    use super::{ALIGN, NonNull};
    use std::alloc::{Layout, alloc_zeroed, dealloc};

    pub(super) struct Block {
        ptr: *mut u8,
        layout: Layout,
    }

    impl Block {
        /// `len` zeroed bytes at a multiple of [`ALIGN`].
        pub(super) fn zeroed(len: usize) -> Option<(Block, NonNull<u8>)> {
            let layout = Layout::from_size_align(len.max(ALIGN), ALIGN).ok()?;
            // SAFETY: the layout has a size of at least ALIGN.
            let ptr = unsafe { alloc_zeroed(layout) };
            Some((Block { ptr, layout }, NonNull::new(ptr)?))
        }

        /// # Safety
        /// Called once, with no reference into the block left.
        pub(super) unsafe fn free(&mut self) {
            // SAFETY: allocated by `zeroed` with this layout.
            unsafe { dealloc(self.ptr, self.layout) };
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn pieces_are_zeroed_aligned_and_disjoint() {
        let lens = [0, 1, 63, 64, 65, 5000, 3 << 20];
        let mut arena = Arena::with_capacity(lens.iter().map(|&n| Arena::footprint(n)).sum()).unwrap();
        let mut pieces: Vec<_> = lens.iter().map(|&n| arena.take(n).unwrap()).collect();
        assert_eq!(arena.take(1).err(), Some(OutOfMemory { bytes: 1 }));
        drop(arena);
        for (i, piece) in pieces.iter_mut().enumerate() {
            assert_eq!(piece.as_ptr().align_offset(ALIGN), 0);
            assert!(piece.as_slice().iter().all(|&b| b == 0));
            piece.as_mut_slice().fill(i as u8 + 1);
        }
        for (i, piece) in pieces.iter().enumerate() {
            assert_eq!(piece.as_slice().len(), lens[i]);
            assert!(piece.as_slice().iter().all(|&b| b == i as u8 + 1));
        }
    }

    #[test]
    fn an_impossible_size_is_an_error() {
        assert_eq!(AlignedBuf::zeroed(usize::MAX).err(), Some(OutOfMemory { bytes: usize::MAX }));
        assert!(AlignedBuf::zeroed(1 << 60).is_err());
    }

    #[cfg(target_os = "linux")]
    #[test]
    fn large_pieces_start_on_a_huge_page() {
        let piece = AlignedBuf::zeroed(5 << 20).unwrap();
        assert_eq!(piece.as_ptr().align_offset(2 << 20), 0);
    }
}
