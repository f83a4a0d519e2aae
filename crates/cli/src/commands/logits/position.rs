//! What there is to say about the logits after one token.

use std::io::{self, Write};

use minfer_engine::sampler::{SampleError, top_logprobs};
use minfer_text::tokenizer::Tokenizer;
use serde::Serialize;

use crate::table::{Align, Table};
use crate::token::{self, Token};

/// A row of logits, summed up.
pub(super) struct Position {
    /// Index of the token that the row comes after.
    at: usize,
    mean: f64,
    /// Standard deviation.
    std: f64,
    /// Best first.
    top: Vec<Best>,
}

/// One of the best tokens.
struct Best {
    id: u32,
    logit: f32,
    /// ln p.
    logprob: f64,
}

impl Position {
    /// Sums up `logits: [n_vocab]`, with the `n_top` best tokens. Errors if a logit is not a number.
    pub(super) fn of(at: usize, logits: &[f32], n_top: usize) -> Result<Self, SampleError> {
        let best = top_logprobs(logits, n_top)?;
        let best =
            best.into_iter().map(|it| Best { id: it.id, logit: logits[it.id as usize], logprob: it.logprob });
        let n = logits.len() as f64;
        let mean = logits.iter().map(|&x| f64::from(x)).sum::<f64>() / n;
        let variance = logits.iter().map(|&x| (f64::from(x) - mean).powi(2)).sum::<f64>() / n;
        Ok(Self { at, mean, std: variance.sqrt(), top: best.collect() })
    }

    /// For people: a line about the row, then a table.
    pub(super) fn write(
        &self,
        tokens: &[u32],
        tokenizer: &Tokenizer,
        out: &mut impl Write,
    ) -> io::Result<()> {
        let after = tokens.get(self.at).map(|&id| token::quoted(tokenizer, id)).unwrap_or_default();
        let (at, mean, std) = (self.at, self.mean, self.std);
        writeln!(out, "after position {at}, {after}: mean {mean:.4}, standard deviation {std:.4}")?;
        let mut table = Table::new([
            ("id", Align::Right),
            ("logit", Align::Right),
            ("probability", Align::Right),
            ("token", Align::Left),
        ]);
        for best in &self.top {
            let probability = format!("{:.6}", best.logprob.exp());
            let logit = format!("{:.4}", best.logit);
            table.push([best.id.to_string(), logit, probability, token::quoted(tokenizer, best.id)]);
        }
        table.write(out, 2)
    }

    pub(super) fn to_json<'a>(&self, tokenizer: &'a Tokenizer) -> Json<'a> {
        let best =
            |it: &Best| JsonBest { token: Token::of(tokenizer, it.id), logit: it.logit, logprob: it.logprob };
        Json { position: self.at, mean: self.mean, std: self.std, top: self.top.iter().map(best).collect() }
    }
}

/// A row of logits, as `--json` shows it.
#[derive(Serialize)]
pub(super) struct Json<'a> {
    position: usize,
    mean: f64,
    std: f64,
    top: Vec<JsonBest<'a>>,
}

#[derive(Serialize)]
struct JsonBest<'a> {
    #[serde(flatten)]
    token: Token<'a>,
    logit: f32,
    logprob: f64,
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_row_is_summed_up() {
        let row = Position::of(3, &[1.0, 3.0, 1.0, 3.0], 3).unwrap();
        assert_eq!((row.at, row.mean, row.std), (3, 2.0, 1.0));
        assert_eq!(
            row.top.iter().map(|it| (it.id, it.logit)).collect::<Vec<_>>(),
            [(1, 3.0), (3, 3.0), (0, 1.0)]
        );
        let total: f64 =
            Position::of(0, &[1.0, 3.0, 1.0, 3.0], 9).unwrap().top.iter().map(|it| it.logprob.exp()).sum();
        assert!((total - 1.0).abs() < 1e-12, "{total}");
    }

    #[test]
    fn what_is_not_a_number_is_an_error() {
        assert!(Position::of(0, &[1.0, f32::NAN], 1).is_err());
    }
}
