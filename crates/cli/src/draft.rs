//! The draft model of a run: a second, smaller one, in a context like the model's.

use std::sync::Arc;

use minfer_engine::memory::Plan;
use minfer_engine::{Context, ContextParams, Model};

use crate::args::{OpenArgs, SpeculationArgs};
use crate::engine;

/// A draft model that is not loaded yet.
pub(crate) struct Draft {
    model: Arc<Model>,
    params: ContextParams,
    n_min: usize,
}

impl Draft {
    /// Opens the draft model, if flags ask for one; `own` is how the model's context is set up.
    pub(crate) fn open(
        args: &SpeculationArgs,
        open: &OpenArgs,
        own: &ContextParams,
    ) -> anyhow::Result<Option<Draft>> {
        let n_min = args.n_min()?;
        let Some(name) = args.model_draft.as_deref().filter(|_| args.mode().max() > 0) else {
            return Ok(None);
        };
        // What is stated in place of metadata is about the model.
        let open = OpenArgs { override_kv: Vec::new(), ..*open };
        let model = engine::load(name, &open)?;
        let n_ctx = match model.description().hparams().n_ctx_train {
            0 => own.n_ctx,
            // A longer text is not guessed for.
            trained => own.n_ctx.min(trained),
        };
        let params = ContextParams { n_ctx, n_outputs_max: None, trace: None, ..own.clone() };
        Ok(Some(Draft { model, params, n_min }))
    }

    /// Bytes that it will take.
    pub(crate) fn bytes(&self) -> anyhow::Result<usize> {
        Ok(Plan::new(&self.model, &self.params)?.missing())
    }

    /// Makes it guess for a context.
    pub(crate) fn give_to(self, context: &mut Context) -> anyhow::Result<()> {
        let draft = Context::without_weights(&self.model, &self.params)?;
        Ok(context.set_draft(draft, self.n_min)?)
    }
}
