//! Literals as Python writes them, and JSON does, too: where one ends, and what it is as JSON.

use serde_json::{Map, Number, Value};

/// Brackets within brackets.
const MAX_NESTING: usize = 64;

/// Finds the end of a literal: the first comma or closing bracket outside of texts and brackets.
#[derive(Clone, Debug, Default)]
pub(super) struct LiteralScan {
    quote: Option<u8>,
    is_escaped: bool,
    depth: usize,
}

impl LiteralScan {
    /// Takes a byte; whether it is the one behind the literal.
    pub(super) fn push(&mut self, byte: u8) -> bool {
        if let Some(quote) = self.quote {
            match byte {
                _ if self.is_escaped => self.is_escaped = false,
                b'\\' => self.is_escaped = true,
                _ if byte == quote => self.quote = None,
                _ => {}
            }
            return false;
        }
        match byte {
            b'"' | b'\'' => self.quote = Some(byte),
            b'[' | b'{' | b'(' => self.depth += 1,
            b']' | b'}' | b')' if self.depth > 0 => self.depth -= 1,
            b',' | b']' | b'}' | b')' => return self.depth == 0,
            _ => {}
        }
        false
    }
}

/// The JSON of a whole literal; `None` if it is none.
pub(super) fn to_json(text: &str) -> Option<Value> {
    let mut reader = Reader { rest: text };
    let value = reader.value(MAX_NESTING)?;
    reader.skip_space();
    reader.rest.is_empty().then_some(value)
}

struct Reader<'a> {
    rest: &'a str,
}

impl Reader<'_> {
    fn skip_space(&mut self) {
        self.rest = self.rest.trim_start();
    }

    /// Takes a text if it comes next.
    fn takes(&mut self, text: &str) -> bool {
        self.skip_space();
        match self.rest.strip_prefix(text) {
            Some(rest) => {
                self.rest = rest;
                true
            }
            None => false,
        }
    }

    fn value(&mut self, n_left: usize) -> Option<Value> {
        self.skip_space();
        let n_left = n_left.checked_sub(1)?;
        match self.rest.chars().next()? {
            quote @ ('"' | '\'') => self.text(quote).map(Value::String),
            '[' => self.list("[", "]", n_left),
            '(' => self.list("(", ")", n_left),
            '{' => self.object(n_left),
            _ => self.word(),
        }
    }

    fn list(&mut self, open: &str, close: &str, n_left: usize) -> Option<Value> {
        self.takes(open);
        let mut all = Vec::new();
        loop {
            // A comma may stand before the end.
            if self.takes(close) {
                return Some(all.into());
            }
            all.push(self.value(n_left)?);
            if !self.takes(",") {
                return self.takes(close).then(|| all.into());
            }
        }
    }

    fn object(&mut self, n_left: usize) -> Option<Value> {
        self.takes("{");
        let mut all = Map::new();
        loop {
            if self.takes("}") {
                return Some(all.into());
            }
            let Value::String(key) = self.value(n_left)? else { return None };
            if !self.takes(":") {
                return None;
            }
            all.insert(key, self.value(n_left)?);
            if !self.takes(",") {
                return self.takes("}").then(|| all.into());
            }
        }
    }

    fn word(&mut self) -> Option<Value> {
        let is_part = |c: char| c.is_ascii_alphanumeric() || "+-._".contains(c);
        let end = self.rest.find(|c| !is_part(c)).unwrap_or(self.rest.len());
        let (word, rest) = self.rest.split_at(end);
        self.rest = rest;
        match word {
            "True" | "true" => Some(true.into()),
            "False" | "false" => Some(false.into()),
            "None" | "null" => Some(Value::Null),
            _ => number(word),
        }
    }

    fn text(&mut self, quote: char) -> Option<String> {
        let mut out = String::new();
        let mut chars = self.rest.char_indices().skip(1);
        while let Some((at, c)) = chars.next() {
            match c {
                '\\' => escape(&mut chars, &mut out)?,
                _ if c == quote => {
                    self.rest = &self.rest[at + 1..];
                    return Some(out);
                }
                _ => out.push(c),
            }
        }
        None
    }
}

