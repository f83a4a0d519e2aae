//! The engine, set up as the reference sets up Jinja2.

use minijinja::syntax::SyntaxConfig;
use minijinja::{Environment, Error, ErrorKind, UndefinedBehavior, Value};

use super::error::{LimitReached, RaisedByTemplate};
use super::{filters, functions, jinja_tests, json, methods, operators, repr};

/// Steps of one rendering. A long conversation with many tools takes some ten thousand; each step is also 64 bytes of
/// text or two list items.
pub(super) const FUEL: u64 = 4_000_000;

/// Nested calls, loops and blocks of one rendering; a macro call counts several.
const RECURSION_LIMIT: usize = 400;

/// The most text that one rendering may produce.
pub(super) const MAX_OUTPUT_BYTES: usize = 64 << 20;

/// The name under which the template is compiled; its ending chooses no escaping.
pub(super) const TEMPLATE_NAME: &str = "chat";

/// An environment that holds `template` as [`TEMPLATE_NAME`].
pub(super) fn build(template: String) -> Result<Environment<'static>, Error> {
    let mut env = Environment::new();
    env.set_syntax(SyntaxConfig::builder().trim_blocks(true).lstrip_blocks(true).build()?);
    env.set_undefined_behavior(UndefinedBehavior::Lenient);
    // Debug mode prints variables into errors, whatever their size.
    env.set_debug(false);
    env.set_fuel(Some(FUEL));
    env.set_recursion_limit(RECURSION_LIMIT);
    env.set_unknown_method_callback(methods::call);
    env.set_formatter(|out, _, value| {
        let text = repr::to_str(value)?;
        out.write_str(&text).map_err(|_| limit("rendering produces too much text"))
    });
    env.add_filter("tojson", json::tojson);
    filters::add_to(&mut env);
    jinja_tests::add_to(&mut env);
    functions::add_to(&mut env);
    operators::add_to(&mut env);
    env.add_template_owned(TEMPLATE_NAME, template)?;
    Ok(env)
}

/// The error of a limit of this module.
pub(super) fn limit(what: &'static str) -> Error {
    Error::new(ErrorKind::InvalidOperation, what).with_source(LimitReached(what))
}

/// The error that `raise_exception(message)` ends a rendering with.
pub(super) fn raised(message: &Value) -> Error {
    let message = repr::to_str(message).unwrap_or_else(|error| error.to_string());
    Error::new(ErrorKind::InvalidOperation, message.clone()).with_source(RaisedByTemplate(message))
}
