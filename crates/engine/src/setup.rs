//! What a context is set up with, before it has memory: settings checked, backends found, sizes known. A plan is made from
//! it, and the context itself.

use std::sync::Arc;

use minfer_gguf::TensorType;
use minfer_graph::{CParams, GraphParams, GraphType, Head, KvSpec, Op, Registry, StepError, compile};

use crate::backends::{Backends, CpuRequest, GpuRequest};
use crate::context::KV_BLOCK;
use crate::error::EngineError;
use crate::gpu::{self, GpuLayers, GpuWish};
use crate::memory;
use crate::model::Model;
use crate::params::{ContextParams, DEFAULT_N_CTX};
use crate::selftest::first_use;

/// Places that a number tells apart.
const MAX_PLACES: usize = 1 << 24;

/// The step that gives the best token for each row of logits of `params`.
pub(crate) fn best_of(params: GraphParams) -> GraphParams {
    GraphParams { head: Head::Best, ..params }
}

pub(crate) struct Setup {
    pub(crate) backends: Arc<Backends>,
    pub(crate) registry: Registry,
    pub(crate) cparams: CParams,
    pub(crate) weights_version: u64,
    pub(crate) kv: Vec<KvSpec>,
    /// Positions of one sequence.
    pub(crate) n_ctx: usize,
    /// Why a GPU that nobody asked for takes no layers, if that is so.
    pub(crate) gpu_left_out: Option<String>,
}

impl Setup {
    pub(crate) fn new(model: &Arc<Model>, params: &ContextParams) -> Result<Setup, EngineError> {
        let n_ctx = match (params.n_ctx, model.description().hparams().n_ctx_train) {
            (0, 0) => DEFAULT_N_CTX,
            (0, trained) => trained,
            (n, _) => n,
        };
        params.check(n_ctx)?;
        let device = params.device.as_deref();
        let wish = gpu::wish(params.backends.as_deref(), &params.disabled, params.gpu_layers, device);
        let (cache, import) = (params.device_cache.as_deref(), params.gpu_import);
        let gpu = GpuRequest { wish, device, cache, import };
        let cpu = CpuRequest {
            n_threads: params.n_threads,
            n_threads_batch: params.n_threads_batch,
            isa: params.isa.as_deref(),
            packed_cache: params.packed_cache.as_ref(),
        };
        let backends = model.backends().get(cpu, gpu)?;
        let mut registry = backends.registry().clone();
        params.disabled.iter().for_each(|backend| registry.switch_off(*backend));
        let allowed = match &params.backends {
            Some(names) => registry.request(names)?,
            None => registry.available(),
        };
        if wish == GpuWish::Needed {
            registry.request(gpu::GPU.name())?;
        }
        let cparams = params.cparams(n_ctx, allowed);
        let kv = model.description().kv_specs(KV_BLOCK, cparams.n_kv_blocks, cparams.kv_type);
        let weights_version = model.weights().version();
        let mut setup = Setup { backends, registry, cparams, weights_version, kv, n_ctx, gpu_left_out: None };
        setup.place(model, params)?;
        setup.check_cache(wish)?;
        Ok(setup)
    }

    /// Gives the device its layers: those that were asked for, or as many as fit.
    fn place(&mut self, model: &Arc<Model>, params: &ContextParams) -> Result<(), EngineError> {
        let n_layers = model.description().hparams().n_layers;
        match params.gpu_layers {
            GpuLayers::Count(n) => self.cparams.gpu = gpu::offload(&self.registry, n, n_layers),
            GpuLayers::Auto => {
                // What fits for more layers fits for fewer; mostly all of them do, so that is asked first.
                let (mut fits, mut most, mut n) = (0, n_layers + 1, n_layers + 1);
                while fits < most && self.registry.driver(gpu::GPU).is_some() {
                    self.cparams.gpu = gpu::offload(&self.registry, n, n_layers);
                    if memory::fits_on_device(model, params, self)? {
                        fits = n
                    } else {
                        most = n - 1
                    }
                    n = fits + (most - fits).div_ceil(2);
                }
                self.cparams.gpu = gpu::offload(&self.registry, fits, n_layers);
                self.gpu_left_out = gpu::left_out(&self.registry, fits);
            }
        }
        Ok(())
    }

