//! Messages: lists of blocks become texts, calls and results, each in the message where templates look for it.

use std::collections::BTreeMap;

use serde_json::{Map, Value, json};

use crate::error::ApiError;
use crate::fields::Fields;

/// Most messages, and most blocks of one.
const MAX: usize = 10_000;

const ROLES: [&str; 2] = ["user", "assistant"];

/// The message that stands before all others.
pub(super) fn system(fields: &mut Fields) -> Result<Option<Value>, ApiError> {
    let text = match fields.take("system") {
        None => return Ok(None),
        Some(content) => text_of(content, &fields.path_of("system"))?,
    };
    Ok(Some(json!({ "role": "system", "content": text })))
}

/// The others.
pub(super) fn messages(fields: &mut Fields) -> Result<Vec<Value>, ApiError> {
    let list = fields.list("messages", MAX)?.filter(|list| !list.is_empty());
    let Some(list) = list else { return Err(fields.wrong("messages", "a list with at least one message")) };
    let (mut messages, mut names) = (Vec::new(), BTreeMap::new());
    for (index, message) in list.into_iter().enumerate() {
        read_message(message, format!("messages[{index}]"), &mut names, &mut messages)?;
    }
    Ok(messages)
}

/// What the blocks of a message hold.
#[derive(Default)]
struct Blocks {
    text: String,
    thinking: String,
    calls: Vec<Value>,
    results: Vec<Value>,
}

/// `names` has the name of every tool that was called, by the id of the call.
fn read_message(
    message: Value,
    path: String,
    names: &mut BTreeMap<String, String>,
    messages: &mut Vec<Value>,
) -> Result<(), ApiError> {
    let mut fields = Fields::of(message, path)?;
    let Some(role) = fields.one_of("role", &ROLES)? else {
        return Err(fields.wrong("role", crate::fields::one_of(&ROLES)));
    };
    let mut blocks = Blocks::default();
    match fields.take("content") {
        Some(Value::String(text)) => blocks.text = text,
        Some(Value::Array(list)) if list.len() <= MAX => {
            let path = fields.path_of("content");
            for (index, block) in list.into_iter().enumerate() {
                read_block(block, format!("{path}[{index}]"), ROLES[role], names, &mut blocks)?;
            }
        }
        _ => return Err(fields.wrong("content", "a text or a list of blocks")),
    }
    if ROLES[role] == "assistant" {
        messages.push(assistant(blocks));
        return Ok(());
    }
    // Results answer the message before; what the user says comes after them.
    let is_silent = blocks.text.is_empty() && !blocks.results.is_empty();
    messages.append(&mut blocks.results);
    if !is_silent {
        messages.push(json!({ "role": "user", "content": blocks.text }));
    }
    Ok(())
}

fn assistant(blocks: Blocks) -> Value {
    let mut message = Map::new();
    message.insert("role".into(), "assistant".into());
    message.insert("content".into(), blocks.text.into());
    if !blocks.calls.is_empty() {
        message.insert("tool_calls".into(), blocks.calls.into());
    }
    if !blocks.thinking.is_empty() {
        message.insert("reasoning_content".into(), blocks.thinking.into());
    }
    Value::Object(message)
}

fn read_block(
    block: Value,
    path: String,
    role: &str,
    names: &mut BTreeMap<String, String>,
    blocks: &mut Blocks,
) -> Result<(), ApiError> {
    let mut fields = Fields::of(block, path)?;
    let kind = fields.required_string("type")?;
    match (kind.as_str(), role) {
        ("text", _) => blocks.text.push_str(&fields.required_string("text")?),
        ("thinking", "assistant") => blocks.thinking.push_str(&fields.required_string("thinking")?),
        // What nobody can read says nothing.
        ("redacted_thinking", "assistant") => {}
        ("tool_use", "assistant") => blocks.calls.push(tool_use(&mut fields, names)?),
        ("tool_result", "user") => blocks.results.push(tool_result(&mut fields, names)?),
        ("document", "user") => blocks.text.push_str(&document(&mut fields)?),
        ("image" | "search_result" | "container_upload", _) => {
            return Err(ApiError::unsupported(fields.path_of("type"), "this model reads nothing but text"));
        }
        (_, "user") => return Err(fields.wrong("type", "'text' or 'tool_result'")),
        _ => return Err(fields.wrong("type", "'text', 'thinking' or 'tool_use'")),
    }
    Ok(())
}

fn tool_use(fields: &mut Fields, names: &mut BTreeMap<String, String>) -> Result<Value, ApiError> {
    let (id, name) = (fields.required_string("id")?, fields.required_string("name")?);
    let input = fields.object("input")?.map(Fields::into_map).unwrap_or_default();
    names.insert(id.clone(), name.clone());
    Ok(json!({ "id": id, "type": "function", "function": { "name": name, "arguments": input } }))
}

fn tool_result(fields: &mut Fields, names: &BTreeMap<String, String>) -> Result<Value, ApiError> {
    let id = fields.required_string("tool_use_id")?;
    let mut text = match fields.take("content") {
        None => String::new(),
        Some(content) => text_of(content, &fields.path_of("content"))?,
    };
    if fields.bool("is_error")?.unwrap_or(false) {
        text.insert_str(0, "Error: ");
    }
    let mut message = json!({ "role": "tool", "content": text, "tool_call_id": id });
    if let Some(name) = names.get(&id) {
        message["name"] = name.as_str().into();
    }
    Ok(message)
}

/// A document that is given as text.
fn document(fields: &mut Fields) -> Result<String, ApiError> {
    let Some(mut source) = fields.object("source")? else { return Err(fields.wrong("source", "an object")) };
    if source.required_string("type")? != "text" {
        return Err(ApiError::unsupported(source.path_of("type"), "this server reads nothing but text"));
    }
    let text = source.required_string("data")?;
    Ok(match fields.string("title")? {
        Some(title) => format!("{title}\n\n{text}\n\n"),
        None => format!("{text}\n\n"),
    })
}

/// The text of a content that may have nothing else.
fn text_of(content: Value, path: &str) -> Result<String, ApiError> {
    match content {
        Value::String(text) => Ok(text),
        Value::Array(list) if list.len() <= MAX => {
            let text = |(index, block)| {
                let mut fields = Fields::of(block, format!("{path}[{index}]"))?;
                match fields.required_string("type")?.as_str() {
                    "text" => fields.required_string("text"),
                    _ => Err(ApiError::unsupported(
                        fields.path_of("type"),
                        "this model reads nothing but text",
                    )),
                }
            };
            list.into_iter().enumerate().map(text).collect()
        }
        _ => Err(ApiError::field(path.to_owned(), "a text or a list of blocks")),
    }
}
