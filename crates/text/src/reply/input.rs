//! The text that has come and is not dealt with yet.

/// What a text says about a marker at its beginning.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Start<'a> {
    /// It begins with this marker.
    With(&'a str),
    /// It is too short to tell.
    Open,
    /// It begins with something else.
    Other,
}

/// Where a marker is in a text.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Found<'a> {
    /// The first marker, and the byte where it begins.
    At(usize, &'a str),
    /// None; the bytes before this one belong to no marker, whatever follows.
    Safe(usize),
}

/// Which of `markers` the text begins with. None of them may be a beginning of another.
pub(super) fn starts<'a>(text: &str, markers: &[&'a str]) -> Start<'a> {
    if let Some(marker) = markers.iter().find(|m| text.starts_with(**m)) {
        return Start::With(marker);
    }
    if markers.iter().any(|m| m.starts_with(text)) { Start::Open } else { Start::Other }
}

/// The first of `markers` in the text. A marker may end another, but must not lie inside one in any other way.
pub(super) fn find<'a>(text: &str, markers: &[&'a str]) -> Found<'a> {
    let first = markers.iter().filter_map(|m| text.find(m).map(|at| (at, *m))).min_by_key(|(at, _)| *at);
    match first {
        Some((at, marker)) => Found::At(at, marker),
        None => Found::Safe(text.len() - markers.iter().map(|m| overlap(text, m)).max().unwrap_or(0)),
    }
}

/// Length of the longest proper beginning of `marker` that `text` ends with.
fn overlap(text: &str, marker: &str) -> usize {
    let longest = text.len().min(marker.len().saturating_sub(1));
    (1..=longest).rev().find(|n| text.as_bytes().ends_with(&marker.as_bytes()[..*n])).unwrap_or(0)
}

/// Text in order: what is settled is gone, what was read may still be given back, the rest waits.
#[derive(Clone, Debug, Default)]
pub(super) struct Input {
    text: String,
    at: usize,
}

impl Input {
    pub(super) fn push(&mut self, piece: &str) {
        self.text.push_str(piece);
    }

    /// What has not been read.
    pub(super) fn rest(&self) -> &str {
        &self.text[self.at..]
    }

    /// Reads `n` bytes, which end at a character.
    pub(super) fn advance(&mut self, n: usize) {
        self.at += n;
    }

    pub(super) fn skip_whitespace(&mut self) {
        let rest = self.rest();
        self.at += rest.len() - rest.trim_start().len();
    }

    /// What was read will not be wanted again.
    pub(super) fn settle(&mut self) {
        self.text.drain(..self.at);
        self.at = 0;
    }

    /// Back to what was settled last.
    pub(super) fn rewind(&mut self) {
        self.at = 0;
    }

    /// Takes `n` bytes of the rest for good.
    pub(super) fn take(&mut self, n: usize) -> String {
        self.at += n;
        let taken = self.text[self.at - n..self.at].to_owned();
        self.settle();
        taken
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_beginning_is_open_until_it_is_certain() {
        assert_eq!(starts("<t", &["<think>", "["]), Start::Open);
        assert_eq!(starts("", &["<think>"]), Start::Open);
        assert_eq!(starts("<think>x", &["<think>"]), Start::With("<think>"));
        assert_eq!(starts("<tx", &["<think>"]), Start::Other);
    }

    #[test]
    fn what_may_begin_a_marker_is_not_safe() {
        assert_eq!(find("ab<to", &["<tool>"]), Found::Safe(2));
        assert_eq!(find("ab<<tool>", &["<tool>"]), Found::At(3, "<tool>"));
        assert_eq!(find("v\n</p", &["</p>", "\n</p>"]), Found::Safe(1));
        assert_eq!(find("v\n</p>", &["</p>", "\n</p>"]), Found::At(1, "\n</p>"));
        assert_eq!(find("ab", &[]), Found::Safe(2));
    }
}
