//! `VK_EXT_external_memory_host`: host pointers as device memory.

#![expect(unsafe_code, reason = "Vulkan is called beside wgpu")]

use std::ffi::c_void;
use std::ptr::NonNull;

use ash::{ext, khr, vk};
use wgpu::hal::api::Vulkan;
use wgpu::hal::vulkan::{Buffer, CreateDeviceCallbackArgs};

use super::USAGE;

const HANDLE: vk::ExternalMemoryHandleTypeFlags = vk::ExternalMemoryHandleTypeFlags::HOST_ALLOCATION_EXT;

/// What [`USAGE`] is for Vulkan.
const VK_USAGE: vk::BufferUsageFlags = vk::BufferUsageFlags::from_raw(
    vk::BufferUsageFlags::STORAGE_BUFFER.as_raw() | vk::BufferUsageFlags::TRANSFER_SRC.as_raw(),
);

/// What starts and lengths have to be multiples of, or why nothing can be imported.
pub(super) fn alignment(adapter: &wgpu::Adapter) -> Result<u64, String> {
    // SAFETY: the adapter behind the guard is only asked, and nothing of it is kept.
    let found = unsafe { adapter.as_hal::<Vulkan>() }.ok_or("it is no Vulkan device")?;
    if !found.physical_device_capabilities().supports_extension(ext::external_memory_host::NAME) {
        return Err("its driver has no VK_EXT_external_memory_host".into());
    }
    let (instance, physical) = (found.shared_instance().raw_instance(), found.raw_physical_device());
    let asked = vk::PhysicalDeviceExternalBufferInfo::default().usage(VK_USAGE).handle_type(HANDLE);
    let mut answer = vk::ExternalBufferProperties::default();
    // SAFETY: instance and physical device belong together and are alive while `found` is; wgpu opens devices of Vulkan 1.1
    // and later, which have this call.
    unsafe { instance.get_physical_device_external_buffer_properties(physical, &asked, &mut answer) };
    let features = answer.external_memory_properties.external_memory_features;
    if !features.contains(vk::ExternalMemoryFeatureFlags::IMPORTABLE) {
        return Err("its driver imports no host memory for storage buffers".into());
    }
    let mut limits = vk::PhysicalDeviceExternalMemoryHostPropertiesEXT::default();
    let mut all = vk::PhysicalDeviceProperties2::default().push_next(&mut limits);
    // SAFETY: as above; the extension was found, so its struct may be asked for.
    unsafe { instance.get_physical_device_properties2(physical, &mut all) };
    Ok(limits.min_imported_host_pointer_alignment.max(1))
}

/// Opens the device with what imports need.
pub(in crate::device) fn open(
    adapter: &wgpu::Adapter,
    descriptor: &wgpu::DeviceDescriptor<'_>,
) -> Result<(wgpu::Device, wgpu::Queue), String> {
    // SAFETY: the guard is dropped before the adapter is used otherwise.
    let found = unsafe { adapter.as_hal::<Vulkan>() }.ok_or("it is no Vulkan device")?;
    let has_base = found.physical_device_capabilities().supports_extension(khr::external_memory::NAME);
    let add = move |args: CreateDeviceCallbackArgs<'_, '_, '_>| {
        // Part of Vulkan 1.1, whose drivers need not list it.
        args.extensions.extend(has_base.then_some(khr::external_memory::NAME));
        args.extensions.push(ext::external_memory_host::NAME);
    };
    let (features, limits) = (descriptor.required_features, &descriptor.required_limits);
    // SAFETY: features and limits are the adapter's own; the callback only adds extensions that the device offers.
    let opened =
        unsafe { found.open_with_callback(features, limits, &descriptor.memory_hints, Some(Box::new(add))) };
    let opened = opened.map_err(|e| e.to_string())?;
    drop(found);
    // SAFETY: it was opened from this adapter, with the features of this descriptor.
    unsafe { adapter.create_device_from_hal::<Vulkan>(opened, descriptor) }.map_err(|e| e.to_string())
}

