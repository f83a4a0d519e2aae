//! JSON checked byte by byte, as it comes.
//!
//! One deviation from the grammar is accepted, since models make it often: a raw line break or tab inside a string. The
//! scanner says where, so that the caller can write an escape instead.

/// Arrays and objects within one another; what reads the arguments afterwards has such a bound too.
const MAX_DEPTH: usize = 100;

/// The text is not JSON.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) struct NotJson;

/// What may come next, as far as others need to know.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Expect {
    /// A value, or whitespace before it.
    Value,
    /// A key, or the end of the object.
    Key,
    Colon,
    /// A comma, or the end of what is open.
    Next,
    /// More of what has begun.
    Inside,
    /// Nothing: the value is complete.
    Done,
}

#[derive(Clone, Copy, Debug)]
enum State {
    Value,
    FirstItem,
    Key,
    FirstKey,
    Colon,
    Next,
    Text { is_key: bool },
    Escape { is_key: bool },
    Hex { is_key: bool, n_left: u8 },
    Number(Number),
    Word(&'static [u8]),
    Done,
}

#[derive(Clone, Copy, Debug)]
enum Number {
    Minus,
    Zero,
    Digits,
    Point,
    Fraction,
    Exponent,
    ExponentSign,
    ExponentDigits,
}

/// Checks one value.
#[derive(Clone, Debug)]
pub(super) struct JsonScan {
    state: State,
    /// For everything open, whether it is an object.
    open: Vec<bool>,
}

impl JsonScan {
    pub(super) fn new() -> Self {
        JsonScan { state: State::Value, open: Vec::new() }
    }

    /// How many arrays and objects are open.
    pub(super) fn depth(&self) -> usize {
        self.open.len()
    }

    pub(super) fn expects(&self) -> Expect {
        match self.state {
            State::Value | State::FirstItem => Expect::Value,
            State::Key | State::FirstKey => Expect::Key,
            State::Colon => Expect::Colon,
            State::Next => Expect::Next,
            State::Done => Expect::Done,
            _ => Expect::Inside,
        }
    }

    pub(super) fn is_done(&self) -> bool {
        matches!(self.state, State::Done)
    }

    /// Takes a byte; gives what should be written for it where that is something else.
    pub(super) fn push(&mut self, byte: u8) -> Result<Option<String>, NotJson> {
        if let State::Text { .. } = self.state
            && byte < 0x20
        {
            return Ok(Some(format!("\\u{byte:04x}")));
        }
        self.state = match self.state {
            State::Text { is_key } => self.text(is_key, byte),
            State::Escape { is_key } => escape(is_key, byte)?,
            State::Hex { is_key, n_left } => hex(is_key, n_left, byte)?,
            State::Number(number) => match continue_number(number, byte)? {
                Some(next) => State::Number(next),
                None => {
                    self.state = self.after_value();
                    self.structure(byte)?
                }
            },
            State::Word(rest) => self.word(rest, byte)?,
            _ => self.structure(byte)?,
        };
        Ok(None)
    }

    fn structure(&mut self, byte: u8) -> Result<State, NotJson> {
        match (self.state, byte) {
            (state, b' ' | b'\t' | b'\n' | b'\r') => Ok(state),
            (State::FirstItem, b']') | (State::FirstKey, b'}') => Ok(self.close()),
            (State::Value | State::FirstItem, _) => self.value(byte),
            (State::Key | State::FirstKey, b'"') => Ok(State::Text { is_key: true }),
            (State::Colon, b':') => Ok(State::Value),
            (State::Next, b',') if self.open.last() == Some(&true) => Ok(State::Key),
            (State::Next, b',') => Ok(State::Value),
            (State::Next, b'}') if self.open.last() == Some(&true) => Ok(self.close()),
            (State::Next, b']') if self.open.last() == Some(&false) => Ok(self.close()),
            _ => Err(NotJson),
        }
    }

    fn value(&mut self, byte: u8) -> Result<State, NotJson> {
        match byte {
            b'{' => self.open(true, State::FirstKey),
            b'[' => self.open(false, State::FirstItem),
            b'"' => Ok(State::Text { is_key: false }),
            b'-' => Ok(State::Number(Number::Minus)),
            b'0' => Ok(State::Number(Number::Zero)),
            b'1'..=b'9' => Ok(State::Number(Number::Digits)),
            b't' => Ok(State::Word(b"rue")),
            b'f' => Ok(State::Word(b"alse")),
            b'n' => Ok(State::Word(b"ull")),
            _ => Err(NotJson),
        }
    }

