//! Which part of a model a GPU takes: what is asked for, which device that means, and how many layers fit.
//!
//! **Rule.** A process that asks for no GPU on a machine that shows none loads no graphics library. A GPU that was asked for
//! by name, by layers or as an engine and cannot be had is an error; one that nobody asked for is left alone.

#[cfg(feature = "gpu")]
use std::path::Path;
use std::str::FromStr;
#[cfg(feature = "gpu")]
use std::sync::Arc;

use minfer_graph::{Backend, BackendDriver, GpuOffload, KvPart, KvSpec, Op, Registry, Support};

use crate::backends::GpuRequest;

/// Layers that a GPU takes.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum GpuLayers {
    /// As many as fit into its memory, if the machine has a GPU; none on a software adapter that was not asked for.
    #[default]
    Auto,
    /// The first so many; more than there are means the embedding and the output, too.
    Count(usize),
}

/// A number of layers that cannot be read.
#[derive(Clone, Copy, Debug, PartialEq, Eq, thiserror::Error)]
#[error("expected a number, 'all' or 'auto'")]
pub struct LayersError;

impl FromStr for GpuLayers {
    type Err = LayersError;

    fn from_str(text: &str) -> Result<GpuLayers, LayersError> {
        match text {
            "auto" => Ok(GpuLayers::Auto),
            "all" => Ok(GpuLayers::Count(usize::MAX)),
            n => n.parse().map(GpuLayers::Count).map_err(|_| LayersError),
        }
    }
}

/// Why a device cannot hold the KV cache of the layers that it is to take.
#[derive(Clone, Copy, Debug, PartialEq, Eq, thiserror::Error)]
pub enum CacheRefusal {
    /// It has no kernels for the type.
    #[error("no kernel there works on one of {kv_type}, {reason}")]
    Type {
        /// The type asked for.
        kv_type: &'static str,
        /// What it can do.
        reason: &'static str,
    },
    /// Keys or values of a layer are larger than what a kernel can be given.
    #[error(
        "keys of layer {layer} take {bytes} bytes, a kernel there sees {most} at once: \
         {n_positions} positions fit, of all sequences together (--ctx-size)"
    )]
    Size {
        /// The first layer that is too large.
        layer: usize,
        /// What its keys take.
        bytes: usize,
        /// What keys may take there.
        most: usize,
        /// Positions that fit.
        n_positions: usize,
    },
}

/// Why the driver cannot hold the cache of these layers, if it cannot.
pub(crate) fn cache_refusal(driver: &dyn BackendDriver, layers: &[KvSpec]) -> Option<CacheRefusal> {
    layers.iter().enumerate().find_map(|(layer, spec)| {
        let store = Op::KvcacheStore { layer, part: KvPart::K };
        if let Support::No(reason) = driver.supports_op(&store, spec.kv_type.tensor_type()) {
            return Some(CacheRefusal::Type { kv_type: spec.kv_type.dtype().name(), reason });
        }
        let parts = [KvPart::K, KvPart::V];
        let n_blocks = parts.iter().filter_map(|part| driver.max_kv_blocks(spec, *part)).min()?;
        let block = parts.iter().map(|part| driver.kv_block_bytes(spec, *part)).max()?;
        let (bytes, most) = (block.saturating_mul(spec.n_blocks), block.saturating_mul(n_blocks));
        let n_positions = n_blocks.saturating_mul(spec.block);
        (spec.n_blocks > n_blocks).then_some(CacheRefusal::Size { layer, bytes, most, n_positions })
    })
}

/// Whether a device is to be opened, and what its absence means.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum GpuWish {
    /// No.
    None,
    /// If the machine has one.
    IfThere,
    /// It was asked for.
    Needed,
}

/// The backend that GPUs of this system have.
pub(crate) const GPU: Backend = if cfg!(target_os = "macos") { Backend::METAL } else { Backend::VULKAN };

/// What the settings say: engines by name, engines that are switched off, layers, a device by name.
pub(crate) fn wish(
    backends: Option<&str>,
    disabled: &[Backend],
    layers: GpuLayers,
    device: Option<&str>,
) -> GpuWish {
    let names = |list: &str| list.split(',').filter_map(Backend::from_name).any(|b| b == GPU);
    let named = backends.map(names);
    if disabled.contains(&GPU) && named != Some(true) {
        return GpuWish::None;
    }
    match (named, layers, device) {
        (Some(false), _, _) => GpuWish::None,
        (_, GpuLayers::Count(0), _) if named != Some(true) => GpuWish::None,
        (Some(true), _, _) | (_, GpuLayers::Count(_), _) | (_, _, Some(_)) => GpuWish::Needed,
        (None, GpuLayers::Auto, None) => GpuWish::IfThere,
    }
}

