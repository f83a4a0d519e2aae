//! Tools, and whether they are called.

use serde_json::{Value, json};

use crate::chat::{Tool, ToolChoice};
use crate::error::ApiError;
use crate::fields::Fields;

/// Most tools.
const MAX_TOOLS: usize = 128;

/// Longest name.
const MAX_NAME: usize = 128;

const CHOICES: [&str; 4] = ["auto", "any", "tool", "none"];

/// The tools, the choice, and whether an answer may call several.
pub(super) fn read(fields: &mut Fields) -> Result<(Vec<Tool>, ToolChoice, bool), ApiError> {
    let list = fields.list("tools", MAX_TOOLS)?.unwrap_or_default();
    let tool = |(index, tool)| read_tool(tool, format!("tools[{index}]"));
    let tools = list.into_iter().enumerate().map(tool).collect::<Result<Vec<_>, _>>()?;
    let (choice, parallel) = read_choice(fields, &tools)?;
    Ok((tools, choice, parallel))
}

fn read_tool(tool: Value, path: String) -> Result<Tool, ApiError> {
    let mut fields = Fields::of(tool, path)?;
    if let Some(kind) = fields.string("type")?.filter(|kind| kind != "custom") {
        let why = format!("this server does not have the tool '{}'", crate::state::elided(&kind));
        return Err(ApiError::unsupported(fields.path_of("type"), why));
    }
    let name = fields.required_string("name")?;
    let good = |c: char| c.is_ascii_alphanumeric() || matches!(c, '_' | '-' | '.');
    if !(1..=MAX_NAME).contains(&name.len()) || !name.chars().all(good) {
        return Err(fields.wrong("name", "1 to 128 letters, digits, dots, dashes or underscores"));
    }
    let description = fields.string("description")?.unwrap_or_default();
    let Some(schema) = fields.object("input_schema")? else {
        return Err(fields.wrong("input_schema", "a JSON Schema"));
    };
    let schema = Value::Object(schema.into_map());
    let definition = json!({
        "type": "function",
        "function": { "name": name, "description": description, "parameters": schema },
    });
    let strict = fields.bool("strict")?.unwrap_or(false);
    Ok(Tool { name, parameters: Some(schema), strict, definition })
}

fn read_choice(fields: &mut Fields, tools: &[Tool]) -> Result<(ToolChoice, bool), ApiError> {
    let Some(mut choice) = fields.object("tool_choice")? else { return Ok((ToolChoice::Auto, true)) };
    let Some(kind) = choice.one_of("type", &CHOICES)? else {
        return Err(choice.wrong("type", crate::fields::one_of(&CHOICES)));
    };
    let parallel = !choice.bool("disable_parallel_tool_use")?.unwrap_or(false);
    let choice = match CHOICES[kind] {
        "auto" => ToolChoice::Auto,
        "none" => ToolChoice::None,
        "any" => ToolChoice::Required,
        _ => {
            let name = choice.required_string("name")?;
            if !tools.iter().any(|tool| tool.name == name) {
                return Err(choice.wrong("name", "the name of one of the tools"));
            }
            ToolChoice::Named(name)
        }
    };
    if tools.is_empty() && choice != ToolChoice::None && choice != ToolChoice::Auto {
        return Err(fields.wrong("tool_choice", "left out where there are no tools"));
    }
    Ok((choice, parallel))
}
