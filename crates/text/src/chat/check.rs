//! The checks at load: names that do not exist, and a trial.

use minijinja::Environment;
use serde_json::json;

use super::environment::TEMPLATE_NAME;
use super::error::{Construct, TemplateError};
use super::source::{Reference, Source};
use super::{ChatTemplate, RenderInput, functions, methods, operators};

/// Methods of objects that are neither strings nor containers: `loop`, `cycler`.
const OBJECT_METHODS: &[&str] = &["changed", "cycle", "next", "reset"];

/// Methods that the reference's sandbox refuses whenever they are called. A template that calls one has worked for
/// nobody there, but its publisher may have rendered it without the sandbox, so only the call fails.
const MUTATING_METHODS: &[&str] = &[
    "append",
    "clear",
    "extend",
    "insert",
    "pop",
    "popitem",
    "remove",
    "reverse",
    "setdefault",
    "sort",
    "update",
];

/// Refuses what would exhaust the stack of the engine's parser.
pub(super) fn size(source: &Source) -> Result<(), TemplateError> {
    match source.excess {
        Some((construct, line)) => Err(TemplateError::Syntax { construct: construct.to_owned(), line }),
        None => Ok(()),
    }
}

/// Refuses macros that take any arguments.
pub(super) fn macros(source: &Source) -> Result<(), TemplateError> {
    match source.variadic_macro {
        Some(line) => {
            let construct = "macro with varargs or kwargs, which are not supported".to_owned();
            Err(TemplateError::Syntax { construct, line })
        }
        None => Ok(()),
    }
}

/// Variables of every rendering.
const ALWAYS_THERE: &[&str] = &["add_generation_prompt", "documents", "messages", "self", "tools"];

/// Refuses a template that cannot render without a name that does not exist.
pub(super) fn names(env: &Environment<'_>, source: &Source) -> Result<(), TemplateError> {
    match source.references.iter().find(|r| !r.is_guarded && !exists(env, source, r)) {
        Some(Reference { kind, name, line, .. }) => {
            Err(TemplateError::Unknown { kind: *kind, name: name.clone(), line: *line })
        }
        None => Ok(()),
    }
}

fn exists(env: &Environment<'_>, source: &Source, reference: &Reference) -> bool {
    let name = reference.name.as_str();
    match reference.kind {
        Construct::Filter => is_listed(env, "filter", name),
        Construct::Test => is_listed(env, "test", name),
        Construct::Function => functions::NAMES.contains(&name) || source.defined.contains(name),
        Construct::Method => {
            let is_method =
                methods::is_known(name) || OBJECT_METHODS.contains(&name) || MUTATING_METHODS.contains(&name);
            is_method || source.defined.contains(name)
        }
    }
}

/// Asks the engine's own test (`name is filter`, `name is test`).
fn is_listed(env: &Environment<'_>, list: &str, name: &str) -> bool {
    env.empty_state().perform_test(list, &[name.into()]).unwrap_or(false)
}

/// Renders plain conversations; refuses the template if all of them fail, with the error of the first. A template that
/// needs arguments which only the caller can give is not tried.
pub(super) fn trial(template: &ChatTemplate, source: &Source) -> Result<(), TemplateError> {
    if needs_arguments(template, source) {
        return Ok(());
    }
    let mut first_error = None;
    for input in conversations() {
        match template.render(&input) {
            Ok(_) | Err(TemplateError::Raised { .. }) => return Ok(()),
            // A few words must never cost that much.
            Err(error @ TemplateError::Limit { .. }) => return Err(error),
            Err(error) => first_error = first_error.or(Some(error)),
        }
    }
    first_error.map_or(Ok(()), Err)
}

/// Whether the template reads a variable that is not always there, without asking whether it is defined.
fn needs_arguments(template: &ChatTemplate, source: &Source) -> bool {
    let given = |name: &String| {
        ALWAYS_THERE.contains(&name.as_str())
            || name.ends_with("_token")
            || functions::NAMES.contains(&name.as_str())
            || operators::NAMES.contains(&name.as_str())
            || source.defined.contains(name)
    };
    let compiled = template.env.get_template(TEMPLATE_NAME);
    compiled.is_ok_and(|compiled| !compiled.undeclared_variables(false).iter().all(given))
}

fn conversations() -> Vec<RenderInput> {
    let user = json!({"role": "user", "content": "Hello!"});
    let system = json!({"role": "system", "content": "Be brief."});
    let assistant = json!({"role": "assistant", "content": "Hi."});
    let parts = json!({"role": "user", "content": [{"type": "text", "text": "Hello!"}]});
    let tools = json!([{"type": "function", "function": {
        "name": "now", "description": "Tells the time.", "parameters": {"type": "object", "properties": {}}}}]);
    let plain = [json!([user]), json!([system, user]), json!([user, assistant, user]), json!([parts])];
    let mut inputs: Vec<RenderInput> = plain.into_iter().map(RenderInput::new).collect();
    inputs.push(RenderInput { tools: Some(tools), ..RenderInput::new(json!([user])) });
    inputs
}
