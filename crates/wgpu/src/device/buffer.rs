//! Memory on the device, and typed ranges of it that prepared dispatches keep.

use std::any::Any;
use std::ops::Range;
use std::sync::Arc;
use std::sync::atomic::Ordering;

use minfer_gguf::MappedFile;
use minfer_graph::{Buffer, KernelFault};
use wgpu::BufferUsages;

use super::Device;

/// What kernels work on.
pub(super) const USAGE: BufferUsages =
    BufferUsages::STORAGE.union(BufferUsages::COPY_SRC).union(BufferUsages::COPY_DST);

/// Memory of the device. Zeroed when it is made.
pub(crate) struct GpuBuffer {
    raw: wgpu::Buffer,
    bytes: usize,
    device: Arc<Device>,
    origin: Origin,
}

/// Whose the memory is.
enum Origin {
    /// Allocated for this buffer; its bytes are among those that the device counts.
    Own,
    /// Another's, who keeps it.
    Shared,
    /// Pages of a mapped file, which stays mapped as long as this is here. Nobody writes to them.
    File(MappedFile),
}

impl Drop for GpuBuffer {
    fn drop(&mut self) {
        match std::mem::replace(&mut self.origin, Origin::Shared) {
            Origin::Own => {
                self.device.counters.allocated.fetch_sub(self.raw.size(), Ordering::Relaxed);
            }
            Origin::Shared => {}
            Origin::File(file) => {
                self.device.counters.imported.fetch_sub(self.raw.size(), Ordering::Relaxed);
                // Bind groups may keep wgpu's handle, so it is not left to the last of them. Every submission was waited for,
                // so none uses it any more and it is gone when this returns; only then may the map go.
                self.raw.destroy();
                // A device that failed or did not answer may still read: then the map stays until the process ends.
                if self.device.lost.get().is_some() {
                    std::mem::forget(file);
                }
            }
        }
    }
}

impl GpuBuffer {
    /// Memory of `bytes` zeros; at least one word.
    pub(crate) fn zeroed(device: &Arc<Device>, bytes: usize) -> Result<GpuBuffer, KernelFault> {
        let allocated = device.counters.allocated.load(Ordering::Relaxed) as usize;
        if device.faults.memory.is_some_and(|limit| allocated.saturating_add(bytes) > limit) {
            return Err(device.out_of_memory(bytes));
        }
        let raw = device.create_buffer(bytes, USAGE, false)?;
        device.counters.allocated.fetch_add(raw.size(), Ordering::Relaxed);
        Ok(GpuBuffer { raw, bytes, device: device.clone(), origin: Origin::Own })
    }

    /// Bytes `range` of the pages of a mapped file, which the device reads where they are; both ends are multiples of
    /// [`Device::import_alignment`] in memory. The map stays as long as the buffer.
    pub(crate) fn imported(
        device: &Arc<Device>,
        file: &MappedFile,
        range: Range<usize>,
    ) -> Result<GpuBuffer, KernelFault> {
        let bytes = range.len();
        let raw = device.import(file, range)?;
        device.counters.imported.fetch_add(raw.size(), Ordering::Relaxed);
        Ok(GpuBuffer { raw, bytes, device: device.clone(), origin: Origin::File(file.clone()) })
    }

    /// A buffer that is there already.
    pub(super) fn of(raw: wgpu::Buffer, bytes: usize, device: &Arc<Device>) -> GpuBuffer {
        GpuBuffer { raw, bytes, device: device.clone(), origin: Origin::Shared }
    }

    /// The buffer itself.
    pub(crate) fn raw(&self) -> &wgpu::Buffer {
        &self.raw
    }

    fn check(&self, offset: usize, len: usize) -> Result<(), KernelFault> {
        match offset.checked_add(len) {
            Some(end) if end <= self.bytes => Ok(()),
            _ => Err(KernelFault::Bug(format!("{len} bytes at {offset} of a buffer of {}", self.bytes))),
        }
    }
}

impl Buffer for GpuBuffer {
    fn bytes(&self) -> usize {
        self.bytes
    }

    fn write(&self, offset: usize, data: &[u8]) -> Result<(), KernelFault> {
        self.check(offset, data.len())?;
        if matches!(self.origin, Origin::File(_)) {
            return Err(KernelFault::Bug("pages of a file were to be written to".into()));
        }
        self.device.transfer()?.write(&self.device, &self.raw, offset, data)
    }

