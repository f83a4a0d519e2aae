//! The architecture: keys, tensors and shapes; and whether the model computes anything.

use minfer_gguf::Gguf;
use minfer_models::HParams;

use crate::context::Context;
use crate::error::EngineError;
use crate::model::Model;
use crate::params::ContextParams;

use super::{Check, Severity, VerifyOptions};

/// Positions of the context of a trial.
const N_CTX: usize = 32;

/// Tokens that a trial reads before it generates one.
const N_PROMPT: u32 = 3;

pub(super) fn check(file: &Gguf) -> (Check, Option<HParams>) {
    let mut check = Check::new("model");
    match minfer_models::describe(file) {
        Ok(model) => {
            let h = model.hparams().clone();
            check.add(
                Severity::Note,
                format!(
                    "architecture {}: {} layers, {} heads over {} of keys and values, {} tokens; every tensor \
                     is there and has its shape",
                    model.architecture(),
                    h.n_layers,
                    h.n_heads,
                    h.n_kv_heads,
                    h.n_vocab
                ),
            );
            if h.n_layers == 0 {
                check.add(Severity::Warning, "the model has no layers");
            }
            (check, Some(h))
        }
        Err(error) => {
            check.add(Severity::Fatal, error.to_string());
            (check, None)
        }
    }
}

/// Loads the weights and runs a few tokens, as a prompt and one by one.
pub(super) fn run(file: Gguf, options: &VerifyOptions) -> Check {
    let mut check = Check::new("run");
    match trial(file, options) {
        Ok(n_bad) if n_bad > 0 => check.add(
            Severity::Damage,
            format!("after a few tokens {n_bad} logits are no finite numbers; no token could be chosen"),
        ),
        Ok(_) => check.add(Severity::Note, "a few tokens were run, every logit is a finite number"),
        // It says nothing about the file that this machine is too small for it.
        Err(error @ EngineError::Memory(_)) => check.add(Severity::Warning, error.to_string()),
        Err(error) => check.add(Severity::Fatal, error.to_string()),
    }
    check
}

/// How many logits are not finite.
fn trial(file: Gguf, options: &VerifyOptions) -> Result<usize, EngineError> {
    let model = Model::from_file(file, &[])?;
    let params =
        ContextParams { n_ctx: N_CTX, n_threads: Some(options.n_threads.max(1)), ..Default::default() };
    let mut context = Context::new(&model, &params, &mut |_, _| {})?;
    let seq = context.new_sequence()?;
    let n_vocab = model.n_vocab() as u32;
    let tokens: Vec<u32> = (0..=N_PROMPT).map(|i| (i * n_vocab / (N_PROMPT + 1)).min(n_vocab - 1)).collect();
    let (last, prompt) = tokens.split_last().ok_or(EngineError::EmptyPrompt)?;
    context.prefill(seq, prompt, &mut |_| std::ops::ControlFlow::Continue(()))?;
    let logits = context.step(&[crate::context::Row { seq, token: *last, wants_logits: true }])?;
    Ok(logits.iter().filter(|x| !x.is_finite()).count())
}
