//! Which pages of a file a device is given, so that it can read tensors in place.
//!
//! **Rule.** A window is a stretch of whole pages, as long as one buffer may be. Windows of a file have no page in common: a
//! driver may refuse to take the same page twice. So a tensor that would begin in the last page of one window and end in the
//! next lies in neither and is copied; there is at most one such for each window. Pages between tensors that nobody asked for
//! are left out, but for gaps so small that a window of its own would cost more.

use std::ops::Range;

/// Bytes that nobody asked for within a window: vectors between matrices are less, a layer that stays elsewhere is more.
const MOST_GAP: usize = 1 << 20;

/// The pages of a file, and what the device asks of windows.
#[derive(Clone, Copy, Debug)]
pub(super) struct Pages {
    /// Where the file begins in memory.
    pub(super) address: usize,
    /// Bytes in whole pages.
    pub(super) len: usize,
    /// Starts and ends in memory are multiples of this.
    pub(super) alignment: usize,
    /// Most bytes of one window.
    pub(super) most: usize,
}

impl Pages {
    /// The range with both ends moved out to where a window may begin and end; `None` if that leaves the pages.
    pub(super) fn widened(&self, range: &Range<usize>) -> Option<Range<usize>> {
        let down = |at: usize| (at / self.alignment * self.alignment).checked_sub(self.address);
        let start = down(self.address.checked_add(range.start)?)?;
        let end =
            self.address.checked_add(range.end)?.checked_next_multiple_of(self.alignment)? - self.address;
        (start < end && end <= self.len).then_some(start..end)
    }
}

/// New windows for `ranges` of a file of which `taken` are in use, in the order of the file.
pub(super) fn plan(
    pages: &Pages,
    mut ranges: Vec<Range<usize>>,
    taken: &[Range<usize>],
) -> Vec<Range<usize>> {
    ranges.sort_unstable_by_key(|range| range.start);
    let mut windows: Vec<Range<usize>> = Vec::new();
    for range in ranges.iter().filter_map(|range| pages.widened(range)) {
        let is_free =
            |range: &Range<usize>| taken.iter().all(|t| range.end <= t.start || t.end <= range.start);
        if let Some(last) = windows.last_mut() {
            let longer = last.start..range.end.max(last.end);
            let is_near = range.start.saturating_sub(last.end) <= MOST_GAP;
            if is_near && longer.len() <= pages.most && is_free(&longer) {
                *last = longer;
                continue;
            }
        }
        let is_behind = windows.last().is_none_or(|last| last.end <= range.start);
        if is_behind && range.len() <= pages.most && is_free(&range) {
            windows.push(range);
        }
    }
    windows
}

#[cfg(test)]
mod tests {
    use super::*;

    const PAGE: usize = 4096;

    fn one(range: Range<usize>) -> Vec<Range<usize>> {
        std::iter::once(range).collect()
    }

    fn pages(n: usize, most: usize) -> Pages {
        Pages { address: 7 * PAGE, len: n * PAGE, alignment: PAGE, most: most * PAGE }
    }

    #[test]
    fn neighbours_share_a_window_up_to_the_end_of_the_last_page() {
        let file = pages(3, 100);
        assert_eq!(plan(&file, vec![5000..6000, 100..5000, 6000..9000], &[]), one(0..3 * PAGE));
        assert_eq!(plan(&file, one(5000..6000), &[]), one(PAGE..2 * PAGE));
        assert_eq!(plan(&file, vec![], &[]), []);
    }

    #[test]
    fn a_tensor_between_two_windows_lies_in_neither() {
        let file = pages(8, 2);
        let ranges = vec![0..5000, 5000..9000, 9000..12_000, 13_000..16_000];
        // The first ends in page 1, where the second begins; that one would need a third page.
        assert_eq!(plan(&file, ranges, &[]), [0..2 * PAGE, 2 * PAGE..4 * PAGE]);
        // One that is larger than any window has none.
        assert_eq!(plan(&file, vec![0..3 * PAGE, 4 * PAGE..5 * PAGE], &[]), one(4 * PAGE..5 * PAGE));
    }

    #[test]
    fn what_nobody_asked_for_is_left_out() {
        let file = pages(3000, 3000);
        let far = MOST_GAP + 2 * PAGE;
        assert_eq!(plan(&file, vec![0..10, far..far + 10], &[]), [0..PAGE, far..far + PAGE]);
        let near = MOST_GAP / 2;
        assert_eq!(plan(&file, vec![0..10, near..near + 10], &[]), one(0..near + PAGE));
    }

    #[test]
    fn pages_in_use_are_not_taken_again() {
        let file = pages(10, 10);
        let taken = one(2 * PAGE..4 * PAGE);
        let ranges = vec![0..10, 2 * PAGE..3 * PAGE, 3 * PAGE + 9..4 * PAGE + 9, 5 * PAGE..6 * PAGE];
        assert_eq!(plan(&file, ranges, &taken), [0..PAGE, 5 * PAGE..6 * PAGE]);
    }

    #[test]
    fn a_coarser_alignment_may_leave_the_pages() {
        // The map begins a page behind a multiple of four, and ends two pages before the next but one.
        let file = Pages { address: 5 * PAGE, len: 9 * PAGE, alignment: 4 * PAGE, most: 64 * PAGE };
        assert_eq!(file.widened(&(0..10)), None);
        assert_eq!(file.widened(&(3 * PAGE..3 * PAGE + 1)), Some(3 * PAGE..7 * PAGE));
        assert_eq!(file.widened(&(8 * PAGE..8 * PAGE + 1)), None);
        assert_eq!(
            plan(&file, vec![0..10, 3 * PAGE..4 * PAGE, 8 * PAGE..9 * PAGE], &[]),
            one(3 * PAGE..7 * PAGE)
        );
    }

    #[test]
    fn windows_of_any_file_are_disjoint_aligned_and_within_it() {
        let mut seed = 1u64;
        let mut random = |below: usize| {
            seed = seed.wrapping_mul(6_364_136_223_846_793_005).wrapping_add(1_442_695_040_888_963_407);
            (seed >> 33) as usize % below
        };
        for _ in 0..500 {
            let file = pages(40, 1 + random(12));
            let mut at = random(3 * PAGE);
            let mut ranges = Vec::new();
            while ranges.len() < 12 && at < 36 * PAGE {
                let len = 1 + random(3 * PAGE);
                ranges.push(at..at + len);
                at += len + random(PAGE);
            }
            let windows = plan(&file, ranges.clone(), &[]);
            for (i, w) in windows.iter().enumerate() {
                assert!(
                    w.start % PAGE == 0 && w.end % PAGE == 0 && w.end <= file.len && w.len() <= file.most
                );
                assert!(windows[..i].iter().all(|v| v.end <= w.start), "{windows:?}");
            }
            let is_in = |r: &Range<usize>| windows.iter().any(|w| w.start <= r.start && r.end <= w.end);
            let fits = |r: &Range<usize>| file.widened(r).is_some_and(|w| w.len() <= file.most);
            let n_out = ranges.iter().filter(|r| fits(r) && !is_in(r)).count();
            assert!(n_out <= windows.len(), "{n_out} of {ranges:?} are in none of {windows:?}");
        }
    }
}
