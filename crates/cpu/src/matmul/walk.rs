//! Where the parts of a panel of quantized weights lie.
//!
//! A panel is one stream, in the order in which a product reads it: the quants of its steps one after the other, and the
//! scales, in lines of 64 bytes, each just before the first step that reads from it:
//!
//! ```text
//! Q8_0   [d of steps 0 and 1][step 0][step 1] [d of steps 2 and 3][step 2][step 3] ...
//! Q4_K   [d, m][sub-scales 0 and 1][step 0][step 1] [sub-scales 2 and 3][step 2][step 3] ...
//! Q6_K   [d, sub-scales 0][step 0] [sub-scales 1 and 2][step 1][step 2] ... [sub-scales 7, d of the next block][step 7] ...
//! ```
//!
//! So a processor's own prefetcher, which follows addresses that only rise, brings weights as fast as a bare read. Scales
//! that lie apart, before all quants, are a second stream that runs through the same pages: with it one core brought
//! 16 GB/s where a read brings 30, and 20 with prefetch instructions, which cost a place in the queue of misses each.

use super::quants::{Bytes, Quants};
use super::scales::{RowScales, Scales};
use std::ops::Range;

/// Bytes of a line of scales.
pub(super) const LINE: usize = 64;

/// A walk through a panel from its start; takes the parts of each step in order and says at which byte each begins.
#[derive(Clone, Copy, Default)]
pub(super) struct Walk {
    /// Where the next line of scales or the next quants begin.
    next: usize,
    /// The scales that come next, and how much is left of their line.
    scales: usize,
    left: usize,
}

impl Walk {
    /// The next `n` bytes of scales. A block takes [`Scales::FIXED`] bytes, then each of its steps `SUBS * 16` (or none):
    /// these are such that none of them ever lies on two lines.
    #[inline(always)]
    pub(super) fn scales(&mut self, n: usize) -> usize {
        if n > self.left {
            self.scales = self.next;
            self.left = LINE;
            self.next += LINE;
        }
        let at = self.scales;
        self.scales += n;
        self.left -= n;
        at
    }

    /// The scales of the next block.
    #[inline(always)]
    pub(super) fn block<S: Scales>(&mut self) -> usize {
        self.scales(S::FIXED)
    }

    /// The sub-scales of the next step.
    #[inline(always)]
    pub(super) fn subs<S: Scales>(&mut self) -> usize {
        self.scales(S::SUBS * 16)
    }

    /// What comes next.
    #[inline(always)]
    #[cfg_attr(not(target_arch = "x86_64"), expect(dead_code, reason = "only SIMD kernels prefetch"))]
    pub(super) fn next(&self) -> usize {
        self.next
    }

    /// The quants of the next step, `n` bytes.
    #[inline(always)]
    pub(super) fn quants(&mut self, n: usize) -> usize {
        let at = self.next;
        self.next += n;
        at
    }
}

/// The parts of a step.
pub(super) struct Step<'a> {
    block: &'a [u8],
    subs: &'a [u8],
    /// Its quants.
    pub(super) quants: &'a [u8],
}

impl Step<'_> {
    /// The scales of one of the 16 rows.
    pub(super) fn row_scales<S: Scales>(&self, row: usize) -> RowScales {
        RowScales::read::<S>(self.block, self.subs, row)
    }
}

/// The steps of a panel, as many as it has.
pub(super) fn steps<Q: Quants, S: Scales>(panel: &[u8]) -> impl Iterator<Item = Step<'_>> {
    let (mut walk, mut block) = (Walk::default(), 0);
    (0..).map_while(move |step| {
        if step % S::STEPS == 0 {
            block = walk.block::<S>();
        }
        let (subs, quants) = (walk.subs::<S>(), walk.quants(Q::BYTES));
        Some(Step {
            quants: panel.get(quants..quants + Q::BYTES)?,
            subs: &panel[subs..subs + S::SUBS * 16],
            block: &panel[block..block + S::FIXED],
        })
    })
}

/// What becomes of a step when the quants of a panel are unpacked to whole bytes: its new lines of scales are copied, its
/// quants unpacked.
pub(super) struct Expansion {
    /// Its new lines, and where they go.
    pub(super) lines: Range<usize>,
    pub(super) lines_to: usize,
    /// Where its quants begin, and where they go.
    pub(super) quants: usize,
    pub(super) quants_to: usize,
}

/// The steps of a panel of so many bytes.
pub(super) fn expansion<Q: Quants, S: Scales>(panel_bytes: usize) -> impl Iterator<Item = Expansion> {
    let (mut from, mut to) = (Walk::default(), Walk::default());
    (0..).map_while(move |step| {
        let (lines, lines_to) = (from.next, to.next);
        for walk in [&mut from, &mut to] {
            if step % S::STEPS == 0 {
                walk.block::<S>();
            }
            walk.subs::<S>();
        }
        let lines = lines..from.next;
        let (quants, quants_to) = (from.quants(Q::BYTES), to.quants(Bytes::BYTES));
        (from.next <= panel_bytes).then_some(Expansion { lines, lines_to, quants, quants_to })
    })
}

#[cfg(test)]
mod tests {
    use super::super::format::{self, Format, for_each_format};
    use super::super::kernels::Kernels;
    use super::*;

    /// What kernels read by pointer rests on this: every byte of a panel belongs to one part, no part of the scales lies on
    /// two lines, quants begin at lines, and the sizes say how long a panel is.
    fn parts_cover_a_panel<F: Format>() {
        let kernels = Kernels::find(F::TYPE).unwrap();
        for n_steps in (1..10).map(|n_blocks| n_blocks * F::Scales::STEPS) {
            let n_bytes = kernels.sizes.panel(n_steps).unwrap();
            assert_eq!(steps::<F::Quants, F::Scales>(&vec![0; n_bytes]).count(), n_steps);
            let mut walk = Walk::default();
            for step in 0..n_steps {
                let parts = match step % F::Scales::STEPS {
                    0 => [
                        (walk.block::<F::Scales>(), F::Scales::FIXED),
                        (walk.subs::<F::Scales>(), F::Scales::SUBS * 16),
                    ],
                    _ => [(walk.subs::<F::Scales>(), F::Scales::SUBS * 16), (0, 0)],
                };
                assert!(parts.iter().all(|&(at, n)| n == 0 || at % LINE + n <= LINE), "{} {step}", F::TYPE);
                assert!(walk.quants(F::Quants::BYTES).is_multiple_of(LINE));
            }
            let mut n_times = vec![0; n_bytes];
            let mut end = 0;
            for step in expansion::<F::Quants, F::Scales>(n_bytes) {
                n_times[step.lines].iter_mut().for_each(|n| *n += 1);
                n_times[step.quants..][..F::Quants::BYTES].iter_mut().for_each(|n| *n += 1);
                end = step.quants_to + Bytes::BYTES;
            }
            assert!(n_times.iter().all(|&n| n == 1), "{} with {n_steps} steps", F::TYPE);
            if let Some(n_bytes) = kernels.expanded_bytes(n_steps, crate::isa::Isa::Scalar) {
                assert_eq!(end, n_bytes);
            }
        }
    }

    #[test]
    fn the_parts_of_every_format_cover_its_panels() {
        macro_rules! all {
            ($($name:ident),*) => { $(parts_cover_a_panel::<format::$name>();)* };
        }
        for_each_format! { all }
    }
}