/// A buffer over `size` bytes from `start` on.
///
/// # Safety
/// Both are multiples of [`alignment`]; the bytes are readable, and nobody writes to them, until the buffer is destroyed. The
/// device was opened by [`open`].
pub(super) unsafe fn import(
    device: &wgpu::Device,
    start: NonNull<c_void>,
    size: u64,
) -> Result<wgpu::Buffer, String> {
    // SAFETY: what is made with the device behind the guard is handed to wgpu, or destroyed here.
    let hal = unsafe { device.as_hal::<Vulkan>() }.ok_or("it is no Vulkan device")?;
    let raw = hal.raw_device();
    let mut external = vk::ExternalMemoryBufferCreateInfo::default().handle_types(HANDLE);
    let info = vk::BufferCreateInfo::default().size(size).usage(VK_USAGE).push_next(&mut external);
    // SAFETY: the device is alive, and the structs are whole.
    let buffer = unsafe { raw.create_buffer(&info, None) }.map_err(|e| said("no buffer", e))?;
    let host = Host { start, size };
    // SAFETY: as the caller promises; the buffer was just made for host memory.
    let memory = unsafe { memory(&hal, buffer, &host) }.inspect_err(|_| {
        // SAFETY: nothing has used it yet.
        unsafe { raw.destroy_buffer(buffer, None) };
    })?;
    // SAFETY: buffer and memory are bound to one another, and from now on wgpu's to destroy.
    let buffer = unsafe { Buffer::from_raw_managed(buffer, memory, 0, size) };
    drop(hal);
    let about =
        wgpu::BufferDescriptor { label: Some("mapped file"), size, usage: USAGE, mapped_at_creation: false };
    // SAFETY: it was made with this device, as `about` says, and its bytes are those of the file.
    Ok(unsafe { device.create_buffer_from_hal::<Vulkan>(buffer, &about) })
}

/// Memory of this process.
struct Host {
    start: NonNull<c_void>,
    size: u64,
}

/// Device memory that is the host's, bound to the buffer.
///
/// # Safety
/// As for [`import`]; the buffer is of this device, has no memory, and was made for imported host memory.
unsafe fn memory(
    hal: &wgpu::hal::vulkan::Device,
    buffer: vk::Buffer,
    host: &Host,
) -> Result<vk::DeviceMemory, String> {
    let raw = hal.raw_device();
    // SAFETY: buffer and device belong together.
    let needs = unsafe { raw.get_buffer_memory_requirements(buffer) };
    if needs.size > host.size {
        return Err(format!("it wants {} bytes for a buffer of {}", needs.size, host.size));
    }
    let kind = memory_type(hal, host, needs.memory_type_bits)?;
    let pointer = host.start.as_ptr();
    let mut import = vk::ImportMemoryHostPointerInfoEXT::default().handle_type(HANDLE).host_pointer(pointer);
    let info = vk::MemoryAllocateInfo::default()
        .allocation_size(host.size)
        .memory_type_index(kind)
        .push_next(&mut import);
    // SAFETY: start and size are aligned as the device asks, and the type is one that it offers for this pointer.
    let memory = unsafe { raw.allocate_memory(&info, None) }.map_err(|e| said("no import", e))?;
    // SAFETY: the memory is as large as the buffer needs and of a type that it takes.
    let bound = unsafe { raw.bind_buffer_memory(buffer, memory, 0) };
    bound.map(|()| memory).map_err(|e| {
        // SAFETY: nothing has used it yet.
        unsafe { raw.free_memory(memory, None) };
        said("no binding", e)
    })
}

/// A type of memory that the device offers for the pointer, that the buffer takes, and in which writes of the host are seen
/// without further ado.
fn memory_type(hal: &wgpu::hal::vulkan::Device, host: &Host, taken: u32) -> Result<u32, String> {
    let (raw, shared) = (hal.raw_device(), hal.shared_instance());
    let calls = ext::external_memory_host::Device::new(shared.raw_instance(), raw);
    let mut offered = vk::MemoryHostPointerPropertiesEXT::default();
    let ask = calls.fp().get_memory_host_pointer_properties_ext;
    // SAFETY: the extension is on, since the device was opened by `open`, and the pointer is readable memory.
    unsafe { ask(raw.handle(), HANDLE, host.start.as_ptr(), &mut offered) }
        .result()
        .map_err(|e| said("no memory type", e))?;
    // SAFETY: instance and physical device belong together and are alive while the device is.
    let all =
        unsafe { shared.raw_instance().get_physical_device_memory_properties(hal.raw_physical_device()) };
    let is_coherent = |i: u32| {
        let flags = all.memory_types[i as usize].property_flags;
        flags.contains(vk::MemoryPropertyFlags::HOST_COHERENT)
    };
    let bits = offered.memory_type_bits & taken;
    (0..all.memory_type_count)
        .find(|i| bits & (1 << i) != 0 && is_coherent(*i))
        .ok_or_else(|| "it has no coherent memory type for such pages".into())
}

fn said(what: &str, result: vk::Result) -> String {
    format!("{what} ({result:?})")
}
