//! What kernels add to their integer sums because of how weights are stored, worked out once for each form that the
//! matrices of a step want, and shared by all their panels.

use super::activations::TileSpan;

/// A form of corrections; the bounds are in `scales.rs`.
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

/// Forms that are kept: one for each matrix that reads the same activations in one fork-join.
pub(super) const MAX_FORMS: usize = 3;

impl Corrections {
    /// Other activations have come.
    pub(super) fn clear(&mut self) {
        self.n_current = 0;
    }

    /// Works out the forms that a step reads, unless that has been done. Those of steps before are kept while there is room.
    pub(super) fn prepare(
        &mut self,
        forms: impl Iterator<Item = Correction> + Clone,
        tiles: &[TileSpan],
        steps: usize,
        half_sums: &[i32],
    ) {
        let n_missing = forms.clone().filter(|&form| self.get(form).is_none()).count();
        if self.n_current + n_missing > MAX_FORMS {
            self.clear();
        }
        for form in forms {
            if self.get(form).is_none() {
                let words = self.new_form(form);
                super::activations::resize_exact(words, half_sums.len() / 2 * form.words(), 0);
                form.fill(tiles, steps, half_sums, words);
            }
        }
    }

    /// The memory of one more form.
    fn new_form(&mut self, form: Correction) -> &mut Vec<i32> {
        if self.n_current == self.forms.len() {
            self.forms.push((form, Vec::new()));
        }
        let (name, words) = &mut self.forms[self.n_current];
        self.n_current += 1;
        *name = form;
        words
    }

    /// The words of a form that has been [prepared](Corrections::prepare).
    pub(super) fn get(&self, form: Correction) -> Option<&[i32]> {
        if form == Correction::None {
            return Some(&[]);
        }
        self.forms[..self.n_current].iter().find(|(name, _)| *name == form).map(|(_, words)| &**words)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// A tile of two tokens and one of one token, with two steps: sums `[step][half][token]`.
    const TILES: [TileSpan; 2] = [TileSpan { first: 0, len: 2 }, TileSpan { first: 2, len: 1 }];
    const SUMS: [i32; 12] = [1, 2, 10, 20, 3, -4, 30, 40, 5, 50, -6, 60];

    fn words(form: Correction) -> Vec<i32> {
        let mut corrections = Corrections::default();
        corrections.prepare([form].into_iter(), &TILES, 2, &SUMS);
        corrections.get(form).unwrap().to_vec()
    }

    #[test]
    fn every_form_is_what_it_says() {
        assert!(words(Correction::None).is_empty());
        assert_eq!(words(Correction::Halves { offset: 4 }), SUMS.map(|sum| -4 * sum));
        assert_eq!(words(Correction::Step { offset: 8 }), [-88, -176, -264, -288, -440, -432]);
        let pairs = words(Correction::Pair);
        assert_eq!(pairs[3] as i16, -4);
        assert_eq!(pairs[3] >> 16, 40);
        assert_eq!(pairs.len(), 6);
    }

    #[test]
    fn what_a_step_asks_for_is_there_together() {
        let step = |offset| Correction::Step { offset };
        let forms = [step(8), step(16), step(128), Correction::Halves { offset: 32 }, Correction::Pair];
        let mut corrections = Corrections::default();
        for first in 0..forms.len() {
            for second in 0..forms.len() {
                for third in 0..forms.len() {
                    let asked = [forms[first], forms[second], forms[third]];
                    corrections.prepare(asked.into_iter(), &TILES, 2, &SUMS);
                    for form in asked {
                        assert_eq!(corrections.get(form).unwrap(), words(form), "{form:?} of {asked:?}");
                    }
                    assert!(corrections.forms.len() <= MAX_FORMS);
                }
            }
        }
        corrections.clear();
        assert!(forms.iter().all(|&form| corrections.get(form).is_none()));
    }
}
