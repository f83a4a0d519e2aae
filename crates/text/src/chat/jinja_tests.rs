//! Tests (`x is …`) that the engine lacks or decides otherwise than Jinja2.

use minijinja::value::ValueKind;
use minijinja::{Environment, Value};

/// Adds the tests.
pub(super) fn add_to(env: &mut Environment<'_>) {
    env.add_test("callable", is_callable);
    env.add_test("number", |v: &Value| matches!(v.kind(), ValueKind::Number | ValueKind::Bool));
    env.add_test("iterable", |v: &Value| v.is_undefined() || is_container(v));
    env.add_test("sequence", |v: &Value| v.is_undefined() || is_container(v));
}

fn is_callable(value: &Value) -> bool {
    value.kind() == ValueKind::Plain || (value.kind() == ValueKind::Map && super::repr::is_macro(value))
}

/// What Python can iterate over and index: text, lists, dicts; unlike in the engine, not `none`.
fn is_container(value: &Value) -> bool {
    matches!(
        value.kind(),
        ValueKind::String | ValueKind::Bytes | ValueKind::Seq | ValueKind::Iterable | ValueKind::Map
    )
}
