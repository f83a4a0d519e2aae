//! What a context is set up with, before it has memory: settings checked, backends found, sizes known. A plan is made from
//! it, and the context itself.

use std::sync::Arc;

use minfer_graph::{CParams, GraphParams, GraphType, KvSpec, Registry};

use crate::backends::Backends;
use crate::context::{self, ContextParams, DEFAULT_N_CTX, KV_BLOCK};
use crate::error::EngineError;
use crate::model::Model;

pub(crate) struct Setup {
    pub(crate) backends: Arc<Backends>,
    pub(crate) registry: Registry,
    pub(crate) cparams: CParams,
    pub(crate) weights_version: u64,
    pub(crate) kv: Vec<KvSpec>,
    /// Positions of one sequence.
    pub(crate) n_ctx: usize,
}

impl Setup {
    pub(crate) fn new(model: &Arc<Model>, params: &ContextParams) -> Result<Setup, EngineError> {
        let n_ctx = match (params.n_ctx, model.description().hparams().n_ctx_train) {
            (0, 0) => DEFAULT_N_CTX,
            (0, trained) => trained,
            (n, _) => n,
        };
        context::check_settings(params, n_ctx)?;
        let backends = model.backends().get(params.n_threads, params.isa.as_deref())?;
        let mut registry = backends.registry().clone();
        params.disabled.iter().for_each(|backend| registry.switch_off(*backend));
        let allowed = match &params.backends {
            Some(names) => registry.request(names)?,
            None => registry.available(),
        };
        let cparams = context::cparams(params, n_ctx, allowed);
        let kv = model.description().kv_specs(KV_BLOCK, cparams.n_kv_blocks, cparams.kv_type);
        let weights_version = model.weights().version();
        Ok(Setup { backends, registry, cparams, weights_version, kv, n_ctx })
    }

    /// The params of a step.
    pub(crate) fn params(&self, n_tokens: usize, n_out: usize, gtype: GraphType) -> GraphParams {
        GraphParams { n_tokens, n_out, gtype, cparams: self.cparams, weights_version: self.weights_version }
    }
}
