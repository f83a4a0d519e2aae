//! Methods that Python's `str`, `list` and `dict` have and the engine's values have not.
//!
//! Only methods that change nothing: the reference runs templates in an immutable sandbox, where `list.append`,
//! `dict.update` and the like are errors, and so they are here.

mod dict;
mod list;
pub(super) mod string;

use minijinja::value::{Kwargs, ValueKind};
use minijinja::{Error, ErrorKind, State, Value};

/// The engine's hook for methods: dispatches on the type of `value`.
pub(super) fn call(
    state: &mut State<'_, '_>,
    value: &Value,
    method: &str,
    args: &[Value],
) -> Result<Value, Error> {
    let call = Call { state, args };
    match value.kind() {
        ValueKind::String => string::call(&call, value.as_str().unwrap_or_default(), method),
        ValueKind::Map => dict::call(&call, value, method),
        ValueKind::Seq | ValueKind::Iterable => list::call(&call, value, method),
        _ => Err(unknown_method()),
    }
}

/// Whether some type has a method of this name.
pub(super) fn is_known(name: &str) -> bool {
    string::NAMES.contains(&name) || list::NAMES.contains(&name) || dict::NAMES.contains(&name)
}

fn unknown_method() -> Error {
    Error::from(ErrorKind::UnknownMethod)
}

/// The arguments of one call, positional ones first.
struct Call<'a, 'state, 'env> {
    state: &'a State<'state, 'env>,
    args: &'a [Value],
}

impl<'a> Call<'a, '_, '_> {
    fn positional(&self) -> &'a [Value] {
        match self.args.split_last() {
            Some((last, rest)) if last.is_kwargs() => rest,
            _ => self.args,
        }
    }

    /// Argument `i`, or the keyword `name`; `None` passed explicitly counts as absent.
    fn get(&self, i: usize, name: &str) -> Result<Option<Value>, Error> {
        let value = match self.positional().get(i) {
            Some(value) => Some(value.clone()),
            None => self.keyword(name)?,
        };
        Ok(value.filter(|v| !v.is_none()))
    }

    fn keyword(&self, name: &str) -> Result<Option<Value>, Error> {
        match self.args.last().filter(|last| last.is_kwargs()) {
            Some(last) => Kwargs::try_from(last.clone())?.peek::<Option<Value>>(name),
            None => Ok(None),
        }
    }

    fn at_most(&self, n: usize) -> Result<(), Error> {
        match self.positional().len() {
            given if given > n => Err(Error::from(ErrorKind::TooManyArguments)),
            _ => Ok(()),
        }
    }

    fn text(&self, i: usize, name: &str) -> Result<&'a str, Error> {
        let value = self.positional().get(i).ok_or_else(|| missing(name))?;
        value.as_str().ok_or_else(|| wrong_type(name, "a string", value))
    }

    fn opt_text(&self, i: usize, name: &str) -> Result<Option<String>, Error> {
        match self.get(i, name)? {
            None => Ok(None),
            Some(value) => match value.as_str() {
                Some(text) => Ok(Some(text.to_owned())),
                None => Err(wrong_type(name, "a string", &value)),
            },
        }
    }

    fn opt_int(&self, i: usize, name: &str) -> Result<Option<i64>, Error> {
        match self.get(i, name)? {
            None => Ok(None),
            Some(value) => match value.as_i64() {
                Some(n) => Ok(Some(n)),
                None => Err(wrong_type(name, "an integer", &value)),
            },
        }
    }

    /// Pays for `n_bytes` of text before it is made.
    fn pay(&self, n_bytes: usize) -> Result<(), Error> {
        self.state.consume_fuel(n_bytes as u64 / 64)
    }
}

fn missing(name: &str) -> Error {
    Error::new(ErrorKind::MissingArgument, format!("argument '{name}' is missing"))
}

fn wrong_type(name: &str, expected: &str, value: &Value) -> Error {
    Error::new(
        ErrorKind::InvalidOperation,
        format!("argument '{name}' must be {expected}, not {}", value.kind()),
    )
}
