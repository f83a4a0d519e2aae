//! The body: items instead of messages, and names of its own for what chats have, too.

use serde_json::{Map, Value, json};

use super::super::{chat, format, messages, settings, tools};
use crate::chat::{ChatRequest, ResponseFormat, Tool, ToolChoice};
use crate::error::ApiError;
use crate::fields::Fields;

/// Most items of the input.
const MAX_ITEMS: usize = 10_000;

/// What changes no answer of a server that keeps nothing.
const IGNORED: [&str; 3] = ["max_tool_calls", "truncation", "prompt"];

/// What can be asked for besides the answer, and is made here.
const LOGPROBS: &str = "message.output_text.logprobs";

/// What else can be asked for of OpenAI; there is none of it here to be included.
const INCLUDABLE: [&str; 8] = [
    LOGPROBS,
    "code_interpreter_call.outputs",
    "computer_call_output.output.image_url",
    "file_search_call.results",
    "message.input_image.image_url",
    "reasoning.encrypted_content",
    "web_search_call.action.sources",
    "web_search_call.results",
];

/// What would need something to be kept, or somebody else to do something.
const UNSUPPORTED: [(&str, &str); 3] = [
    ("previous_response_id", "this server keeps no responses; send the whole input"),
    ("conversation", "this server keeps no conversations; send the whole input"),
    ("background", "this server answers at once"),
];

/// A body that could be read.
#[derive(Debug)]
pub(super) struct ResponsesCall {
    pub(super) model: Option<String>,
    pub(super) request: ChatRequest,
    pub(super) stream: bool,
}

impl ResponsesCall {
    pub(super) fn read(body: Value) -> Result<Self, ApiError> {
        let mut fields = Fields::of_body(body)?;
        let fields = &mut fields;
        for (name, why) in UNSUPPORTED {
            if fields.take(name).is_some_and(|value| value != Value::Bool(false)) {
                return Err(ApiError::unsupported(name, why));
            }
        }
        fields.ignore(&IGNORED);
        let messages = read_messages(fields)?;
        let (tools, tool_choice) = read_tools(fields)?;
        let text_format = read_format(fields)?;
        let template_kwargs = template_kwargs(fields)?;
        let mut settings = settings::read(fields)?;
        settings.params.n_predict = fields.count("max_output_tokens", 1..=usize::MAX)?;
        settings.params.n_logprobs = n_logprobs(fields)?;
        // It has no such field.
        settings.n = 1;
        if let Some(format) = text_format {
            settings.format = format;
        }
        let request = ChatRequest {
            messages,
            tools,
            tool_choice,
            parallel_tool_calls: fields.bool("parallel_tool_calls")?.unwrap_or(true),
            template_kwargs,
            prefill: None,
            settings,
        };
        let stream = fields.bool("stream")?.unwrap_or(false);
        fields.object("stream_options")?;
        Ok(Self { model: fields.string("model")?, request, stream })
    }
}

/// `include` and `top_logprobs`; log-probabilities are made where one of them asks for them.
fn n_logprobs(fields: &mut Fields) -> Result<Option<usize>, ApiError> {
    let include = fields.strings("include", INCLUDABLE.len())?.unwrap_or_default();
    if include.iter().any(|what| !INCLUDABLE.contains(&what.as_str())) {
        return Err(fields.wrong("include", format_args!("a list of {}", crate::fields::one_of(&INCLUDABLE))));
    }
    let top = fields.count("top_logprobs", 0..=settings::MAX_TOP_LOGPROBS)?;
    let is_included = include.iter().any(|what| what == LOGPROBS);
    Ok(top.filter(|top| *top > 0).or(is_included.then_some(0)))
}

