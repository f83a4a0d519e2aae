//! The tokens inside one `{{ … }}` or `{% … %}`.

use std::ops::Range;

/// A name, a number, a string literal or an operator.
#[derive(Clone, Copy, Debug)]
pub(super) struct Token<'a> {
    pub(super) text: &'a str,
    pub(super) line: usize,
    start: usize,
}

impl Token<'_> {
    pub(super) fn is_any_name(&self) -> bool {
        self.text.starts_with(is_name_start)
    }

    pub(super) fn is_name(&self, name: &str) -> bool {
        self.text == name
    }

    /// Where the token lies in the template.
    pub(super) fn range(&self) -> Range<usize> {
        self.start..self.start + self.text.len()
    }
}

/// The tokens from byte `start` (behind the opening marker, in line `line`) to the closing marker, and the offset
/// behind that; `None` if the tag does not end.
pub(super) fn tokenize(
    text: &str,
    start: usize,
    line: usize,
    is_block: bool,
) -> Option<(Vec<Token<'_>>, usize)> {
    let closing = if is_block { "%}" } else { "}}" };
    let mut tokens: Vec<Token<'_>> = Vec::new();
    let (mut at, mut line) = (start, line);
    // A `}}` closes the expression only where no dict literal is open.
    let mut n_open_braces = 0_usize;
    if text[at..].starts_with(['-', '+']) {
        at += 1;
    }
    loop {
        let rest = &text[at..];
        let first = rest.chars().next()?;
        let unsigned = rest.strip_prefix(['-', '+']).unwrap_or(rest);
        if (is_block || n_open_braces == 0) && unsigned.starts_with(closing) {
            return Some((tokens, at + rest.len() - unsigned.len() + closing.len()));
        }
        match first {
            '{' => n_open_braces += 1,
            '}' => n_open_braces = n_open_braces.saturating_sub(1),
            _ => {}
        }
        let is_attribute = tokens.last().is_some_and(|t| t.text == ".");
        let len = token_len(rest, first, is_attribute)?;
        if !first.is_whitespace() {
            tokens.push(Token { text: &rest[..len], line, start: at });
        }
        line += rest[..len].matches('\n').count();
        at += len;
    }
}

fn token_len(text: &str, first: char, is_attribute: bool) -> Option<usize> {
    const TWO_CHARACTERS: [&str; 6] = ["**", "//", "==", "!=", "<=", ">="];
    Some(match first {
        '\'' | '"' => string_len(text, first)?,
        c if is_name_start(c) => name_len(text),
        c if c.is_ascii_digit() && is_attribute => name_len(text),
        c if c.is_ascii_digit() => number_len(text),
        _ if TWO_CHARACTERS.iter().any(|op| text.starts_with(op)) => 2,
        c => c.len_utf8(),
    })
}

fn is_name_start(c: char) -> bool {
    c == '_' || c.is_alphabetic()
}

fn name_len(text: &str) -> usize {
    text.find(|c: char| c != '_' && !c.is_alphanumeric()).unwrap_or(text.len())
}

/// `1_000`, `0x1F`, `1.5`, `1e-7`.
fn number_len(text: &str) -> usize {
    let mut len = name_len(text);
    let is_digit_at = |i: usize| text.as_bytes().get(i).is_some_and(u8::is_ascii_digit);
    if text[len..].starts_with('.') && is_digit_at(len + 1) {
        len += 1 + name_len(&text[len + 1..]);
    }
    let has_open_exponent =
        text[..len].ends_with(['e', 'E']) && !text.starts_with("0x") && !text.starts_with("0X");
    if has_open_exponent && text[len..].starts_with(['-', '+']) && is_digit_at(len + 1) {
        len += 1 + name_len(&text[len + 1..]);
    }
    len
}

/// Length of the string literal that `text` begins with, quotes included.
fn string_len(text: &str, quote: char) -> Option<usize> {
    let mut is_escaped = false;
    for (i, c) in text.char_indices().skip(1) {
        match c {
            _ if is_escaped => is_escaped = false,
            '\\' => is_escaped = true,
            c if c == quote => return Some(i + 1),
            _ => {}
        }
    }
    None
}