/// Whether this machine shows a GPU at all, found out without loading anything.
pub(crate) fn may_be_there() -> bool {
    if !cfg!(target_os = "linux") {
        return cfg!(any(target_os = "macos", windows));
    }
    let has = |path: &str| std::path::Path::new(path).exists();
    let renders = std::fs::read_dir("/dev/dri").into_iter().flatten().flatten();
    let mut renders = renders.map(|entry| entry.file_name());
    has("/dev/nvidia0") || has("/dev/dxg") || renders.any(|n| n.to_string_lossy().starts_with("renderD"))
}

/// Adds the device called `device`, or the best, to the backends, or notes why it cannot be used. A build without GPUs does
/// neither.
#[cfg(feature = "gpu")]
pub(crate) fn register(registry: &mut Registry, request: GpuRequest<'_>) {
    let options = minfer_wgpu::WgpuOptions {
        device: request.device.map(str::to_owned),
        cache: request.cache.map(Path::to_owned),
        import: request.import,
        ..Default::default()
    };
    match minfer_wgpu::WgpuDriver::open(&options) {
        Ok(driver) => registry.register(Arc::new(driver)),
        Err(e) => registry.register_unusable(GPU, e.to_string()),
    }
}

/// Adds the device called `device`, or the best, to the backends, or notes why it cannot be used. A build without GPUs does
/// neither.
#[cfg(not(feature = "gpu"))]
pub(crate) fn register(_registry: &mut Registry, _request: GpuRequest<'_>) {}

/// Why a device takes none of a model's layers, if `n_fit` of them fit into its memory, or cannot be used.
pub(crate) fn left_out(registry: &Registry, n_fit: usize) -> Option<String> {
    let unusable = registry.unusable().iter().find(|u| u.backend == GPU);
    match (registry.driver(GPU), unusable) {
        (Some(driver), _) if n_fit == 0 => Some(format!("no layer fits into {}", driver.describe())),
        (None, Some(unusable)) => Some(unusable.reason.clone()),
        _ => None,
    }
}

/// The part of a model of `n_layers` layers that so many `layers` are; nothing without a device.
pub(crate) fn offload(registry: &Registry, layers: usize, n_layers: usize) -> Option<GpuOffload> {
    let whole = layers > n_layers;
    let taken = registry.driver(GPU).is_some() && layers > 0;
    taken.then(|| GpuOffload { backend: GPU, n_layers: layers.min(n_layers), outside_layers: whole })
}

#[cfg(test)]
mod tests {
    use minfer_graph::testing::NullDriver;
    use minfer_graph::{KvType, OpKind};

    use super::*;

    #[test]
    fn layers_are_a_number_or_a_word() {
        assert_eq!("auto".parse(), Ok(GpuLayers::Auto));
        assert_eq!("12".parse(), Ok(GpuLayers::Count(12)));
        assert_eq!("all".parse(), Ok(GpuLayers::Count(usize::MAX)));
        for text in ["", "many", "-1", "1.5"] {
            assert_eq!(text.parse::<GpuLayers>(), Err(LayersError), "{text}");
        }
    }

    #[test]
    fn a_cache_that_a_device_cannot_hold_is_refused_with_what_it_can() {
        let layer =
            |n_blocks| KvSpec { n_kv_heads: 2, head_dim: 32, block: 32, n_blocks, kv_type: KvType::F16 };
        let driver = NullDriver::new(GPU).limiting_kv(10_000);
        assert_eq!(cache_refusal(&driver, &[layer(2), layer(2)]), None);
        let refusal = cache_refusal(&driver, &[layer(2), layer(3)]);
        let size = CacheRefusal::Size { layer: 1, bytes: 3 * 4096, most: 2 * 4096, n_positions: 64 };
        assert_eq!(refusal, Some(size));
        assert!(size.to_string().contains("64 positions fit"), "{size}");
        let driver = NullDriver::new(GPU).refusing(&[OpKind::KvcacheStore]);
        let reason = "refused by the test";
        assert_eq!(cache_refusal(&driver, &[layer(1)]), Some(CacheRefusal::Type { kv_type: "f16", reason }));
    }

    #[test]
    fn nothing_is_opened_unless_it_can_take_part() {
        let auto = GpuLayers::Auto;
        assert_eq!(wish(None, &[], auto, None), GpuWish::IfThere);
        assert_eq!(wish(None, &[], GpuLayers::Count(0), None), GpuWish::None);
        assert_eq!(wish(Some("cpu"), &[], GpuLayers::Count(9), None), GpuWish::None);
        assert_eq!(wish(None, &[GPU], auto, None), GpuWish::None);
        assert_eq!(wish(None, &[], GpuLayers::Count(1), None), GpuWish::Needed);
        assert_eq!(wish(None, &[], auto, Some("radeon")), GpuWish::Needed);
        let name = format!(" CPU, {} ", GPU.name().to_uppercase());
        assert_eq!(wish(Some(&name), &[], auto, None), GpuWish::Needed);
    }
}
