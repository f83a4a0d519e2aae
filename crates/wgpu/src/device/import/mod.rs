//! Pages of a mapped file as memory of the device, without a copy.
//!
//! **Which devices.** Those that work in the machine's memory, which is what the system says of them: an integrated GPU or a
//! processor for Vulkan (`VkPhysicalDeviceType`), unified memory for Metal (`hasUnifiedMemory`). Others would fetch every
//! weight over the bus in every step. Under Vulkan the device must also offer `VK_EXT_external_memory_host` and say that it
//! takes such memory for storage buffers.
//!
//! **Contract.** What is imported begins and ends at multiples of the alignment that the device asks for, within the pages
//! of the map; the map outlives the buffer ([`GpuBuffer`] keeps it); nobody writes, neither this process nor a kernel: weights
//! are bound for reading alone, and the buffer has no usage that writes.

#[cfg(target_os = "macos")]
mod metal;
#[cfg(not(target_os = "macos"))]
mod vulkan;

use std::ffi::c_void;
use std::ops::Range;
use std::ptr::NonNull;
use std::sync::atomic::Ordering;

use minfer_gguf::MappedFile;
use minfer_graph::KernelFault;
use wgpu::BufferUsages;

#[cfg(target_os = "macos")]
use self::metal as system;
#[cfg(not(target_os = "macos"))]
use self::vulkan as system;
use super::{Device, DeviceKind};

pub(super) use system::open;

/// What an imported buffer may be used for: read by kernels, and by the test that it is what it should be.
const USAGE: BufferUsages = BufferUsages::STORAGE.union(BufferUsages::COPY_SRC);

/// What starts and lengths have to be multiples of, or why the adapter imports nothing.
pub(super) fn alignment(adapter: &wgpu::Adapter, kind: DeviceKind) -> Result<u64, String> {
    match kind {
        DeviceKind::Integrated | DeviceKind::Software => system::alignment(adapter),
        DeviceKind::Discrete => Err("it has memory of its own".into()),
        DeviceKind::Virtual | DeviceKind::Other => {
            Err("nothing says that it works in the machine's memory".into())
        }
    }
}

impl Device {
    /// Bytes `range` of the pages of a mapped file as a buffer; both ends are aligned for it.
    #[expect(unsafe_code, reason = "the device is handed memory that wgpu knows nothing of")]
    pub(super) fn import(&self, file: &MappedFile, range: Range<usize>) -> Result<wgpu::Buffer, KernelFault> {
        let refused = |reason: String| {
            let (name, n) = (&self.adapter.name, range.len());
            KernelFault::Device(format!(
                "device '{name}' does not take {n} bytes of the mapped file in place: {reason}; \
                 MINFER_NO_GPU_IMPORT=1 (gpu_import=off) copies weights instead"
            ))
        };
        let (pages, first) = (file.page_len().unwrap_or(0), file.bytes().as_ptr() as usize);
        let alignment = self.import_alignment().map_err(|reason| refused(reason.into()))?;
        let ends = [first + range.start, first + range.end];
        let is_aligned = ends.iter().all(|end| end.is_multiple_of(alignment));
        if range.is_empty() || range.end > pages || !is_aligned {
            let what = format!("bytes {range:?} of {pages}, by {alignment}, were to be imported");
            return Err(KernelFault::Bug(what));
        }
        let n = self.counters.imports.fetch_add(1, Ordering::Relaxed);
        if self.faults.refuse_import_after.is_some_and(|most| n >= most) {
            return Err(refused("refused by the test".into()));
        }
        // SAFETY: `range` was checked to lie within the pages of the map, which begin at its first byte.
        let start = unsafe { NonNull::from(file.bytes()).cast::<u8>().add(range.start) };
        let size = range.len() as u64;
        // SAFETY: the range lies within the pages of the map, which stay readable while a clone of `file` lives: the buffer's
        // owner has one, and gives it up only when the buffer is destroyed. Nothing writes there; the usage says so.
        let made =
            self.checked(range.len(), || unsafe { system::import(&self.raw, start.cast::<c_void>(), size) })?;
        made.map_err(refused)
    }
}