    fn open(&mut self, is_object: bool, state: State) -> Result<State, NotJson> {
        if self.open.len() == MAX_DEPTH {
            return Err(NotJson);
        }
        self.open.push(is_object);
        Ok(state)
    }

    fn close(&mut self) -> State {
        self.open.pop();
        self.after_value()
    }

    fn after_value(&self) -> State {
        if self.open.is_empty() { State::Done } else { State::Next }
    }

    fn text(&self, is_key: bool, byte: u8) -> State {
        match byte {
            b'"' if is_key => State::Colon,
            b'"' => self.after_value(),
            b'\\' => State::Escape { is_key },
            _ => State::Text { is_key },
        }
    }

    fn word(&self, rest: &'static [u8], byte: u8) -> Result<State, NotJson> {
        match rest {
            [only] if *only == byte => Ok(self.after_value()),
            [first, rest @ ..] if *first == byte => Ok(State::Word(rest)),
            _ => Err(NotJson),
        }
    }
}

fn escape(is_key: bool, byte: u8) -> Result<State, NotJson> {
    match byte {
        b'"' | b'\\' | b'/' | b'b' | b'f' | b'n' | b'r' | b't' => Ok(State::Text { is_key }),
        b'u' => Ok(State::Hex { is_key, n_left: 4 }),
        _ => Err(NotJson),
    }
}

fn hex(is_key: bool, n_left: u8, byte: u8) -> Result<State, NotJson> {
    match (byte.is_ascii_hexdigit(), n_left) {
        (false, _) => Err(NotJson),
        (true, 1) => Ok(State::Text { is_key }),
        (true, n) => Ok(State::Hex { is_key, n_left: n - 1 }),
    }
}

/// The number with one more byte; `None` if it ends before it.
fn continue_number(number: Number, byte: u8) -> Result<Option<Number>, NotJson> {
    use Number::*;
    Ok(Some(match (number, byte) {
        (Minus, b'0') => Zero,
        (Minus, b'1'..=b'9') | (Digits, b'0'..=b'9') => Digits,
        (Zero | Digits, b'.') => Point,
        (Point | Fraction, b'0'..=b'9') => Fraction,
        (Zero | Digits | Fraction, b'e' | b'E') => Exponent,
        (Exponent, b'+' | b'-') => ExponentSign,
        (Exponent | ExponentSign | ExponentDigits, b'0'..=b'9') => ExponentDigits,
        (Zero | Digits | Fraction | ExponentDigits, _) => return Ok(None),
        _ => return Err(NotJson),
    }))
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;

    fn accepts(text: &str) -> bool {
        let mut scan = JsonScan::new();
        text.bytes().all(|byte| scan.push(byte).is_ok()) && scan.is_done()
    }

    #[test]
    fn values_are_told_from_others() {
        for good in [r#"{"a":[1,-2.5e+3,0,true,null,{}],"b":"\u00e9\n"}"#, "[]", "\"x\"", "{ }"] {
            assert!(accepts(good), "{good}");
        }
        let bad = [
            "{'a':1}",
            "{\"a\":01}",
            "[1,]",
            "{\"a\":1,}",
            "{\"a\" 1}",
            "[1}",
            "{\"a\":tru}",
            "\"\\x\"",
            "{}}",
        ];
        for bad in bad {
            assert!(!accepts(bad), "{bad}");
        }
        assert!(!accepts(&"[".repeat(MAX_DEPTH + 1)));
    }

    #[test]
    fn raw_control_characters_get_an_escape() {
        let mut scan = JsonScan::new();
        assert_eq!(scan.push(b'"'), Ok(None));
        assert_eq!(scan.push(b'\n'), Ok(Some("\\u000a".to_owned())));
    }

    proptest! {
        /// Within a container, so that numbers end.
        #[test]
        fn agrees_with_another_parser(text in r#"\[[\[\]{}:,"a0-2.eE+\\nulltrue -]{0,12}\]"#) {
            let other = serde_json::from_str::<serde_json::Value>(&text).is_ok();
            // The other refuses what does not fit its numbers and half a surrogate pair.
            prop_assert!(accepts(&text) == other || text.contains(['e', 'E']), "{text}");
        }
    }
}
