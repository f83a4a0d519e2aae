//! What a device takes of a model, and whether it fits into the device's own memory.

use std::fmt;
use std::sync::Arc;

use minfer_graph::Backend;

use super::shortage::size;
use super::sizes::Sizes;
use crate::error::EngineError;
use crate::model::Model;
use crate::params::ContextParams;
use crate::setup::Setup;

/// Share of a device's memory that a model may take, in percent: the system and other programs use the rest.
const USABLE_PERCENT: usize = 90;

/// The part of a model that a device holds, and what that takes.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct GpuShare {
    /// Which engine.
    pub backend: Backend,
    /// The device, in words.
    pub device: String,
    /// Layers on the device: the first so many.
    pub n_layers: usize,
    /// Layers of the model.
    pub of_layers: usize,
    /// Whether embedding and output are on the device, too.
    pub outside_layers: bool,
    /// Bytes of weights that are not there yet and will be copied to it.
    pub weights: usize,
    /// Bytes of the mapped file's pages that it will read in place.
    pub in_place: usize,
    /// Why it reads no weights in place, if it does not.
    pub uploaded_because: Option<String>,
    /// Bytes of keys and values.
    pub kv: usize,
    /// Bytes of node values.
    pub activations: usize,
    /// Bytes of working memory.
    pub scratch: usize,
    /// Bytes of memory of its own; `None` for a device that works in the machine's, where the plan counts it.
    pub own_memory: Option<usize>,
}

impl GpuShare {
    pub(super) fn of(sizes: &Sizes, setup: &Setup, model: &Model) -> Option<GpuShare> {
        let gpu = setup.cparams.gpu?;
        let driver = setup.registry.driver(gpu.backend)?;
        let (_, size) = sizes.of_backends.iter().find(|(backend, _)| *backend == gpu.backend)?;
        Some(GpuShare {
            backend: gpu.backend,
            device: driver.describe(),
            n_layers: gpu.n_layers,
            of_layers: model.description().hparams().n_layers,
            outside_layers: gpu.outside_layers,
            weights: size.weights,
            in_place: size.in_place,
            uploaded_because: size.uploaded_because.clone(),
            kv: size.kv,
            activations: size.arena,
            scratch: size.scratch,
            own_memory: driver.own_memory(),
        })
    }

    /// Bytes of all of it.
    pub fn total(&self) -> usize {
        let parts = [self.weights, self.in_place, self.kv, self.activations, self.scratch];
        parts.into_iter().fold(0, usize::saturating_add)
    }

    /// Whether it fits into what the device has of its own.
    pub fn fits(&self) -> bool {
        self.own_memory.is_none_or(|own| self.total() <= own / 100 * USABLE_PERCENT)
    }
}

impl fmt::Display for GpuShare {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let outside = if self.outside_layers { ", embedding and output" } else { "" };
        write!(
            f,
            "{} of {} layers{outside} take {} on {} ({}): weights {}, ",
            self.n_layers,
            self.of_layers,
            size(self.total()),
            self.backend.name(),
            self.device,
            size(self.weights),
        )?;
        match &self.uploaded_because {
            Some(reason) => write!(f, "copied from the file ({reason}), ")?,
            None => write!(f, "{} of the file read in place, ", size(self.in_place))?,
        }
        let rest = [self.kv, self.activations, self.scratch].map(size);
        write!(f, "KV cache {}, activations {}, working memory {}", rest[0], rest[1], rest[2])
    }
}

/// Whether what the setup gives the device fits there.
pub(crate) fn fits_on_device(
    model: &Arc<Model>,
    params: &ContextParams,
    setup: &Setup,
) -> Result<bool, EngineError> {
    let sizes = Sizes::of(model, setup, &super::largest_steps(params, setup))?;
    Ok(GpuShare::of(&sizes, setup, model).is_none_or(|share| share.fits()))
}
