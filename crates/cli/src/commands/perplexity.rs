//! `minfer perplexity`: how well the model predicts a text.

use std::io::Write;

use minfer_engine::EngineError;
use minfer_engine::sampler::logprob;
use serde::Serialize;

use crate::args::PerplexityArgs;
use crate::error::CliError;
use crate::rows::{self, Wanted};
use crate::shell::Shell;
use crate::{engine, prompt};

pub(super) fn run(args: PerplexityArgs, shell: &mut Shell) -> anyhow::Result<()> {
    let (name, argument) = args.model.require(args.prompt.argument.as_deref())?;
    let model = engine::load(&name, &args.model.open)?;
    let tokens = prompt::raw_ids(&model, argument, &args.prompt, &args.tokens, shell)?;
    let wanted = Wanted::every(args.context.compute.n_ubatch(), model.n_vocab());
    let mut context = engine::with_outputs(&model, &args.context, wanted.n_outputs(), shell)?;
    engine::load_weights(&mut context, shell)?;
    let n_piece = context.n_ctx().max(1);
    let mut nll = Vec::with_capacity(tokens.len());
    rows::for_each(&mut context, &tokens, n_piece, wanted, &mut |at, row| {
        let is_predicted = (at + 1) % n_piece != 0;
        if let Some(&next) = tokens.get(at + 1).filter(|_| is_predicted) {
            nll.push(-logprob(row, next).map_err(EngineError::from)?);
        }
        Ok(())
    })?;
    let result =
        Perplexity::of(tokens.len(), n_piece, nll).ok_or(CliError::Missing { what: "second token" })?;
    if args.json {
        shell.out.json(&result)?;
    } else {
        let Perplexity { perplexity, deviation, predicted, .. } = result;
        writeln!(shell.out, "perplexity {perplexity:.4} ± {deviation:.4} over {predicted} tokens")?;
    }
    engine::finish(&mut context, &args.context.compute, shell)
}

/// The result, as `--json` shows it.
#[derive(Debug, Serialize)]
struct Perplexity {
    perplexity: f64,
    /// What chance leaves open: the standard error.
    deviation: f64,
    /// Tokens of the text.
    tokens: usize,
    /// Those of them that were predicted.
    predicted: usize,
    /// Tokens of a piece that is read by itself.
    n_ctx: usize,
    /// -ln p of each predicted token.
    nll: Vec<f64>,
}

impl Perplexity {
    /// `None` if nothing was predicted.
    fn of(n_tokens: usize, n_ctx: usize, nll: Vec<f64>) -> Option<Self> {
        let n = nll.len() as f64;
        let mean = (!nll.is_empty()).then(|| nll.iter().sum::<f64>() / n)?;
        let variance = nll.iter().map(|it| (it - mean).powi(2)).sum::<f64>() / (n - 1.0).max(1.0);
        let perplexity = mean.exp();
        let deviation = perplexity * (variance / n).sqrt();
        Some(Self { perplexity, deviation, tokens: n_tokens, predicted: nll.len(), n_ctx, nll })
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn perplexity_is_the_exponential_of_the_mean() {
        let result = Perplexity::of(4, 9, vec![1.0, 2.0, 3.0]).unwrap();
        assert_eq!((result.perplexity, result.predicted), (2f64.exp(), 3));
        assert_eq!(result.deviation, 2f64.exp() * (1.0f64 / 3.0).sqrt());
        assert_eq!(Perplexity::of(2, 9, vec![1.0]).unwrap().deviation, 0.0);
        assert!(Perplexity::of(1, 9, Vec::new()).is_none());
    }
}
