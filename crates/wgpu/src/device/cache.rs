//! Compiled kernels, kept in a file from one process to the next.
//!
//! The file is a help and nothing else: one that is missing, damaged, of another driver or cannot be written changes no
//! result and is no error.

use std::io::Write;
use std::path::{Path, PathBuf};
use std::sync::atomic::{AtomicU64, Ordering};

use minfer_gguf::create_atomically;
use wgpu::{AdapterInfo, Features, PipelineCacheDescriptor};

/// Bytes of the checksum in front of the data.
const SUM_BYTES: usize = 8;

/// What the driver keeps of its compiled kernels.
pub(super) struct PipelineCache {
    raw: wgpu::PipelineCache,
    file: PathBuf,
    /// Pipelines that the file knows.
    n_kept: AtomicU64,
}

impl PipelineCache {
    /// The cache of this adapter in `folder`; `None` where the device or the caller wants none.
    pub(super) fn open(
        device: &wgpu::Device,
        info: &AdapterInfo,
        folder: Option<&Path>,
    ) -> Option<PipelineCache> {
        let name = wgpu::util::pipeline_cache_key(info)?;
        let file = folder?.join(name);
        if !device.features().contains(Features::PIPELINE_CACHE) {
            return None;
        }
        let data = std::fs::read(&file).ok();
        let data = data.as_deref().and_then(checked);
        Some(PipelineCache { raw: create(device, data), file, n_kept: AtomicU64::new(0) })
    }

    /// For the compilation of a kernel.
    pub(super) fn raw(&self) -> &wgpu::PipelineCache {
        &self.raw
    }

    /// Writes the file if there are more pipelines than it knows.
    pub(super) fn keep(&self, n_pipelines: u64) {
        if self.n_kept.fetch_max(n_pipelines, Ordering::Relaxed) >= n_pipelines {
            return;
        }
        let Some(data) = self.raw.get_data() else { return };
        let folder_is_there = self.file.parent().is_some_and(|f| std::fs::create_dir_all(f).is_ok());
        if folder_is_there {
            let _ = create_atomically(&self.file, |out| {
                out.write_all(&checksum(&data).to_le_bytes())?;
                out.write_all(&data)
            });
        }
    }
}

#[expect(unsafe_code, reason = "drivers trust what they are given back")]
fn create(device: &wgpu::Device, data: Option<&[u8]>) -> wgpu::PipelineCache {
    // SAFETY: the data is what a cache of the same adapter gave: the file's name says which, its checksum that it is whole,
    // and the driver compares its own version.
    unsafe { device.create_pipeline_cache(&PipelineCacheDescriptor { label: None, data, fallback: true }) }
}

/// The data of a file whose checksum is right.
fn checked(file: &[u8]) -> Option<&[u8]> {
    let (sum, data) = file.split_at_checked(SUM_BYTES)?;
    (checksum(data).to_le_bytes() == sum).then_some(data)
}

/// FNV-1a.
fn checksum(data: &[u8]) -> u64 {
    data.iter()
        .fold(0xcbf2_9ce4_8422_2325, |sum, byte| (sum ^ u64::from(*byte)).wrapping_mul(0x100_0000_01b3))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn damaged_files_are_not_used() {
        let data = b"compiled";
        let file = [&checksum(data).to_le_bytes()[..], data].concat();
        assert_eq!(checked(&file), Some(&data[..]));
        for at in 0..file.len() {
            let mut bad = file.clone();
            bad[at] ^= 1;
            assert_eq!(checked(&bad), None);
            assert_eq!(checked(&file[..at]), None);
        }
    }
}