    fn read(&self, offset: usize, out: &mut [u8]) -> Result<(), KernelFault> {
        self.check(offset, out.len())?;
        self.device.transfer()?.read(&self.device, &self.raw, offset, out)
    }

    fn as_any(self: Arc<Self>) -> Arc<dyn Any + Send + Sync> {
        self
    }
}

impl Device {
    /// A buffer of at least `bytes` bytes, or why there is none.
    pub(super) fn create_buffer(
        &self,
        bytes: usize,
        usage: BufferUsages,
        mapped: bool,
    ) -> Result<wgpu::Buffer, KernelFault> {
        let size = bytes.max(4).next_multiple_of(4);
        if size > self.max_buffer_bytes() {
            let reason = format!(
                "device '{}' allows {} bytes in one buffer",
                self.adapter().name,
                self.max_buffer_bytes()
            );
            return Err(KernelFault::OutOfMemory { bytes, reason });
        }
        self.counters.buffers.fetch_add(1, Ordering::Relaxed);
        self.checked(bytes, || {
            self.raw.create_buffer(&wgpu::BufferDescriptor {
                label: None,
                size: size as u64,
                usage,
                mapped_at_creation: mapped,
            })
        })
    }
}

/// A range of words of a buffer, as a kernel sees it: bindings start at aligned places, so the range may start some words
/// into its binding.
#[derive(Clone)]
pub(crate) struct Span {
    buffer: Arc<GpuBuffer>,
    offset: usize,
    bytes: usize,
    /// Bytes before the range in its binding.
    rest: usize,
}

impl Span {
    /// `bytes` bytes from byte `offset` of a buffer that must be this backend's own.
    pub(crate) fn new(buffer: Arc<dyn Buffer>, offset: usize, bytes: usize) -> Result<Span, KernelFault> {
        let foreign = |_| KernelFault::Bug("a buffer of another backend".into());
        Span::of(buffer.as_any().downcast::<GpuBuffer>().map_err(foreign)?, offset, bytes)
    }

    /// The same of a buffer known to be the backend's own.
    pub(crate) fn of(buffer: Arc<GpuBuffer>, offset: usize, bytes: usize) -> Result<Span, KernelFault> {
        if !offset.is_multiple_of(4) {
            return Err(KernelFault::Bug(format!("a value at byte {offset} is not aligned")));
        }
        Span::of_bytes(buffer, offset, bytes)
    }

    /// The same for kernels that address bytes ([`Span::start_bytes`]): the range may begin at any.
    pub(crate) fn of_bytes(buffer: Arc<GpuBuffer>, offset: usize, bytes: usize) -> Result<Span, KernelFault> {
        buffer.check(offset, bytes)?;
        let rest = offset % buffer.device.binding_alignment();
        let bound = (rest + bytes.max(4)).next_multiple_of(4);
        let limit = buffer.device.max_binding_bytes();
        if bound > limit {
            let name = &buffer.device.adapter().name;
            let reason = format!("device '{name}' lets a kernel see {limit} bytes as one operand");
            return Err(KernelFault::OutOfMemory { bytes, reason });
        }
        Ok(Span { buffer, offset: offset - rest, bytes: bound, rest })
    }

    /// The whole of a buffer.
    #[cfg(test)]
    pub(crate) fn whole(buffer: Arc<dyn Buffer>) -> Result<Span, KernelFault> {
        let bytes = buffer.bytes();
        Span::new(buffer, 0, bytes)
    }

    /// Words before the range in its binding.
    pub(crate) fn start(&self) -> u32 {
        (self.rest / 4) as u32
    }

    /// Bytes before the range in its binding.
    pub(crate) fn start_bytes(&self) -> u32 {
        self.rest as u32
    }

    /// The buffer, and the byte where the range begins in it.
    pub(crate) fn place(&self) -> (&wgpu::Buffer, usize) {
        (self.buffer.raw(), self.offset + self.rest)
    }

    /// As a resource to bind.
    pub(super) fn binding(&self) -> wgpu::BufferBinding<'_> {
        wgpu::BufferBinding {
            buffer: self.buffer.raw(),
            offset: self.offset as u64,
            size: std::num::NonZeroU64::new(self.bytes as u64),
        }
    }
}
