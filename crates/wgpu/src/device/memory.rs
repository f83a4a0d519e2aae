//! How much memory a device has, which wgpu does not say.

/// Bytes of the heap that kernels work in, where the system says.
#[cfg(not(target_os = "macos"))]
#[expect(unsafe_code, reason = "asks the driver behind wgpu")]
pub(super) fn bytes(adapter: &wgpu::Adapter) -> Option<u64> {
    /// `VK_MEMORY_HEAP_DEVICE_LOCAL_BIT`.
    const DEVICE_LOCAL: u32 = 1;
    // SAFETY: the adapter behind the guard is only asked, and nothing of it is kept.
    let found = unsafe { adapter.as_hal::<wgpu::hal::api::Vulkan>() }?;
    let instance = found.shared_instance().raw_instance();
    // SAFETY: instance and physical device belong together and are alive while `found` is.
    let heaps = unsafe { instance.get_physical_device_memory_properties(found.raw_physical_device()) };
    let heaps = heaps.memory_heaps.iter().take(heaps.memory_heap_count as usize);
    heaps.filter(|heap| heap.flags.as_raw() & DEVICE_LOCAL != 0).map(|heap| heap.size).max()
}

/// Bytes of the heap that kernels work in, where the system says. Metal devices work in the machine's memory.
#[cfg(target_os = "macos")]
pub(super) fn bytes(_adapter: &wgpu::Adapter) -> Option<u64> {
    None
}
