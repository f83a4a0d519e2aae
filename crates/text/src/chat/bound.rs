//! Keeps what templates store shallow.
//!
//! `{% set ns.x = [ns.x] %}` in a loop builds a value of any depth, and merely dropping it would exhaust the stack. So
//! everything that a `set` tag or a namespace stores is looked through: containers nest at most [`MAX_DEPTH`] levels
//! around values of the request (which are bounded on their own), lazy sequences become lists, and objects with a state
//! of their own do not hold one another.

use minijinja::value::{Rest, Tuple, ValueKind};
use minijinja::{Error, ErrorKind, State, Value};

use super::dict::Dict;
use super::repr::{self, MAX_DEPTH};

/// The function behind every `set`: `a, b` make a tuple.
pub(super) fn assigned(state: &State<'_, '_>, values: Rest<Value>) -> Result<Value, Error> {
    match <[Value; 1]>::try_from(values.0) {
        Ok([value]) => bound(state, value, 0),
        Err(values) => bound(state, Value::from(Tuple::from(values)), 0),
    }
}

/// The function behind every `set` of an attribute, which only namespaces have.
pub(super) fn assigned_to_attribute(state: &State<'_, '_>, values: Rest<Value>) -> Result<Value, Error> {
    bound(state, assigned(state, values)?, 1)
}

/// `value`, checked; `depth` is how many containers it lies in.
pub(super) fn bound(state: &State<'_, '_>, value: Value, depth: usize) -> Result<Value, Error> {
    if depth > MAX_DEPTH {
        return Err(repr::too_deep());
    }
    match value.kind() {
        ValueKind::Seq | ValueKind::Iterable => list(state, value, depth),
        ValueKind::Map => map(state, value, depth),
        ValueKind::Plain if depth > 1 => Err(nested_object()),
        _ => Ok(value),
    }
}

fn list(state: &State<'_, '_>, value: Value, depth: usize) -> Result<Value, Error> {
    let mut items = Vec::new();
    for item in value.try_iter()?.checked() {
        state.consume_fuel(1)?;
        items.push(bound(state, item?, depth + 1)?);
    }
    Ok(if value.is_tuple() { Value::from(Tuple::from(items)) } else { Value::from(items) })
}

fn map(state: &State<'_, '_>, value: Value, depth: usize) -> Result<Value, Error> {
    let is_request = value.downcast_object_ref::<Dict>().is_some();
    if is_request || repr::is_macro(&value) {
        return Ok(value);
    }
    if is_namespace(&value) {
        return if depth > 0 { Err(nested_object()) } else { Ok(value) };
    }
    for key in value.try_iter()?.checked() {
        state.consume_fuel(1)?;
        bound(state, value.get_item(&key?)?, depth + 1)?;
    }
    Ok(value)
}

/// Whether this is what `namespace()` made.
pub(super) fn is_namespace(value: &Value) -> bool {
    value.as_object().is_some_and(|object| object.type_name().contains("Namespace"))
}

fn nested_object() -> Error {
    Error::new(
        ErrorKind::InvalidOperation,
        "namespaces and other objects cannot be kept in lists, dicts or namespaces",
    )
}
