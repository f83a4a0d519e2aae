//! Walks over a whole row of logits: the only part of sampling that sees every token.
//!
//! A row is walked in chunks of 32, one mask word each. A chunk with a bias, a penalty or a forbidden token is patched in
//! a copy; all others are read in place. The loops over a chunk have no branches, so that they become vector code, and
//! most chunks hold nothing good enough and are left after one comparison.

use super::rank::Ranked;
use super::{SampleError, TokenMask};

const CHUNK: usize = TokenMask::WORD_TOKENS;

/// Patch space left to [`BestTokens`] between two selections.
const SLACK: usize = 256;

/// A row of logits as the chain sees it: mask, bias and penalties applied.
#[derive(Clone, Copy)]
pub(super) struct Row<'a> {
    pub(super) logits: &'a [f32],
    pub(super) mask: Option<TokenMask<'a>>,
    /// Changed logits by rising id.
    pub(super) adjusted: &'a [(u32, f32)],
}

impl Row<'_> {
    /// Calls `visit(first id, logits)` chunk by chunk; past the end and where forbidden a logit is negative infinity.
    /// Errors at the first NaN or positive infinity.
    fn for_each_chunk(&self, mut visit: impl FnMut(u32, &[f32; CHUNK])) -> Result<(), SampleError> {
        let mut adjusted = self.adjusted;
        for (index, raw) in self.logits.chunks(CHUNK).enumerate() {
            let first = (index * CHUNK) as u32;
            let allowed = self.mask.map_or(u32::MAX, |mask| mask.word(index));
            let n_here = adjusted.iter().take_while(|a| a.0 < first + CHUNK as u32).count();
            let (here, later) = adjusted.split_at(n_here);
            adjusted = later;
            if allowed == 0 {
                continue;
            }
            match <&[f32; CHUNK]>::try_from(raw) {
                Ok(whole) if here.is_empty() && allowed == u32::MAX => {
                    visit_checked(first, whole, &mut visit)?
                }
                _ => visit_checked(first, &patched(first, raw, here, allowed), &mut visit)?,
            }
        }
        Ok(())
    }

    /// The best token, the lowest id among equals.
    pub(super) fn best(&self) -> Result<Ranked, SampleError> {
        let (mut best_id, mut best) = (0, f32::NEG_INFINITY);
        self.for_each_chunk(|first, chunk| {
            if max_of(chunk) > best {
                for (i, &logit) in chunk.iter().enumerate() {
                    if logit > best {
                        (best_id, best) = (first + i as u32, logit);
                    }
                }
            }
        })?;
        if best == f32::NEG_INFINITY { Err(SampleError::NoCandidate) } else { Ok(Ranked::new(best_id, best)) }
    }

    /// `best logit - n_sigma * standard deviation`, over the tokens that can be drawn.
    pub(super) fn sigma_floor(&self, n_sigma: f32) -> Result<f32, SampleError> {
        let (mut n, mut sum, mut max) = (0u32, 0.0, f32::NEG_INFINITY);
        self.for_each_chunk(|_, chunk| {
            max = max.max(max_of(chunk));
            for &x in chunk.iter().filter(|x| x.is_finite()) {
                n += 1;
                sum += f64::from(x);
            }
        })?;
        let mean = sum / f64::from(n);
        let mut squares = 0.0;
        self.for_each_chunk(|_, chunk| {
            for &x in chunk.iter().filter(|x| x.is_finite()) {
                squares += (f64::from(x) - mean) * (f64::from(x) - mean);
            }
        })?;
        let sigma = (squares / f64::from(n.max(1))).sqrt();
        Ok((f64::from(max) - f64::from(n_sigma) * sigma) as f32)
    }

    /// Fills `out` with the `k` best tokens (all for 0) whose logit is at least `floor`, best first.
    pub(super) fn best_k(&self, k: u32, floor: f32, out: &mut Vec<Ranked>) -> Result<(), SampleError> {
        out.clear();
        let k = if k == 0 { usize::MAX } else { k as usize };
        let mut best = BestTokens { kept: out, k, above: floor.next_down() };
        self.for_each_chunk(|first, chunk| best.offer(first, chunk))?;
        best.finish();
        if out.is_empty() { Err(SampleError::NoCandidate) } else { Ok(()) }
    }
}

fn visit_checked(
    first: u32,
    chunk: &[f32; CHUNK],
    visit: &mut impl FnMut(u32, &[f32; CHUNK]),
) -> Result<(), SampleError> {
    if chunk.iter().fold(false, |bad, &x| bad | is_bad(x)) {
        let at = chunk.iter().position(|&x| is_bad(x)).unwrap_or(0);
        return Err(SampleError::BadLogit { id: first + at as u32, value: chunk[at] });
    }
    visit(first, chunk);
    Ok(())
}

fn is_bad(x: f32) -> bool {
    x.is_nan() | (x == f32::INFINITY)
}

fn patched(first: u32, raw: &[f32], adjusted: &[(u32, f32)], allowed: u32) -> [f32; CHUNK] {
    let mut chunk = [f32::NEG_INFINITY; CHUNK];
    chunk[..raw.len()].copy_from_slice(raw);
    for &(id, logit) in adjusted {
        chunk[(id - first) as usize] = logit;
    }
    for (i, logit) in chunk.iter_mut().enumerate() {
        if allowed >> i & 1 == 0 {
            *logit = f32::NEG_INFINITY;
        }
    }
    chunk
}

fn max_of(chunk: &[f32; CHUNK]) -> f32 {
    // Eight running maxima: one would be a chain of 32 dependent comparisons.
    let mut max = [f32::NEG_INFINITY; 8];
    for eight in chunk.as_chunks::<8>().0 {
        for (m, &x) in max.iter_mut().zip(eight) {
            *m = if x > *m { x } else { *m };
        }
    }
    max.into_iter().fold(f32::NEG_INFINITY, |a, b| if b > a { b } else { a })
}

/// The best `k` so far and some more, with the logit that a token must exceed to be among them.
///
/// Ids come rising, so a later token that ties with the threshold ranks below all that are kept.
struct BestTokens<'a> {
    kept: &'a mut Vec<Ranked>,
    k: usize,
    above: f32,
}

impl BestTokens<'_> {
    fn offer(&mut self, first: u32, chunk: &[f32; CHUNK]) {
        if max_of(chunk) > self.above {
            for (i, &logit) in chunk.iter().enumerate() {
                if logit > self.above {
                    self.kept.push(Ranked::new(first + i as u32, logit));
                }
            }
            if self.kept.len() > self.k.saturating_add(self.k.max(SLACK)) {
                self.select();
            }
        }
    }

    /// Keeps the best `k` of more than `k`, in no order.
    fn select(&mut self) {
        let (_, worst, _) = self.kept.select_nth_unstable_by(self.k - 1, |a, b| b.cmp(a));
        self.above = worst.logit();
        self.kept.truncate(self.k);
    }

    fn finish(mut self) {
        if self.kept.len() > self.k {
            self.select();
        }
        self.kept.sort_unstable_by(|a, b| b.cmp(a));
    }
}
