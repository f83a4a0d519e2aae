//! Messages and tools, as Ollama has them.

use serde_json::{Map, Value, json};

use crate::chat::Tool;
use crate::error::ApiError;
use crate::fields::Fields;

/// Most messages.
const MAX_MESSAGES: usize = 10_000;

/// Most tools.
const MAX_TOOLS: usize = 128;

const ROLES: [&str; 4] = ["system", "user", "assistant", "tool"];

/// Reads them. None ask that the model be loaded.
pub(super) fn read(fields: &mut Fields) -> Result<Vec<Value>, ApiError> {
    let list = fields.list("messages", MAX_MESSAGES)?.unwrap_or_default();
    let message = |(index, message)| read_message(message, format!("messages[{index}]"));
    list.into_iter().enumerate().map(message).collect()
}

fn read_message(message: Value, path: String) -> Result<Value, ApiError> {
    let mut fields = Fields::of(message, path)?;
    let Some(role) = fields.one_of("role", &ROLES)? else {
        return Err(fields.wrong("role", crate::fields::one_of(&ROLES)));
    };
    refuse_images(&mut fields)?;
    let mut message = Map::new();
    message.insert("role".into(), ROLES[role].into());
    message.insert("content".into(), fields.string("content")?.unwrap_or_default().into());
    if let Some(thinking) = fields.string("thinking")? {
        message.insert("reasoning_content".into(), thinking.into());
    }
    let name = fields.string("tool_name")?;
    if let Some(name) = fields.string("name")?.or(name) {
        message.insert("name".into(), name.into());
    }
    if let Some(id) = fields.string("tool_call_id")? {
        message.insert("tool_call_id".into(), id.into());
    }
    let calls = fields.list("tool_calls", MAX_MESSAGES)?.unwrap_or_default();
    if !calls.is_empty() {
        let path = fields.path_of("tool_calls");
        let call = |(index, call)| read_call(call, format!("{path}[{index}]"));
        let calls = calls.into_iter().enumerate().map(call).collect::<Result<Vec<_>, _>>()?;
        message.insert("tool_calls".into(), calls.into());
    }
    Ok(Value::Object(message))
}

/// Refuses what this model cannot see.
pub(super) fn refuse_images(fields: &mut Fields) -> Result<(), ApiError> {
    match fields.list("images", usize::MAX)? {
        Some(images) if !images.is_empty() => {
            Err(ApiError::unsupported(fields.path_of("images"), "this model reads nothing but text"))
        }
        _ => Ok(()),
    }
}

fn read_call(call: Value, path: String) -> Result<Value, ApiError> {
    let mut fields = Fields::of(call, path)?;
    let id = fields.string("id")?;
    let Some(mut function) = fields.object("function")? else {
        return Err(fields.wrong("function", "an object"));
    };
    let name = function.required_string("name")?;
    let arguments = function.object("arguments")?.map(Fields::into_map).unwrap_or_default();
    Ok(json!({ "id": id, "type": "function", "function": { "name": name, "arguments": arguments } }))
}

/// Reads the tools.
pub(super) fn tools(fields: &mut Fields) -> Result<Vec<Tool>, ApiError> {
    let list = fields.list("tools", MAX_TOOLS)?.unwrap_or_default();
    let tool = |(index, tool)| read_tool(tool, format!("tools[{index}]"));
    list.into_iter().enumerate().map(tool).collect()
}

fn read_tool(definition: Value, path: String) -> Result<Tool, ApiError> {
    let mut fields = Fields::of(definition.clone(), path)?;
    fields.one_of("type", &["function"])?;
    let Some(mut function) = fields.object("function")? else {
        return Err(fields.wrong("function", "an object"));
    };
    let name = function.required_string("name")?;
    let parameters = function.object("parameters")?.map(|schema| Value::Object(schema.into_map()));
    Ok(Tool { name, parameters, strict: false, definition })
}
