//! `messages`: checked, and brought into the form that templates know.

use serde_json::{Map, Value};

use crate::error::ApiError;
use crate::fields::Fields;

/// Most messages.
const MAX_MESSAGES: usize = 10_000;

const ROLES: [&str; 6] = ["system", "developer", "user", "assistant", "tool", "function"];

/// Reads them.
pub(super) fn read(fields: &mut Fields) -> Result<Vec<Value>, ApiError> {
    match fields.list("messages", MAX_MESSAGES)? {
        Some(list) if !list.is_empty() => {
            let message = |(index, message)| read_message(message, format!("messages[{index}]"));
            list.into_iter().enumerate().map(message).collect()
        }
        _ => Err(fields.wrong("messages", "a list with at least one message")),
    }
}

/// Reads one, which stands at `path`.
pub(super) fn read_message(message: Value, path: String) -> Result<Value, ApiError> {
    let mut fields = Fields::of(message, path)?;
    let Some(role) = fields.one_of("role", &ROLES)? else {
        return Err(fields.wrong("role", crate::fields::one_of(&ROLES)));
    };
    // Templates know only the older word.
    let role = if ROLES[role] == "developer" { "system" } else { ROLES[role] };
    let content = content(&mut fields)?;
    let calls = if role == "assistant" { tool_calls(&mut fields)? } else { None };
    if content.is_none() && calls.is_none() {
        return Err(fields.wrong("content", "a text or a list of parts"));
    }
    fields.ignore(&["refusal", "audio", "annotations"]);
    let mut message = Map::new();
    message.insert("role".into(), role.into());
    message.insert("content".into(), content.map_or(Value::Null, Value::String));
    if let Some(calls) = calls {
        message.insert("tool_calls".into(), Value::Array(calls));
    }
    for name in ["name", "tool_call_id", "reasoning_content"] {
        if let Some(text) = fields.string(name)? {
            message.insert(name.into(), text.into());
        }
    }
    Ok(Value::Object(message))
}

/// A content is one text, however it was cut.
fn content(fields: &mut Fields) -> Result<Option<String>, ApiError> {
    match fields.take("content") {
        None => Ok(None),
        Some(Value::String(text)) => Ok(Some(text)),
        Some(Value::Array(parts)) => {
            let path = fields.path_of("content");
            let text = |(index, part)| part_text(part, format!("{path}[{index}]"));
            parts.into_iter().enumerate().map(text).collect::<Result<String, _>>().map(Some)
        }
        Some(_) => Err(fields.wrong("content", "a text or a list of parts")),
    }
}

fn part_text(part: Value, path: String) -> Result<String, ApiError> {
    let mut fields = Fields::of(part, path)?;
    match fields.required_string("type")?.as_str() {
        "text" | "input_text" | "output_text" => fields.required_string("text"),
        "refusal" => fields.required_string("refusal"),
        "image_url" | "input_image" | "input_audio" | "file" | "input_file" => {
            Err(ApiError::unsupported(fields.path_of("type"), "this model reads nothing but text"))
        }
        _ => Err(fields.wrong("type", "'text'")),
    }
}

fn tool_calls(fields: &mut Fields) -> Result<Option<Vec<Value>>, ApiError> {
    let Some(list) = fields.list("tool_calls", MAX_MESSAGES)? else { return Ok(None) };
    let path = fields.path_of("tool_calls");
    let call = |(index, call)| tool_call(call, format!("{path}[{index}]"));
    let calls = list.into_iter().enumerate().map(call).collect::<Result<Vec<_>, _>>()?;
    Ok(Some(calls).filter(|calls| !calls.is_empty()))
}

/// Arguments come as JSON text; templates write them out themselves, so they get the value.
fn tool_call(call: Value, path: String) -> Result<Value, ApiError> {
    let mut fields = Fields::of(call, path)?;
    fields.one_of("type", &["function"])?;
    let id = fields.string("id")?;
    let Some(mut function) = fields.object("function")? else {
        return Err(fields.wrong("function", "an object"));
    };
    let name = function.required_string("name")?;
    let arguments = match function.take("arguments") {
        None => Value::Object(Map::new()),
        Some(Value::String(text)) if text.trim().is_empty() => Value::Object(Map::new()),
        Some(Value::String(text)) => serde_json::from_str(&text)
            .ok()
            .filter(Value::is_object)
            .ok_or_else(|| function.wrong("arguments", "a JSON object, as text"))?,
        Some(value @ Value::Object(_)) => value,
        Some(_) => return Err(function.wrong("arguments", "a JSON object, as text")),
    };
    Ok(serde_json::json!({
        "id": id, "type": "function", "function": { "name": name, "arguments": arguments },
    }))
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::*;

    fn messages(list: Value) -> Result<Vec<Value>, ApiError> {
        read(&mut Fields::of_body(json!({ "messages": list })).unwrap())
    }

    #[test]
    fn parts_are_one_text_and_developers_are_the_system() {
        let parts = json!([{ "type": "text", "text": "a" }, { "type": "text", "text": "b" }]);
        let read = messages(json!([
            { "role": "developer", "content": "d" },
            { "role": "user", "content": parts, "name": "n" },
        ]));
        let want = [
            json!({ "role": "system", "content": "d" }),
            json!({ "role": "user", "content": "ab", "name": "n" }),
        ];
        assert_eq!(read.unwrap(), want);
    }

    #[test]
    fn arguments_of_calls_become_values() {
        let call =
            json!({ "id": "c", "type": "function", "function": { "name": "f", "arguments": "{\"x\": 1}" } });
        let read = messages(json!([{ "role": "assistant", "content": null, "tool_calls": [call] }])).unwrap();
        assert_eq!(read[0]["tool_calls"][0]["function"]["arguments"], json!({ "x": 1 }));
    }

    #[test]
    fn what_makes_no_sense_is_named() {
        for (list, param) in [
            (json!([]), "messages"),
            (json!("hello"), "messages"),
            (json!(["hello"]), "messages[0]"),
            (json!([{ "content": "x" }]), "messages[0].role"),
            (json!([{ "role": "king", "content": "x" }]), "messages[0].role"),
            (json!([{ "role": "user" }]), "messages[0].content"),
            (json!([{ "role": "user", "content": 3 }]), "messages[0].content"),
            (
                json!([{ "role": "user", "content": [{ "type": "image_url" }] }]),
                "messages[0].content[0].type",
            ),
            (
                json!([{ "role": "assistant", "tool_calls": [{ "function": { "name": "f", "arguments": "{" } }] }]),
                "messages[0].tool_calls[0].function.arguments",
            ),
        ] {
            assert_eq!(messages(list.clone()).unwrap_err().param.as_deref(), Some(param), "{list}");
        }
    }
}
