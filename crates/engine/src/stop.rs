//! Stop strings in streamed text.
//!
//! Text arrives in pieces that may cut a stop string anywhere. What can still become one is held back; all else is given
//! out at once. The result doesn't depend on where the pieces were cut: the stop string that *ends* first wins, and of
//! those that end at the same byte the longest, so that no part of it is shown.
//!
//! Each stop string has its own Knuth-Morris-Pratt automaton over bytes: a step per byte, whatever the strings. Strings
//! begin with the first byte of a character, and so does everything held back: only whole characters come out.

/// A stop string that nothing could come before.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
pub enum StopError {
    /// An empty string stops everywhere.
    #[error("stop string {index} is empty")]
    Empty {
        /// Its place in the list, from 0.
        index: usize,
    },
}

/// Finds the first stop string in one text after another.
#[derive(Clone, Debug, Default)]
pub struct StopStrings {
    patterns: Vec<Pattern>,
    /// Text that may be the beginning of a stop string.
    held: String,
    matched: Option<usize>,
}

impl StopStrings {
    /// A matcher at the start of a text. Without strings it never stops and holds nothing back.
    pub fn new(stops: impl IntoIterator<Item = impl Into<String>>) -> Result<Self, StopError> {
        let new = |(index, text): (usize, String)| {
            if text.is_empty() { Err(StopError::Empty { index }) } else { Ok(Pattern::new(text)) }
        };
        let patterns = stops.into_iter().map(Into::into).enumerate().map(new).collect::<Result<_, _>>()?;
        Ok(StopStrings { patterns, held: String::new(), matched: None })
    }

    /// Takes the next piece and appends to `out` what can't be part of a stop string. Returns the stop string once one
    /// is complete; neither it nor anything after it comes out, also in later calls.
    pub fn push(&mut self, piece: &str, out: &mut String) -> Option<&str> {
        if self.matched.is_none() {
            let n_before = self.held.len();
            self.held.push_str(piece);
            match self.first_match(piece) {
                Some((end, pattern)) => self.stop(n_before + end, pattern, out),
                None => self.release(out),
            }
        }
        self.matched()
    }

    /// Ends the text: what was held back was no stop string. The matcher is then at the start of a new text.
    pub fn finish(&mut self, out: &mut String) {
        out.push_str(&self.held);
        self.reset();
    }

    /// Back to the start of a text; what is held back is dropped.
    pub fn reset(&mut self) {
        self.held.clear();
        self.matched = None;
        for pattern in &mut self.patterns {
            pattern.n_matched = 0;
        }
    }

    /// The stop string that ended the text, if one did.
    pub fn matched(&self) -> Option<&str> {
        self.matched.map(|index| self.patterns[index].text.as_str())
    }

    /// The text held back so far.
    pub fn held(&self) -> &str {
        &self.held
    }

    /// Where in `piece` the first stop string ends, and which it is. Moves all automata on up to there.
    fn first_match(&mut self, piece: &str) -> Option<(usize, usize)> {
        piece.bytes().enumerate().find_map(|(at, byte)| {
            let mut longest: Option<usize> = None;
            for index in 0..self.patterns.len() {
                let len = self.patterns[index].text.len();
                if self.patterns[index].step(byte)
                    && longest.is_none_or(|l| self.patterns[l].text.len() < len)
                {
                    longest = Some(index);
                }
            }
            longest.map(|index| (at + 1, index))
        })
    }

    fn stop(&mut self, end: usize, pattern: usize, out: &mut String) {
        out.push_str(&self.held[..end - self.patterns[pattern].text.len()]);
        self.held.clear();
        self.matched = Some(pattern);
    }

    fn release(&mut self, out: &mut String) {
        let n_held = self.patterns.iter().map(|p| p.n_matched).max().unwrap_or(0);
        let n_safe = self.held.len() - n_held;
        out.push_str(&self.held[..n_safe]);
        self.held.drain(..n_safe);
    }
}

/// One stop string and how much of it the text ends with.
#[derive(Clone, Debug)]
struct Pattern {
    text: String,
    /// `border[i]`: length of the longest proper prefix of `text[..=i]` that is also its suffix.
    border: Vec<usize>,
    n_matched: usize,
}

impl Pattern {
    fn new(text: String) -> Self {
        let bytes = text.as_bytes();
        let mut border = vec![0; bytes.len()];
        let mut n = 0;
        for i in 1..bytes.len() {
            n = extend(bytes, &border, n, bytes[i]);
            border[i] = n;
        }
        Pattern { text, border, n_matched: 0 }
    }

