//! Filters that Jinja2 has and the engine lacks, or whose results differ from Python's.

mod html;
mod number;
mod sequence;
mod text;

use minijinja::value::Kwargs;
use minijinja::{Environment, Error, ErrorKind, Value};

pub(super) use html::escape_text;

/// Adds the filters.
pub(super) fn add_to(env: &mut Environment<'_>) {
    text::add_to(env);
    html::add_to(env);
    number::add_to(env);
    sequence::add_to(env);
    super::formatting::add_to(env);
}

/// The parameters of a filter, by place or by name.
struct Parameters<'a> {
    positional: &'a [Value],
    named: &'a Kwargs,
}

impl<'a> Parameters<'a> {
    /// Errors if there are more than `names`, or others.
    fn new(positional: &'a [Value], named: &'a Kwargs, names: &[&str]) -> Result<Self, Error> {
        if positional.len() > names.len() || named.args().any(|name| !names.contains(&name)) {
            return Err(Error::from(ErrorKind::TooManyArguments));
        }
        Ok(Self { positional, named })
    }

    fn value(&self, i: usize, name: &str) -> Result<Option<Value>, Error> {
        match self.positional.get(i) {
            Some(value) => Ok(Some(value.clone())),
            None if self.named.has(name) => self.named.peek(name).map(Some),
            None => Ok(None),
        }
    }

    fn flag(&self, i: usize, name: &str) -> Result<bool, Error> {
        Ok(self.value(i, name)?.is_some_and(|v| v.is_true()))
    }

    fn text(&self, i: usize, name: &str) -> Result<Option<String>, Error> {
        self.value(i, name)?.filter(|v| !v.is_none()).map(|v| super::repr::to_str(&v)).transpose()
    }

    /// A width or count: at most 2^20, negative counts as 0.
    fn size(&self, i: usize, name: &str) -> Result<Option<usize>, Error> {
        const MAX_SIZE: i64 = 1 << 20;
        let Some(value) = self.value(i, name)?.filter(|v| !v.is_none()) else { return Ok(None) };
        match value.as_i64() {
            Some(n) if n <= MAX_SIZE => Ok(Some(usize::try_from(n).unwrap_or(0))),
            _ => Err(Error::new(ErrorKind::InvalidOperation, format!("'{name}' cannot be {value}"))),
        }
    }
}