fn number(word: &str) -> Option<Value> {
    let plain = word.replace('_', "");
    if let Ok(value) = serde_json::from_str::<Number>(&plain) {
        return Some(value.into());
    }
    // `.5`, `5.` and `+5` are numbers of Python; `inf` and `nan` are none of JSON.
    let is_digits = plain.contains(|c: char| c.is_ascii_digit());
    let value: f64 = plain.parse().ok().filter(|_| is_digits)?;
    Number::from_f64(value).map(Value::Number)
}

/// Reads what follows a backslash.
fn escape(chars: &mut impl Iterator<Item = (usize, char)>, out: &mut String) -> Option<()> {
    let (_, c) = chars.next()?;
    let plain = match c {
        'n' => '\n',
        't' => '\t',
        'r' => '\r',
        'b' => '\u{8}',
        'f' => '\u{c}',
        'a' => '\u{7}',
        'v' => '\u{b}',
        '0' => '\0',
        '\\' | '\'' | '"' | '/' => c,
        '\n' => return Some(()),
        'x' => char::from_u32(code(chars, 2)?)?,
        'U' => char::from_u32(code(chars, 8)?)?,
        'u' => match code(chars, 4)? {
            high @ 0xd800..0xdc00 => low_half(chars, high)?,
            code => char::from_u32(code)?,
        },
        // As for Python, a backslash that means nothing is one.
        _ => {
            out.push('\\');
            c
        }
    };
    out.push(plain);
    Some(())
}

fn code(chars: &mut impl Iterator<Item = (usize, char)>, n_digits: usize) -> Option<u32> {
    (0..n_digits).try_fold(0_u32, |code, _| Some(code << 4 | chars.next()?.1.to_digit(16)?))
}

/// The second half of a character that JSON writes in two.
fn low_half(chars: &mut impl Iterator<Item = (usize, char)>, high: u32) -> Option<char> {
    let is_pair = chars.next()?.1 == '\\' && chars.next()?.1 == 'u';
    let low = code(chars, 4).filter(|low| is_pair && (0xdc00..0xe000).contains(low))?;
    char::from_u32(0x10000 + ((high - 0xd800) << 10) + (low - 0xdc00))
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::*;

    #[test]
    fn literals_of_python_and_of_json_are_read() {
        for (text, value) in [
            ("'it\\'s \"x\"'", json!("it's \"x\"")),
            (r#""a\n\u00e9\x41\ud83c\udf89\q""#, json!("a\né\x41🎉\\q")),
            ("[1, -2.5, .5, 1_000, 1e3,]", json!([1, -2.5, 0.5, 1000, 1e3])),
            (
                "{'a': True, \"b\": null, 'c': (None, false)}",
                json!({"a": true, "b": null, "c": [null, false]}),
            ),
            (" {} ", json!({})),
        ] {
            assert_eq!(to_json(text), Some(value), "{text}");
        }
        let deep = "[".repeat(100_000);
        for text in ["", "x", "'a", "[1", "{1: 2}", "inf", "nan", "1 2", "'a' 'b'", r"'\ud83c'", &deep] {
            assert_eq!(to_json(text), None, "{text:.20}");
        }
    }

    #[test]
    fn a_literal_ends_outside_of_texts_and_brackets() {
        for (text, end) in
            [("1, 2", 1), ("'a,)' )", 6), ("[1, (2)], x", 8), (r#""\"," ,"#, 6), ("{')': ','})", 10)]
        {
            let mut scan = LiteralScan::default();
            assert_eq!(text.bytes().position(|byte| scan.push(byte)), Some(end), "{text}");
        }
    }
}