/// `instructions`, then `input`.
fn read_messages(fields: &mut Fields) -> Result<Vec<Value>, ApiError> {
    let mut messages = Vec::new();
    if let Some(text) = fields.string("instructions")? {
        messages.push(json!({ "role": "system", "content": text }));
    }
    match fields.take("input") {
        Some(Value::String(text)) => messages.push(json!({ "role": "user", "content": text })),
        Some(Value::Array(items)) if (1..=MAX_ITEMS).contains(&items.len()) => {
            for (index, item) in items.into_iter().enumerate() {
                add_item(item, format!("input[{index}]"), &mut messages)?;
            }
        }
        _ => return Err(fields.wrong("input", "a text or a list of items")),
    }
    Ok(messages)
}

fn add_item(item: Value, path: String, messages: &mut Vec<Value>) -> Result<(), ApiError> {
    let mut fields = Fields::of(item, path.clone())?;
    let kind = fields.string("type")?.unwrap_or_else(|| "message".to_owned());
    match kind.as_str() {
        "message" => {
            fields.ignore(&["id", "status", "phase"]);
            messages.push(messages::read_message(Value::Object(fields.into_map()), path)?);
        }
        "function_call" => add_call(&mut fields, path, messages)?,
        "function_call_output" => {
            let id = fields.required_string("call_id")?;
            let output = fields.take("output").unwrap_or_default();
            let message = json!({ "role": "tool", "tool_call_id": id, "content": output });
            messages.push(messages::read_message(message, path)?);
        }
        // What was thought before is not said again.
        "reasoning" => {}
        _ => {
            let known = ["message", "function_call", "function_call_output", "reasoning"];
            return Err(fields.wrong("type", crate::fields::one_of(&known)));
        }
    }
    Ok(())
}

/// Calls of one turn belong to one message.
fn add_call(fields: &mut Fields, path: String, messages: &mut Vec<Value>) -> Result<(), ApiError> {
    let function = json!({
        "name": fields.required_string("name")?,
        "arguments": fields.string("arguments")?.unwrap_or_default(),
    });
    let call = json!({ "id": fields.required_string("call_id")?, "type": "function", "function": function });
    let message = json!({ "role": "assistant", "content": null, "tool_calls": [call] });
    let message = messages::read_message(message, path)?;
    match messages.last_mut().filter(|last| last["role"] == "assistant") {
        Some(last) => {
            match (last.get_mut("tool_calls").and_then(Value::as_array_mut), &message["tool_calls"]) {
                (Some(calls), Value::Array(more)) => calls.extend(more.iter().cloned()),
                (_, more) => last["tool_calls"] = more.clone(),
            }
        }
        None => messages.push(message),
    }
    Ok(())
}

/// Tools without the object that chats put around a function.
fn read_tools(fields: &mut Fields) -> Result<(Vec<Tool>, ToolChoice), ApiError> {
    let list = fields.list("tools", tools::MAX_TOOLS)?.unwrap_or_default();
    let tools = list.into_iter().enumerate().map(|(index, tool)| read_tool(tool, format!("tools[{index}]")));
    let tools = tools::distinct(tools.collect::<Result<Vec<_>, _>>()?)?;
    let named = |choice| Fields::of(choice, "tool_choice")?.required_string("name");
    let choice = tools::read_word_or(fields, named)?;
    let choice = tools::check_choice(fields, choice, &tools, "tool_choice.name")?;
    Ok((tools, choice))
}

fn read_tool(tool: Value, path: String) -> Result<Tool, ApiError> {
    let mut fields = Fields::of(tool, path)?;
    if fields.one_of("type", &["function"])?.is_none() {
        return Err(fields.wrong("type", "'function'"));
    }
    let definition = json!({ "type": "function", "function": fields.clone().into_map() });
    tools::read_function(&mut fields, definition)
}

/// `text.format`, which has the parts of `json_schema` beside its type.
fn read_format(fields: &mut Fields) -> Result<Option<ResponseFormat>, ApiError> {
    let Some(mut text) = fields.object("text")? else { return Ok(None) };
    text.object("format")?.map(format::response_format).transpose()
}

