//! Embeddings: one vector for a text, pooled from the values of the residual stream after the last norm.
//!
//! Those values are the same bits however the text was cut into steps, and sums go in the order of positions, so a text has
//! one embedding. Which pooling means something depends on how a model was trained; files of embedding models say it.

use minfer_gguf::Metadata;

use crate::error::EngineError;

/// How the values of all positions become one vector.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum Pooling {
    /// Their mean.
    #[default]
    Mean,
    /// Those of the last token.
    Last,
}

impl Pooling {
    /// What a file says in `{arch}.pooling_type`; `None` if it says nothing, or that there is none.
    pub(crate) fn of(metadata: &Metadata) -> Result<Option<Pooling>, EngineError> {
        let Some(architecture) = metadata.opt_str("general.architecture")? else { return Ok(None) };
        match metadata.opt_u32(&format!("{architecture}.pooling_type"))? {
            None | Some(0) => Ok(None),
            Some(1) => Ok(Some(Pooling::Mean)),
            Some(3) => Ok(Some(Pooling::Last)),
            Some(number) => Err(EngineError::Pooling { number }),
        }
    }
}

/// Scales a vector to length 1; one of zeros stays as it is.
pub fn l2_normalize(vector: &mut [f32]) {
    let length = vector.iter().map(|x| f64::from(*x) * f64::from(*x)).sum::<f64>().sqrt();
    if length > 0.0 {
        vector.iter_mut().for_each(|x| *x = (f64::from(*x) / length) as f32);
    }
}

/// Pools the positions of a text as they come.
pub(crate) struct Pool {
    pooling: Pooling,
    n_embd: usize,
    sum: Vec<f64>,
    n_pooled: usize,
}

impl Pool {
    pub(crate) fn new(pooling: Pooling, n_embd: usize) -> Pool {
        Pool { pooling, n_embd, sum: vec![0.0; n_embd], n_pooled: 0 }
    }

    /// Begins again.
    pub(crate) fn clear(&mut self) {
        self.sum.fill(0.0);
        self.n_pooled = 0;
    }

    /// Whether every position must be computed, rather than found in the cache.
    pub(crate) fn needs_all(&self) -> bool {
        self.pooling == Pooling::Mean
    }

    /// Rows that are wanted of a share of `n_tokens`, which ends with the text if `is_last`. They are its last ones.
    pub(crate) fn n_rows(&self, n_tokens: usize, is_last: bool) -> usize {
        match self.pooling {
            Pooling::Last => usize::from(is_last && n_tokens > 0),
            Pooling::Mean => n_tokens,
        }
    }

    /// Takes rows, in the order of positions.
    pub(crate) fn add(&mut self, rows: &[f32]) {
        for row in rows.chunks_exact(self.n_embd) {
            self.sum.iter_mut().zip(row).for_each(|(sum, x)| *sum += f64::from(*x));
            self.n_pooled += 1;
        }
    }

    /// The pooled vector.
    pub(crate) fn finish(&self) -> Vec<f32> {
        let n = self.n_pooled.max(1) as f64;
        self.sum.iter().map(|sum| (sum / n) as f32).collect()
    }
}

#[cfg(test)]
mod tests {
    #![allow(clippy::unwrap_used, reason = "a test that cannot go on should fail where it stands")]

    use minfer_gguf::Value;

    use super::*;

    #[test]
    fn rows_are_pooled_as_asked_however_they_come() {
        let rows: Vec<f32> = (0..12).map(|i| i as f32 * 0.5 - 1.0).collect();
        for (pooling, want) in [(Pooling::Mean, [1.25, 1.75, 2.25]), (Pooling::Last, [3.5, 4.0, 4.5])] {
            for n_chunk in 1..=4 {
                let mut pool = Pool::new(pooling, 3);
                for at in (0..4).step_by(n_chunk) {
                    let n = n_chunk.min(4 - at);
                    let n_rows = pool.n_rows(n, at + n == 4);
                    pool.add(&rows[3 * (at + n - n_rows)..3 * (at + n)]);
                }
                assert_eq!(pool.finish(), want, "{pooling:?}, {n_chunk} rows a chunk");
            }
        }
    }

    #[test]
    fn a_model_may_say_how() {
        let mut metadata = Metadata::new();
        metadata.set("general.architecture", Value::String("qwen3".into()));
        assert_eq!(Pooling::of(&metadata).unwrap(), None);
        for (number, pooling) in [(0, None), (1, Some(Pooling::Mean)), (3, Some(Pooling::Last))] {
            metadata.set("qwen3.pooling_type", Value::U32(number));
            assert_eq!(Pooling::of(&metadata).unwrap(), pooling, "{number}");
        }
        metadata.set("qwen3.pooling_type", Value::U32(2));
        let refused = Pooling::of(&metadata).unwrap_err();
        assert!(matches!(refused, EngineError::Pooling { number: 2 }), "{refused}");
    }

    #[test]
    fn length_becomes_one() {
        let mut vector = [3.0, 0.0, -4.0];
        l2_normalize(&mut vector);
        assert_eq!(vector, [0.6, 0.0, -0.8]);
        let mut zeros = [0.0; 3];
        l2_normalize(&mut zeros);
        assert_eq!(zeros, [0.0; 3]);
    }
}
