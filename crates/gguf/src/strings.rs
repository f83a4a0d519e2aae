//! Texts of an array, one behind the other in one piece of memory: vocabularies have hundreds of thousands.

use std::fmt;

/// Some texts, in order.
#[derive(Clone, Default, PartialEq, Eq)]
pub struct Strings {
    text: String,
    /// Where each one ends in `text`; it begins where the one before it ends.
    ends: Vec<usize>,
}

/// The first text that is not UTF-8.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct NotText {
    /// Which it is.
    pub(crate) index: usize,
    /// Where it begins among the bytes of all.
    pub(crate) start: usize,
    /// How many of its bytes are text.
    pub(crate) valid_up_to: usize,
}

impl NotText {
    fn first(bytes: &[u8], ends: &[usize]) -> NotText {
        let mut start = 0;
        for (index, &end) in ends.iter().enumerate() {
            if let Err(error) = std::str::from_utf8(&bytes[start..end]) {
                return NotText { index, start, valid_up_to: error.valid_up_to() };
            }
            start = end;
        }
        NotText { index: ends.len(), start, valid_up_to: 0 }
    }
}

impl Strings {
    /// Of `bytes`, cut at `ends`, which rise to the length of `bytes`.
    pub(crate) fn from_parts(bytes: Vec<u8>, ends: Vec<usize>) -> Result<Self, NotText> {
        // Whole it is checked at once; a cut within a character makes two texts of it that are none.
        let checked = String::from_utf8(bytes);
        match checked {
            Ok(text) if ends.iter().all(|&end| text.is_char_boundary(end)) => Ok(Strings { text, ends }),
            Ok(text) => Err(NotText::first(text.as_bytes(), &ends)),
            Err(error) => Err(NotText::first(error.as_bytes(), &ends)),
        }
    }

    /// Adds one at the end.
    pub fn push(&mut self, text: &str) {
        self.text.push_str(text);
        self.ends.push(self.text.len());
    }

    /// How many there are.
    pub fn len(&self) -> usize {
        self.ends.len()
    }

    /// Whether there are none.
    pub fn is_empty(&self) -> bool {
        self.ends.is_empty()
    }

    /// The one at `index`.
    pub fn get(&self, index: usize) -> Option<&str> {
        let end = *self.ends.get(index)?;
        let start = index.checked_sub(1).map_or(0, |before| self.ends[before]);
        self.text.get(start..end)
    }

    /// All in order.
    pub fn iter(&self) -> impl DoubleEndedIterator<Item = &str> + ExactSizeIterator + Clone {
        (0..self.len()).map(|i| self.get(i).unwrap_or_default())
    }

    /// Bytes of all texts together.
    pub fn n_bytes(&self) -> usize {
        self.text.len()
    }
}

/// As a list of texts.
impl fmt::Debug for Strings {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_list().entries(self.iter()).finish()
    }
}

impl<S: AsRef<str>> FromIterator<S> for Strings {
    fn from_iter<I: IntoIterator<Item = S>>(texts: I) -> Self {
        let mut strings = Strings::default();
        texts.into_iter().for_each(|text| strings.push(text.as_ref()));
        strings
    }
}

impl<S: AsRef<str>> From<Vec<S>> for Strings {
    fn from(texts: Vec<S>) -> Self {
        texts.into_iter().collect()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn texts_come_back_as_they_were() {
        let texts = ["", "a", "", "ü€", "x y"];
        let strings: Strings = texts.iter().collect();
        assert!(strings.iter().eq(texts) && strings.iter().rev().eq(texts.into_iter().rev()));
        assert_eq!((strings.len(), strings.n_bytes(), strings.get(3)), (5, 9, Some("ü€")));
        assert_eq!((strings.get(5), strings.get(usize::MAX)), (None, None));
        assert_eq!(format!("{strings:?}"), format!("{texts:?}"));
        assert!(Strings::default().is_empty() && Strings::default().get(0).is_none());
    }

    #[test]
    fn parts_are_checked_text_by_text() {
        let parts = |bytes: &[u8], ends: &[usize]| Strings::from_parts(bytes.to_vec(), ends.to_vec());
        assert_eq!(parts("aü".as_bytes(), &[0, 1, 3]), Ok(["", "a", "ü"].iter().collect()));
        let wrong = |index, start, valid_up_to| Err(NotText { index, start, valid_up_to });
        assert_eq!(parts(b"abc\xffd", &[1, 4, 5]), wrong(1, 1, 2));
        assert_eq!(parts("aü".as_bytes(), &[1, 2, 3]), wrong(1, 1, 0), "whole it would be text");
    }
}