fn template_kwargs(fields: &mut Fields) -> Result<Map<String, Value>, ApiError> {
    let effort = match fields.object("reasoning")? {
        Some(mut reasoning) => reasoning.one_of("effort", &chat::EFFORTS)?,
        None => None,
    };
    let mut kwargs = chat::effort_kwargs(effort);
    if let Some(given) = fields.object("chat_template_kwargs")? {
        kwargs.extend(given.into_map());
    }
    Ok(kwargs)
}

#[cfg(test)]
mod tests {
    use super::*;

    fn read(more: Value) -> Result<ResponsesCall, ApiError> {
        let mut body = json!({ "input": "Hi" });
        body.as_object_mut().unwrap().extend(more.as_object().unwrap().clone());
        ResponsesCall::read(body)
    }

    #[test]
    fn items_become_messages() {
        let call = json!({ "type": "function_call", "call_id": "c", "name": "f", "arguments": "{}" });
        let input = json!([
            { "role": "user", "content": [{ "type": "input_text", "text": "a" }] },
            { "type": "reasoning", "summary": [] },
            { "type": "message", "role": "assistant", "id": "m", "content": [{ "type": "output_text", "text": "b" }] },
            call, call,
            { "type": "function_call_output", "call_id": "c", "output": "o" },
        ]);
        let messages = read(json!({ "instructions": "s", "input": input })).unwrap().request.messages;
        let roles: Vec<_> = messages.iter().map(|m| m["role"].as_str().unwrap()).collect();
        assert_eq!(roles, ["system", "user", "assistant", "tool"]);
        assert_eq!((&messages[1]["content"], &messages[2]["content"]), (&json!("a"), &json!("b")));
        assert_eq!(messages[2]["tool_calls"].as_array().unwrap().len(), 2);
        assert_eq!(messages[3]["tool_call_id"], "c");
    }

    #[test]
    fn tools_get_the_form_of_chats() {
        let tool = json!({ "type": "function", "name": "f", "parameters": { "type": "object" } });
        let call =
            read(json!({ "tools": [tool], "tool_choice": { "type": "function", "name": "f" } })).unwrap();
        assert_eq!(call.request.tools[0].definition["function"]["name"], "f");
        assert_eq!(call.request.tool_choice, ToolChoice::Named("f".into()));
    }

    #[test]
    fn log_probabilities_come_if_they_are_asked_for() {
        let n = |more| read(more).unwrap().request.settings.params.n_logprobs;
        assert_eq!(n(json!({})), None);
        assert_eq!(n(json!({ "include": ["reasoning.encrypted_content"], "top_logprobs": 0 })), None);
        assert_eq!(n(json!({ "include": [LOGPROBS] })), Some(0));
        assert_eq!(n(json!({ "include": [LOGPROBS], "top_logprobs": 3 })), Some(3));
        assert_eq!(n(json!({ "top_logprobs": 2 })), Some(2));
    }

    #[test]
    fn what_makes_no_sense_is_named() {
        for (more, param) in [
            (json!({ "input": [] }), "input"),
            (json!({ "input": [{ "type": "item_reference" }] }), "input[0].type"),
            (json!({ "input": [{ "role": "king", "content": "x" }] }), "input[0].role"),
            (json!({ "max_output_tokens": 0 }), "max_output_tokens"),
            (json!({ "previous_response_id": "r" }), "previous_response_id"),
            (json!({ "background": true }), "background"),
            (json!({ "tools": [{ "type": "web_search" }] }), "tools[0].type"),
            (json!({ "text": { "format": { "type": "xml" } } }), "text.format.type"),
            (json!({ "reasoning": { "effort": "huge" } }), "reasoning.effort"),
            (json!({ "include": ["everything"] }), "include"),
            (json!({ "top_logprobs": 21 }), "top_logprobs"),
        ] {
            assert_eq!(read(more.clone()).unwrap_err().param.as_deref(), Some(param), "{more}");
        }
    }
}
