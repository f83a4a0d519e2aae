//! Memory of the backend, and typed ranges of it that prepared steps keep.
//!
//! **Rule.** A buffer's bytes are touched only by whoever holds the driver's lock: [`CpuBuffer::read`] and
//! [`CpuBuffer::write`] take it, and a step runs with the guard in hand, which its accessors ask for. So no two threads
//! outside the pool ever meet, and inside a step the kernels' own contracts hold.

#![expect(unsafe_code, reason = "prepared steps keep typed ranges of buffers that outlive any borrow")]

use std::any::Any;
use std::cell::UnsafeCell;
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};

use half::f16;
use minfer_graph::{Buffer, KernelFault};

use crate::buf::AlignedBuf;

/// Held by whoever touches buffers.
#[derive(Default)]
pub(super) struct MemoryLock(Mutex<()>);

/// Proof that the lock is held.
pub(super) struct Access<'a> {
    _guard: MutexGuard<'a, ()>,
}

impl MemoryLock {
    pub(super) fn access(&self) -> Access<'_> {
        Access { _guard: self.0.lock().unwrap_or_else(PoisonError::into_inner) }
    }
}

/// Zeroed memory for node values or a KV region.
pub(super) struct CpuBuffer {
    bytes: UnsafeCell<AlignedBuf>,
    len: usize,
    lock: Arc<MemoryLock>,
}

// SAFETY: the bytes are accessed only under `lock` (the module's rule).
unsafe impl Sync for CpuBuffer {}

impl CpuBuffer {
    pub(super) fn zeroed(len: usize, lock: &Arc<MemoryLock>) -> Result<CpuBuffer, KernelFault> {
        let buf = AlignedBuf::zeroed(len).map_err(|e| KernelFault::OutOfMemory {
            bytes: e.bytes,
            reason: "the system has no more".into(),
        })?;
        Ok(CpuBuffer { bytes: UnsafeCell::new(buf), len, lock: lock.clone() })
    }

    fn ptr(&self) -> *mut u8 {
        // SAFETY: only the pointer is taken; the owner field itself is never written after construction.
        unsafe { (*self.bytes.get()).as_ptr().cast_mut() }
    }
}

impl Buffer for CpuBuffer {
    fn bytes(&self) -> usize {
        self.len
    }

    fn write(&self, offset: usize, data: &[u8]) -> Result<(), KernelFault> {
        self.check(offset, data.len())?;
        let _access = self.lock.access();
        // SAFETY: inside the buffer (checked), and the lock is held.
        unsafe { std::ptr::copy_nonoverlapping(data.as_ptr(), self.ptr().add(offset), data.len()) };
        Ok(())
    }

    fn read(&self, offset: usize, out: &mut [u8]) -> Result<(), KernelFault> {
        self.check(offset, out.len())?;
        let _access = self.lock.access();
        // SAFETY: inside the buffer (checked), and the lock is held.
        unsafe { std::ptr::copy_nonoverlapping(self.ptr().add(offset), out.as_mut_ptr(), out.len()) };
        Ok(())
    }

    fn as_any(self: Arc<Self>) -> Arc<dyn Any + Send + Sync> {
        self
    }
}

impl CpuBuffer {
    fn check(&self, offset: usize, len: usize) -> Result<(), KernelFault> {
        match offset.checked_add(len) {
            Some(end) if end <= self.len => Ok(()),
            _ => Err(KernelFault::Bug(format!("{len} bytes at {offset} of a buffer of {}", self.len))),
        }
    }
}

/// An element type for which every bit pattern is a value.
pub(super) trait Plain: Copy {}
impl Plain for f32 {}
impl Plain for i32 {}
impl Plain for f16 {}
impl Plain for u8 {}

/// A typed range of a buffer: one operand or result of a prepared step.
pub(super) struct Span<T> {
    buffer: Arc<CpuBuffer>,
    start: usize,
    len: usize,
    _type: std::marker::PhantomData<fn() -> T>,
}

impl<T: Plain> Span<T> {
    /// `len` elements from byte `start` of a buffer that must be this backend's own.
    pub(super) fn new(buffer: Arc<dyn Buffer>, start: usize, len: usize) -> Result<Span<T>, KernelFault> {
        let foreign = |_| KernelFault::Bug("a buffer of another backend".into());
        let buffer = buffer.as_any().downcast::<CpuBuffer>().map_err(foreign)?;
        buffer.check(start, len.saturating_mul(size_of::<T>()))?;
        if !start.is_multiple_of(align_of::<T>()) {
            return Err(KernelFault::Bug(format!("a value at byte {start} is not aligned")));
        }
        Ok(Span { buffer, start, len, _type: std::marker::PhantomData })
    }

    /// The whole of a buffer.
    pub(super) fn whole(buffer: Arc<dyn Buffer>) -> Result<Span<T>, KernelFault> {
        let len = buffer.bytes() / size_of::<T>();
        Span::new(buffer, 0, len)
    }

    pub(super) fn len(&self) -> usize {
        self.len
    }

    /// Whether both are the very same range.
    pub(super) fn is_same<U>(&self, other: &Span<U>) -> bool {
        Arc::ptr_eq(&self.buffer, &other.buffer) && self.start == other.start
    }

    /// Whether the ranges share a byte.
    pub(super) fn meets<U>(&self, other: &Span<U>) -> bool {
        let end = self.start + self.len * size_of::<T>();
        let other_end = other.start + other.len * size_of::<U>();
        Arc::ptr_eq(&self.buffer, &other.buffer) && self.start < other_end && other.start < end
    }

    /// The elements.
    pub(super) fn get<'a>(&'a self, _access: &'a Access<'_>) -> &'a [T] {
        // SAFETY: inside the buffer and aligned (checked by `new`; buffers start at 64 bytes), any bits are a value, and
        // the lock is held. A step's result never meets its operands (checked when it was prepared).
        unsafe { std::slice::from_raw_parts(self.buffer.ptr().add(self.start).cast(), self.len) }
    }

    /// The elements, to be written.
    #[expect(clippy::mut_from_ref, reason = "the lock makes it unique; see the safety note")]
    pub(super) fn get_mut<'a>(&'a self, _access: &'a Access<'_>) -> &'a mut [T] {
        // SAFETY: as in `get`. Each step takes each of its spans once, and those it writes meet no other it holds: results,
        // operands and KV regions were compared at preparation.
        unsafe { std::slice::from_raw_parts_mut(self.buffer.ptr().add(self.start).cast(), self.len) }
    }
}