    /// Takes a byte; whether the text now ends with the whole string. Must not be called again after that.
    fn step(&mut self, byte: u8) -> bool {
        self.n_matched = extend(self.text.as_bytes(), &self.border, self.n_matched, byte);
        self.n_matched == self.text.len()
    }
}

/// The longest prefix that a text ends with after `byte`, when it ended with `n` bytes of `pattern` before.
fn extend(pattern: &[u8], border: &[usize], mut n: usize, byte: u8) -> usize {
    while n > 0 && pattern[n] != byte {
        n = border[n - 1];
    }
    n + usize::from(pattern[n] == byte)
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;

    fn run(stops: &[&str], pieces: &[&str]) -> (String, Option<String>) {
        let mut matcher = StopStrings::new(stops.iter().copied()).unwrap();
        let mut out = String::new();
        for piece in pieces {
            matcher.push(piece, &mut out);
        }
        let matched = matcher.matched().map(str::to_owned);
        matcher.finish(&mut out);
        (out, matched)
    }

    /// The stop that ends first, of those the longest, found by trying every end.
    fn naive(stops: &[String], text: &str) -> (String, Option<String>) {
        for end in 0..=text.len() {
            let ends_here = |s: &&String| text.as_bytes()[..end].ends_with(s.as_bytes());
            if let Some(stop) = stops.iter().filter(ends_here).max_by_key(|s| s.len()) {
                return (text[..end - stop.len()].to_owned(), Some(stop.clone()));
            }
        }
        (text.to_owned(), None)
    }

    #[test]
    fn holds_back_only_what_can_become_a_stop() {
        let mut matcher = StopStrings::new(["<end>"]).unwrap();
        let mut out = String::new();
        assert_eq!(matcher.push("a<e", &mut out), None);
        assert_eq!((out.as_str(), matcher.held()), ("a", "<e"));
        assert_eq!(matcher.push("<", &mut out), None);
        assert_eq!((out.as_str(), matcher.held()), ("a<e", "<"));
        assert_eq!(matcher.push("end>tail", &mut out), Some("<end>"));
        assert_eq!(matcher.push("more", &mut out), Some("<end>"));
        assert_eq!((out.as_str(), matcher.held()), ("a<e", ""));
        matcher.finish(&mut out);
        assert_eq!((out.as_str(), matcher.matched()), ("a<e", None));
    }

    #[test]
    fn the_stop_that_ends_first_wins_then_the_longest() {
        assert_eq!(run(&["abcd", "bc"], &["xabcd"]), ("xa".into(), Some("bc".into())));
        assert_eq!(run(&["c", "abc", "bc"], &["xa", "bc"]), ("x".into(), Some("abc".into())));
        assert_eq!(run(&["aab"], &["a", "a", "a", "b"]), ("a".into(), Some("aab".into())));
    }

    #[test]
    fn the_end_gives_out_what_was_held() {
        assert_eq!(run(&["<end>"], &["x<en"]), ("x<en".into(), None));
        assert_eq!(run(&[], &["x<en"]), ("x<en".into(), None));
    }

    #[test]
    fn characters_that_share_bytes_stay_whole() {
        assert_eq!(run(&["é!"], &["è", "é", "é!"]), ("èé".into(), Some("é!".into())));
    }

    #[test]
    fn an_empty_stop_is_refused() {
        assert_eq!(StopStrings::new(["a", ""]).unwrap_err(), StopError::Empty { index: 1 });
    }

    #[test]
    fn a_matcher_can_be_used_again() {
        let mut matcher = StopStrings::new(["ab"]).unwrap();
        let mut out = String::new();
        matcher.push("a", &mut out);
        matcher.reset();
        assert_eq!(matcher.push("b", &mut out), None);
        assert_eq!(out, "b");
    }

    proptest! {
        #[test]
        fn any_split_gives_what_a_search_of_the_whole_text_gives(
            stops in proptest::collection::vec("[abé€]{1,5}", 0..4),
            pieces in proptest::collection::vec("[abé€]{0,6}", 0..12),
        ) {
            let mut matcher = StopStrings::new(stops.clone()).unwrap();
            let (mut out, whole) = (String::new(), pieces.concat());
            let expected = naive(&stops, &whole);
            for piece in &pieces {
                matcher.push(piece, &mut out);
                prop_assert!(expected.0.starts_with(&out));
                let held = matcher.held();
                prop_assert!(held.is_empty() || stops.iter().any(|s| s.starts_with(held) && s != held));
            }
            let matched = matcher.matched().map(str::to_owned);
            matcher.finish(&mut out);
            prop_assert_eq!((out, matched), expected);
        }
    }
}
