//! Cutting work into pieces, and letting pieces write one output.
//!
//! How an op is cut changes its speed, never its result: every kernel computes each output from its inputs alone.

use std::marker::PhantomData;
use std::ops::Range;

use super::Pool;

/// Below this much work an op is one piece on the calling thread: handing it over would cost as much.
const MIN_SPLIT_NS: u64 = 5_000;

/// Pieces per thread. More cost about 50 ns each; fewer leave nothing to take over from a thread that lost its core.
const PIECES_PER_THREAD: usize = 4;

/// Pieces per thread of a long op, whose pieces last at least [`LONG_PIECE_NS`]: threads that run at different speeds then
/// end together.
const MAX_PIECES_PER_THREAD: usize = 16;
const LONG_PIECE_NS: u64 = 100_000;

/// An estimate of the work of an op, by which it is cut.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Cost {
    /// Nanoseconds of one thread for the whole op. A factor of two either way does no harm.
    pub ns: u64,
}

impl Cost {
    /// `n` elements at `ps` picoseconds each.
    pub fn of(n: usize, ps: u64) -> Cost {
        Cost { ns: (n as u64).saturating_mul(ps) / 1000 }
    }

    /// Into how many pieces to cut `n_items` on `n_threads`: none for no items, otherwise from 1 to `n_items`.
    pub fn n_pieces(self, n_items: usize, n_threads: usize) -> usize {
        if n_threads == 1 || self.ns < MIN_SPLIT_NS {
            return n_items.min(1);
        }
        let long = usize::try_from(self.ns / LONG_PIECE_NS).unwrap_or(usize::MAX);
        let wanted = long.clamp(PIECES_PER_THREAD * n_threads, MAX_PIECES_PER_THREAD * n_threads);
        wanted.min(n_items)
    }
}

/// The items of piece `i` of `n_pieces`: the pieces are in order, disjoint, together all of `0..n_items`, and their
/// sizes differ by one at most.
pub fn piece_range(n_items: usize, n_pieces: usize, i: usize) -> Range<usize> {
    let (size, larger) = (n_items / n_pieces, n_items % n_pieces);
    let start = i * size + i.min(larger);
    start..start + size + usize::from(i < larger)
}

/// An output that several threads write at once, each its own part.
///
/// Rows that lie one after the other need no care of the caller: see [`Pool::run_rows`].
pub struct SharedOut<'a, T> {
    ptr: *mut T,
    len: usize,
    _borrow: PhantomData<&'a mut [T]>,
}

// SAFETY: it stands for a `&mut [T]` from which threads take disjoint parts (contract of `part`).
unsafe impl<T: Send> Send for SharedOut<'_, T> {}
// SAFETY: as above.
unsafe impl<T: Send> Sync for SharedOut<'_, T> {}

impl<'a, T> SharedOut<'a, T> {
    /// Borrows the whole output for as long as parts of it are being written.
    pub fn new(out: &'a mut [T]) -> SharedOut<'a, T> {
        SharedOut { ptr: out.as_mut_ptr(), len: out.len(), _borrow: PhantomData }
    }

    /// Length of the whole output.
    pub fn len(&self) -> usize {
        self.len
    }

    /// Whether the output has no elements.
    pub fn is_empty(&self) -> bool {
        self.len == 0
    }

    /// The part `range`, to be written.
    ///
    /// # Safety
    /// While the part lives, no other part that meets it is alive, on any thread.
    ///
    /// # Panics
    /// If the range is not inside the output.
    #[expect(clippy::mut_from_ref, reason = "the caller keeps parts disjoint")]
    pub unsafe fn part(&self, range: Range<usize>) -> &mut [T] {
        assert!(range.start <= range.end && range.end <= self.len, "{range:?} of {} elements", self.len);
        // SAFETY: inside the borrowed slice (asserted); unique by the caller's promise.
        unsafe { std::slice::from_raw_parts_mut(self.ptr.add(range.start), range.end - range.start) }
    }
}

impl Pool {
    /// Cuts `out`, rows of `row_len` elements, into runs of rows, and calls `piece(rows, part)` for each, where `part` is
    /// those rows of `out`.
    ///
    /// # Panics
    /// As [`Pool::run`]; if `out` isn't whole rows.
    pub fn run_rows<T, F>(&self, out: &mut [T], row_len: usize, cost: Cost, piece: F)
    where
        T: Send,
        F: Fn(Range<usize>, &mut [T]) + Sync,
    {
        let n_rows = out.len() / row_len.max(1);
        assert_eq!(n_rows * row_len, out.len(), "{} elements in rows of {row_len}", out.len());
        let n_pieces = cost.n_pieces(n_rows, self.n_threads());
        let out = SharedOut::new(out);
        self.run(n_pieces, &|i| {
            let rows = piece_range(n_rows, n_pieces, i);
            // SAFETY: `piece_range` gives disjoint rows to different pieces, and each piece runs once.
            let part = unsafe { out.part(rows.start * row_len..rows.end * row_len) };
            piece(rows, part);
        });
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn pieces_cover_every_item_once_in_order() {
        for n_items in 0..70 {
            for n_pieces in 1..12 {
                let ranges: Vec<_> = (0..n_pieces).map(|i| piece_range(n_items, n_pieces, i)).collect();
                let items: Vec<_> = ranges.iter().cloned().flatten().collect();
                assert_eq!(items, (0..n_items).collect::<Vec<_>>());
                let sizes = ranges.iter().map(|r| r.len());
                assert!(sizes.clone().max().unwrap() - sizes.min().unwrap() <= 1);
            }
        }
    }

    #[test]
    fn little_work_is_one_piece_and_much_work_is_a_few_per_thread() {
        assert_eq!(Cost { ns: 4_999 }.n_pieces(100, 2), 1);
        assert_eq!(Cost { ns: 5_000 }.n_pieces(100, 2), 8);
        assert_eq!(Cost { ns: 5_000 }.n_pieces(3, 2), 3);
        assert_eq!(Cost { ns: 5_000 }.n_pieces(100, 1), 1);
        assert_eq!(Cost { ns: 1_000_000 }.n_pieces(100, 2), 10);
        assert_eq!(Cost { ns: u64::MAX }.n_pieces(100, 2), 32);
        assert_eq!(Cost { ns: u64::MAX }.n_pieces(0, 2), 0);
        assert_eq!(Cost::of(usize::MAX, 1_000_000).ns, u64::MAX / 1000);
    }

    #[test]
    fn rows_are_written_once_whatever_the_cut() {
        for n_threads in [1, 2, 4] {
            let pool = Pool::new(n_threads).unwrap();
            for (n_rows, row_len) in [(0, 5), (1, 7), (9, 3), (100, 1), (6, 0)] {
                let mut out = vec![0u32; n_rows * row_len];
                pool.run_rows(&mut out, row_len, Cost { ns: u64::MAX }, |rows, part| {
                    let first = rows.start * row_len;
                    part.iter_mut().enumerate().for_each(|(i, x)| *x += (first + i + 1) as u32);
                });
                assert!(out.iter().enumerate().all(|(i, &x)| x == i as u32 + 1));
            }
        }
    }

    #[test]
    #[should_panic(expected = "of 4 elements")]
    fn a_part_outside_the_output_is_refused() {
        let mut out = [0; 4];
        let out = SharedOut::new(&mut out);
        // SAFETY: no other part is alive.
        unsafe { out.part(2..5) };
    }
}
