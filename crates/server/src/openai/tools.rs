//! `tools` and `tool_choice`.

use std::collections::HashSet;

use serde_json::Value;

use crate::chat::{Tool, ToolChoice};
use crate::error::ApiError;
use crate::fields::Fields;

/// Most tools, as for OpenAI.
pub(super) const MAX_TOOLS: usize = 128;

/// Longest name of a tool.
const MAX_NAME: usize = 64;

const CHOICES: [&str; 3] = ["auto", "none", "required"];

/// Reads both.
pub(super) fn read(fields: &mut Fields) -> Result<(Vec<Tool>, ToolChoice), ApiError> {
    for old in ["functions", "function_call"] {
        if fields.take(old).is_some() {
            return Err(ApiError::unsupported(old, "it is out of date; use tools and tool_choice"));
        }
    }
    let list = fields.list("tools", MAX_TOOLS)?.unwrap_or_default();
    let tools = list.into_iter().enumerate().map(|(index, tool)| read_tool(tool, &format!("tools[{index}]")));
    let tools = distinct(tools.collect::<Result<Vec<_>, _>>()?)?;
    let choice = read_choice(fields, &tools)?;
    Ok((tools, choice))
}

/// Tools of different names.
pub(super) fn distinct(tools: Vec<Tool>) -> Result<Vec<Tool>, ApiError> {
    let mut names = HashSet::new();
    match tools.iter().find(|tool| !names.insert(&tool.name)) {
        Some(twice) => {
            Err(ApiError::field("tools", format_args!("of different names; '{}' is there twice", twice.name)))
        }
        None => Ok(tools),
    }
}

fn read_tool(definition: Value, path: &str) -> Result<Tool, ApiError> {
    let mut fields = Fields::of(definition.clone(), path)?;
    if fields.one_of("type", &["function"])?.is_none() {
        return Err(fields.wrong("type", "'function'"));
    }
    let Some(mut function) = fields.object("function")? else {
        return Err(fields.wrong("function", "an object"));
    };
    read_function(&mut function, definition)
}

/// Reads what is said of a function.
pub(super) fn read_function(function: &mut Fields, definition: Value) -> Result<Tool, ApiError> {
    let name = function.required_string("name")?;
    if !is_name(&name) {
        return Err(function.wrong("name", "1 to 64 letters, digits, dots, dashes or underscores"));
    }
    function.string("description")?;
    let strict = function.bool("strict")?.unwrap_or(false);
    let parameters = function.object("parameters")?.map(|schema| Value::Object(schema.into_map()));
    Ok(Tool { name, parameters, strict, definition })
}

fn is_name(name: &str) -> bool {
    let good = |c: char| c.is_ascii_alphanumeric() || matches!(c, '_' | '-' | '.');
    (1..=MAX_NAME).contains(&name.len()) && name.chars().all(good)
}

fn read_choice(fields: &mut Fields, tools: &[Tool]) -> Result<ToolChoice, ApiError> {
    let choice = read_word_or(fields, named)?;
    check_choice(fields, choice, tools, "tool_choice.function.name")
}

/// Reads a word, or else what `named` finds in an object.
pub(super) fn read_word_or(
    fields: &mut Fields,
    named: impl FnOnce(Value) -> Result<String, ApiError>,
) -> Result<ToolChoice, ApiError> {
    let choice = fields.take("tool_choice");
    let word = choice.as_ref().and_then(Value::as_str);
    match (word, choice.as_ref()) {
        (Some("auto"), _) | (None, None) => Ok(ToolChoice::Auto),
        (Some("none"), _) => Ok(ToolChoice::None),
        (Some("required"), _) => Ok(ToolChoice::Required),
        (_, Some(Value::Object(_))) => Ok(ToolChoice::Named(named(choice.unwrap_or_default())?)),
        _ => {
            let words = crate::fields::one_of(&CHOICES);
            Err(fields.wrong("tool_choice", format_args!("{words}, or an object that names a tool")))
        }
    }
}

/// Refuses a choice that no tool can meet.
pub(super) fn check_choice(
    fields: &Fields,
    choice: ToolChoice,
    tools: &[Tool],
    name_at: &'static str,
) -> Result<ToolChoice, ApiError> {
    match &choice {
        ToolChoice::Named(name) if !tools.iter().any(|tool| tool.name == *name) => {
            Err(ApiError::field(name_at, "the name of one of the tools"))
        }
        ToolChoice::Required if tools.is_empty() => {
            Err(fields.wrong("tool_choice", "left out where there are no tools"))
        }
        _ => Ok(choice),
    }
}

fn named(choice: Value) -> Result<String, ApiError> {
    let mut fields = Fields::of(choice, "tool_choice")?;
    fields.one_of("type", &["function"])?;
    match fields.object("function")? {
        Some(mut function) => function.required_string("name"),
        None => Err(fields.wrong("function", "an object with the name of a tool")),
    }
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::*;

    fn tool(name: &str) -> Value {
        json!({ "type": "function", "function": { "name": name, "parameters": { "type": "object" } } })
    }

    fn both(body: Value) -> Result<(Vec<Tool>, ToolChoice), ApiError> {
        read(&mut Fields::of_body(body).unwrap())
    }

    #[test]
    fn tools_and_choices_are_read() {
        let choice = |choice: Value| both(json!({ "tools": [tool("a")], "tool_choice": choice })).unwrap().1;
        assert_eq!(choice(Value::Null), ToolChoice::Auto);
        assert_eq!(choice(json!("none")), ToolChoice::None);
        assert_eq!(choice(json!("required")), ToolChoice::Required);
        let named = json!({ "type": "function", "function": { "name": "a" } });
        assert_eq!(choice(named), ToolChoice::Named("a".into()));
        let (tools, _) = both(json!({ "tools": [tool("a")] })).unwrap();
        assert_eq!((&*tools[0].name, &tools[0].definition), ("a", &tool("a")));
    }

    #[test]
    fn what_makes_no_sense_is_named() {
        let many: Vec<Value> = (0..129).map(|i| tool(&format!("t{i}"))).collect();
        for (body, param) in [
            (json!({ "tools": many }), "tools"),
            (json!({ "tools": [tool("a"), tool("a")] }), "tools"),
            (json!({ "tools": [{ "type": "web_search" }] }), "tools[0].type"),
            (json!({ "tools": [{ "type": "function" }] }), "tools[0].function"),
            (json!({ "tools": [tool("a"), tool("no name")] }), "tools[1].function.name"),
            (json!({ "tools": [tool("a")], "tool_choice": "maybe" }), "tool_choice"),
            (json!({ "tool_choice": "required" }), "tool_choice"),
            (
                json!({ "tools": [tool("a")], "tool_choice": { "type": "function", "function": { "name": "b" } } }),
                "tool_choice.function.name",
            ),
            (json!({ "functions": [] }), "functions"),
        ] {
            assert_eq!(both(body).unwrap_err().param.as_deref(), Some(param));
        }
    }
}
