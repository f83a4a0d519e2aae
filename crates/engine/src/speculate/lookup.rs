//! Prompt lookup: a text that repeats itself goes on as it did before.

/// Longest and shortest run of tokens that is looked for.
const LONGEST: usize = 4;
const SHORTEST: usize = 2;

/// What followed the last tokens of `text` where they came up before, at most `max` tokens: the longest run that did come
/// up counts, and its latest place.
pub(super) fn continuation(text: &[u32], max: usize) -> &[u32] {
    for n in (SHORTEST..=LONGEST.min(text.len().saturating_sub(1))).rev() {
        let (before, last) = (&text[..text.len() - 1], &text[text.len() - n..]);
        if let Some(at) = before.windows(n).rposition(|run| run == last) {
            let rest = &text[at + n..];
            return &rest[..rest.len().min(max)];
        }
    }
    &[]
}

#[cfg(test)]
mod tests {
    use super::continuation;

    #[test]
    fn the_longest_run_and_its_latest_place_count() {
        assert_eq!(continuation(&[1, 2, 3, 9, 1, 2, 3], 8), [9, 1, 2, 3]);
        assert_eq!(continuation(&[1, 2, 7, 1, 2, 8, 1, 2], 1), [8]);
        assert_eq!(continuation(&[5, 1, 2, 7, 6, 1, 2, 8, 5, 1, 2], 1), [7]);
    }

    #[test]
    fn a_run_may_overlap_itself() {
        assert_eq!(continuation(&[4, 4, 4], 8), [4]);
    }

    #[test]
    fn what_never_came_up_has_no_continuation() {
        assert!(continuation(&[], 8).is_empty());
        assert!(continuation(&[1, 2], 8).is_empty());
        assert!(continuation(&[1, 2, 3, 4], 8).is_empty());
        assert!(continuation(&[1, 2, 1, 2], 0).is_empty());
    }
}
