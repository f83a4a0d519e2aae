//! `newBufferWithBytesNoCopy`: pages of this process as a buffer.

#![expect(unsafe_code, reason = "Metal is called beside wgpu")]

use std::ffi::c_void;
use std::ptr::NonNull;

use objc2_metal::{MTLDevice, MTLResourceOptions};
use wgpu::hal::api::Metal;

use super::USAGE;

/// Pages of Apple's processors; those of Intel's are a quarter, of which this is a multiple.
const PAGE: u64 = 16 << 10;

/// What starts and lengths have to be multiples of, or why nothing can be imported.
pub(super) fn alignment(_adapter: &wgpu::Adapter) -> Result<u64, String> {
    Ok(PAGE)
}

/// Opens the device.
pub(in crate::device) fn open(
    adapter: &wgpu::Adapter,
    descriptor: &wgpu::DeviceDescriptor<'_>,
) -> Result<(wgpu::Device, wgpu::Queue), String> {
    pollster::block_on(adapter.request_device(descriptor)).map_err(|e| e.to_string())
}

/// A buffer over `size` bytes from `start` on.
///
/// # Safety
/// Both are multiples of [`alignment`]; the bytes are readable, and nobody writes to them, until the buffer is destroyed.
pub(super) unsafe fn import(
    device: &wgpu::Device,
    start: NonNull<c_void>,
    size: u64,
) -> Result<wgpu::Buffer, String> {
    // SAFETY: what is made with the device behind the guard is handed to wgpu.
    let hal = unsafe { device.as_hal::<Metal>() }.ok_or("it is no Metal device")?;
    let options = MTLResourceOptions::StorageModeShared;
    // SAFETY: the pages are whole and stay until the buffer is destroyed, as the caller promises; nobody is to free them.
    let raw = unsafe {
        hal.raw_device().newBufferWithBytesNoCopy_length_options_deallocator(
            start,
            size as usize,
            options,
            None,
        )
    };
    let raw = raw.ok_or("Metal makes no buffer of them")?;
    drop(hal);
    // SAFETY: the buffer is of this device and has `size` bytes.
    let buffer = unsafe { wgpu::hal::metal::Device::buffer_from_raw(raw, size) };
    let about =
        wgpu::BufferDescriptor { label: Some("mapped file"), size, usage: USAGE, mapped_at_creation: false };
    // SAFETY: it was made with this device, as `about` says, and its bytes are those of the file.
    Ok(unsafe { device.create_buffer_from_hal::<Metal>(buffer, &about) })
}