    /// Whether the device can hold the cache of its layers: an error if it was asked for, else it takes no layers.
    fn check_cache(&mut self, wish: GpuWish) -> Result<(), EngineError> {
        let driver = self.cparams.gpu.and_then(|gpu| Some((gpu, self.registry.driver(gpu.backend)?)));
        let Some((gpu, driver)) = driver else { return Ok(()) };
        let layers = &self.kv[..gpu.n_layers.min(self.kv.len())];
        match gpu::cache_refusal(driver.as_ref(), layers) {
            None => Ok(()),
            Some(refusal) if wish == GpuWish::Needed => {
                Err(EngineError::DeviceCache { device: driver.describe(), refusal })
            }
            Some(refusal) => {
                self.gpu_left_out =
                    Some(format!("{} cannot hold the KV cache: {refusal}", driver.describe()));
                self.cparams.gpu = None;
                Ok(())
            }
        }
    }

    /// Tests the kernels that the model would use on a device, if it uses one.
    pub(crate) fn try_device(&self, model: &Arc<Model>) -> Result<(), EngineError> {
        let driver = self.cparams.gpu.and_then(|gpu| self.registry.driver(gpu.backend));
        let Some(driver) = driver else { return Ok(()) };
        let mut steps = vec![self.params(1, 1, GraphType::Decode), self.params(2, 2, GraphType::Prefill)];
        steps.extend(self.finds_best(model).then(|| best_of(steps[0])));
        let graphs =
            steps.into_iter().map(|p| compile(model.description(), &p, &self.registry, &mut |_, _| {}));
        let graphs = graphs.collect::<Result<Vec<_>, _>>().map_err(StepError::from)?;
        first_use(driver, &graphs)
    }

    /// Whether the device that makes the logits can find the best of them.
    pub(crate) fn finds_best(&self, model: &Model) -> bool {
        let gpu = self.cparams.gpu.filter(|gpu| gpu.outside_layers);
        let driver = gpu.and_then(|gpu| self.registry.driver(gpu.backend));
        let claims = driver.is_some_and(|d| d.supports_op(&Op::Argmax, TensorType::F32).is_yes());
        claims && model.n_vocab() <= MAX_PLACES
    }

    /// The params of a step.
    pub(crate) fn params(&self, n_tokens: usize, n_out: usize, gtype: GraphType) -> GraphParams {
        let (cparams, weights_version) = (self.cparams, self.weights_version);
        GraphParams { n_tokens, n_out, head: Head::Logits, gtype, cparams, weights_version }
    }
}

#[cfg(test)]
mod tests {
    use minfer_graph::testing::NullDriver;

    use super::*;

    /// A context of which a device that holds so many bytes of keys has all layers.
    fn setup(bytes: usize) -> Setup {
        let path = concat!(env!("CARGO_MANIFEST_DIR"), "/../../tests/data/llama-q4_1.gguf");
        let model = Model::load(path.as_ref(), &Default::default()).unwrap();
        let params =
            ContextParams { n_ctx: 256, gpu_layers: GpuLayers::Count(0), ..ContextParams::default() };
        let mut setup = Setup::new(&model, &params).unwrap();
        setup.registry.register(Arc::new(NullDriver::new(gpu::GPU).limiting_kv(bytes)));
        setup.cparams.gpu = gpu::offload(&setup.registry, usize::MAX, 2);
        setup
    }

    #[test]
    fn a_device_that_cannot_hold_the_cache_is_an_error_if_asked_for_and_otherwise_left_out_with_the_reason() {
        let mut fits = setup(1 << 20);
        assert!(fits.check_cache(GpuWish::IfThere).is_ok());
        assert!(fits.cparams.gpu.is_some() && fits.gpu_left_out.is_none());
        let asked_for = setup(4096).check_cache(GpuWish::Needed);
        assert!(matches!(asked_for, Err(EngineError::DeviceCache { .. })));
        let mut left = setup(4096);
        assert!(left.check_cache(GpuWish::IfThere).is_ok());
        assert_eq!(left.cparams.gpu, None);
        let reason = left.gpu_left_out.unwrap();
        assert!(
            reason.starts_with("does nothing cannot hold the KV cache: keys of layer 0 take"),
            "{reason}"
        );
        assert!(reason.contains("positions fit"), "{reason}");
    }
}
