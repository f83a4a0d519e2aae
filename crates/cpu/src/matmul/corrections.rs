//! What kernels add to their integer sums because of how weights are stored, worked out once for each form that the
//! matrices of a step want, and shared by all their panels.

use super::activations::TileSpan;

/// A form of corrections. A word is a sum of products of integers, so its order of magnitude is bounded as in `scales.rs`.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Correction {
    /// Not read.
    None,
    /// Per step and token, `-offset * sum(q)`.
    Step { offset: i32 },
    /// Per step, half and token, `-offset * sum(q of the half)`.
    Halves { offset: i32 },
    /// Per step and token, the sums of q of the halves, as a pair of i16 (they are at most 16 * 127).
    Pair,
}

impl Correction {
    /// Words per step and token.
    pub(super) const fn words(self) -> usize {
        match self {
            Correction::None => 0,
            Correction::Step { .. } | Correction::Pair => 1,
            Correction::Halves { .. } => 2,
        }
    }

    /// Fills `out`, for each tile `[step][half][token]` or `[step][token]`, from sums `[step][half][token]`.
    fn fill(self, tiles: &[TileSpan], steps: usize, half_sums: &[i32], out: &mut [i32]) {
        if let Correction::Halves { offset } = self {
            out.iter_mut().zip(half_sums).for_each(|(out, sum)| *out = -offset * sum);
            return;
        }
        let join = |a: i32, b: i32| match self {
            Correction::Step { offset } => -offset * (a + b),
            _ => a & 0xFFFF | b << 16,
        };
        for &TileSpan { first, len } in tiles {
            let sums = half_sums[first * steps * 2..].chunks_exact(2 * len);
            let out = out[first * steps..][..len * steps].chunks_exact_mut(len);
            for (out, (a, b)) in out.zip(sums.map(|sums| sums.split_at(len))) {
                out.iter_mut().zip(a.iter().zip(b)).for_each(|(out, (&a, &b))| *out = join(a, b));
            }
        }
    }
}

/// The forms that have been asked for since the activations were quantized. Their memory is used again.
#[derive(Default)]
pub(super) struct Corrections {
    forms: Vec<(Correction, Vec<i32>)>,
    n_current: usize,
}

/// Most forms at once: one for each matrix that reads the same activations in one fork-join.
pub(super) const MAX_FORMS: usize = 3;

impl Corrections {
    /// Other activations have come.
    pub(super) fn clear(&mut self) {
        self.n_current = 0;
    }

    /// Works out a form, unless that has been done.
    pub(super) fn add(&mut self, form: Correction, tiles: &[TileSpan], steps: usize, half_sums: &[i32]) {
        if self.get(form).is_some() {
            return;
        }
        // The place after the current ones, or, with all of them taken, that of the first: see `MAX_FORMS`.
        let at = if self.n_current < MAX_FORMS { self.n_current } else { 0 };
        if at == self.forms.len() {
            self.forms.push((form, Vec::new()));
        }
        let n = half_sums.len() / 2 * form.words();
        let (name, words) = &mut self.forms[at];
        *name = form;
        super::activations::resize_exact(words, n, 0);
        form.fill(tiles, steps, half_sums, words);
        self.n_current = (at + 1).max(self.n_current);
    }

    /// The words of a form that has been [added](Corrections::add).
    pub(super) fn get(&self, form: Correction) -> Option<&[i32]> {
        if form == Correction::None {
            return Some(&[]);
        }
        self.forms[..self.n_current].iter().find(|(name, _)| *name == form).map(|(_, words)| &**words)
    }
}
