//! Numbers end: no more than so many digits in a row, where the grammar leaves a choice.
//!
//! JSON sets no bound to the digits of a number, and a model that has begun to repeat itself would use that. Also whether
//! the answer is inside a string, which closing it needs to know.

/// Digits in a row before a number must end, or go on as a fraction. So many always fit 64 bits.
const MAX_DIGITS: usize = 18;

/// Digits of an exponent: the largest double is below 1e309.
const MAX_EXPONENT: usize = 2;

/// Where in JSON text a byte stands.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub(super) struct JsonPlace {
    pub(super) in_string: bool,
    is_escaped: bool,
    n_digits: usize,
    in_exponent: bool,
}

impl JsonPlace {
    /// Goes one byte on.
    pub(super) fn push(&mut self, byte: u8) {
        if self.in_string {
            self.in_string = self.is_escaped || byte != b'"';
            self.is_escaped = !self.is_escaped && byte == b'\\';
            return;
        }
        match byte {
            b'0'..=b'9' => self.n_digits += 1,
            b'e' | b'E' if self.n_digits > 0 => (self.n_digits, self.in_exponent) = (0, true),
            b'+' | b'-' => {}
            b'.' => self.n_digits = 0,
            _ => (self.n_digits, self.in_exponent) = (0, false),
        }
        self.in_string = byte == b'"';
    }

    /// How many digits may still come here.
    pub(super) fn n_digits_left(&self) -> usize {
        if self.in_string {
            return usize::MAX;
        }
        let most = if self.in_exponent { MAX_EXPONENT } else { MAX_DIGITS };
        most.saturating_sub(self.n_digits)
    }
}

/// The tokens that begin with digits, by how many.
pub(super) struct DigitTokens {
    tokens: Vec<(u32, usize)>,
    longest: usize,
}

impl DigitTokens {
    pub(super) fn new<'a>(tokens: impl Iterator<Item = (u32, &'a [u8])>) -> Self {
        let count = |bytes: &[u8]| bytes.iter().take_while(|b| b.is_ascii_digit()).count();
        let tokens: Vec<_> = tokens.map(|(id, b)| (id, count(b))).filter(|(_, n)| *n > 0).collect();
        let longest = tokens.iter().map(|(_, n)| *n).max().unwrap_or(0);
        DigitTokens { tokens, longest }
    }

    /// The tokens that begin with more digits than may come; usually nobody asks for them.
    pub(super) fn beyond(&self, n_left: usize) -> impl Iterator<Item = u32> {
        let tokens = if n_left >= self.longest { &[][..] } else { &self.tokens[..] };
        tokens.iter().filter(move |(_, n)| *n > n_left).map(|(id, _)| *id)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn at(text: &str) -> JsonPlace {
        let mut place = JsonPlace::default();
        text.bytes().for_each(|b| place.push(b));
        place
    }

    #[test]
    fn digits_are_counted_outside_strings() {
        assert_eq!(at("[12, 345").n_digits_left(), MAX_DIGITS - 3);
        assert_eq!(at("-1.25").n_digits_left(), MAX_DIGITS - 2);
        assert_eq!(at("1e-1").n_digits_left(), MAX_EXPONENT - 1);
        assert_eq!(at("1e99").n_digits_left(), 0);
        assert_eq!(at("1e99,5").n_digits_left(), MAX_DIGITS - 1);
        assert_eq!(at("true").n_digits_left(), MAX_DIGITS);
        assert_eq!(at("\"123").n_digits_left(), usize::MAX);
    }

    #[test]
    fn strings_end_at_a_quote_that_is_not_escaped() {
        for (text, inside) in [("\"a", true), (r#""a\""#, true), (r#""a\\""#, false), (r#"{"a":"#, false)] {
            assert_eq!(at(text).in_string, inside, "{text}");
        }
    }

    #[test]
    fn tokens_are_known_by_the_digits_they_begin_with() {
        let words: [(u32, &[u8]); 4] = [(0, b"1"), (1, b"a1"), (2, b"123,"), (3, b"12")];
        let tokens = DigitTokens::new(words.into_iter());
        assert_eq!(tokens.beyond(0).collect::<Vec<_>>(), [0, 2, 3]);
        assert_eq!(tokens.beyond(2).collect::<Vec<_>>(), [2]);
        assert_eq!(tokens.beyond(3).count(), 0);
    }
}
