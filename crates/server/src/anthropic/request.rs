//! The body of a request, as Anthropic has it, read into a conversation in no dialect.

use minfer_engine::GenerateParams;
use minfer_engine::sampler::SamplerParams;
use serde_json::{Map, Value, json};

use super::{content, tools};
use crate::chat::{ChatRequest, ResponseFormat, Settings};
use crate::error::ApiError;
use crate::fields::Fields;
use crate::openai::settings::MAX_STOP_BYTES;

/// Most stop strings.
const MAX_STOP: usize = 64;

/// The least that a model may be told to think.
const MIN_BUDGET: i64 = 1024;

/// What changes no answer.
const IGNORED: [&str; 12] = [
    "metadata",
    "service_tier",
    "container",
    "mcp_servers",
    "context_management",
    "betas",
    "inference_geo",
    "cache_control",
    "diagnostics",
    "speed",
    "user_profile_id",
    "workspace_id",
];

/// A body that could be read.
#[derive(Clone, Debug)]
pub struct MessagesCall {
    /// The model that it names.
    pub model: Option<String>,
    /// What it asks for.
    pub request: ChatRequest,
    /// Whether the answer is to come as it is made.
    pub stream: bool,
}

impl MessagesCall {
    /// Reads a body.
    pub fn read(body: Value) -> Result<Self, ApiError> {
        let mut fields = Fields::of_body(body)?;
        let Some(n_predict) = fields.count("max_tokens", 1..=usize::MAX)? else {
            return Err(fields.wrong("max_tokens", "a whole number from 1"));
        };
        Self::of(fields, Some(n_predict))
    }

    /// Reads a body whose tokens are only counted, so that it needs no limit.
    pub fn read_to_count(body: Value) -> Result<Self, ApiError> {
        Self::of(Fields::of_body(body)?, None)
    }

    fn of(mut fields: Fields, n_predict: Option<usize>) -> Result<Self, ApiError> {
        let fields = &mut fields;
        fields.ignore(&IGNORED);
        let model = fields.required_string("model")?;
        let mut messages: Vec<Value> = content::system(fields)?.into_iter().collect();
        messages.extend(content::messages(fields)?);
        let prefill = take_prefill(&mut messages);
        let (tools, tool_choice, parallel_tool_calls) = tools::read(fields)?;
        let params = GenerateParams {
            n_predict,
            stop: stop(fields)?,
            sampler: sampler(fields)?,
            ..GenerateParams::default()
        };
        let mut template_kwargs = thinking(fields, n_predict)?;
        let (format, effort) = output_config(fields)?;
        template_kwargs.extend(effort.map(|effort| ("reasoning_effort".to_owned(), effort.into())));
        let request = ChatRequest {
            messages,
            tools,
            tool_choice,
            parallel_tool_calls,
            template_kwargs,
            prefill,
            settings: Settings { params, format, ..Settings::default() },
        };
        Ok(Self { model: Some(model), request, stream: fields.bool("stream")?.unwrap_or(false) })
    }
}

fn stop(fields: &mut Fields) -> Result<Vec<String>, ApiError> {
    let stop = fields.strings("stop_sequences", MAX_STOP)?.unwrap_or_default();
    if stop.iter().any(|text| text.trim().is_empty() || text.len() > MAX_STOP_BYTES) {
        return Err(fields.wrong("stop_sequences", format_args!("texts of 1 to {MAX_STOP_BYTES} bytes")));
    }
    Ok(stop)
}

/// Anthropic's own settings, and the seed, which it does not have.
fn sampler(fields: &mut Fields) -> Result<SamplerParams, ApiError> {
    let default = SamplerParams::default();
    let top_k = fields.integer("top_k", 0..=i64::MAX)?;
    let seed = fields.integer("seed", 0..=i64::MAX)?;
    Ok(SamplerParams {
        seed: seed.map(i64::cast_unsigned),
        temperature: fields.number("temperature", 0.0..=1.0)?.unwrap_or(default.temperature),
        top_p: fields.number("top_p", 0.0..=1.0)?.unwrap_or(default.top_p),
        top_k: top_k.map_or(default.top_k, |k| u32::try_from(k).unwrap_or(0)),
        ..default
    })
}

/// A model thinks if it is told to, as Anthropic's do.
fn thinking(fields: &mut Fields, n_predict: Option<usize>) -> Result<Map<String, Value>, ApiError> {
    const KINDS: [&str; 3] = ["enabled", "disabled", "adaptive"];
    let mut thinks = false;
    if let Some(mut thinking) = fields.object("thinking")? {
        let Some(kind) = thinking.one_of("type", &KINDS)? else {
            return Err(thinking.wrong("type", crate::fields::one_of(&KINDS)));
        };
        thinks = KINDS[kind] != "disabled";
        let budget = thinking.integer("budget_tokens", MIN_BUDGET..=i64::MAX)?;
        match (KINDS[kind], budget.map(|n| usize::try_from(n).unwrap_or(usize::MAX)), n_predict) {
            ("enabled", None, _) => return Err(thinking.wrong("budget_tokens", "a whole number from 1024")),
            (_, Some(budget), Some(max)) if budget >= max => {
                return Err(thinking.wrong("budget_tokens", "less than max_tokens"));
            }
            _ => {}
        }
    }
    Ok(Map::from_iter([("enable_thinking".to_owned(), json!(thinks))]))
}

/// What the answer must look like, and how hard the model may think.
fn output_config(fields: &mut Fields) -> Result<(ResponseFormat, Option<&'static str>), ApiError> {
    const EFFORTS: [&str; 5] = ["low", "medium", "high", "xhigh", "max"];
    let Some(mut config) = fields.object("output_config")? else { return Ok((ResponseFormat::Text, None)) };
    let effort = config.one_of("effort", &EFFORTS)?.map(|index| EFFORTS[index]);
    let Some(mut format) = config.object("format")? else { return Ok((ResponseFormat::Text, effort)) };
    format.one_of("type", &["json_schema"])?;
    let Some(schema) = format.object("schema")? else { return Err(format.wrong("schema", "a JSON Schema")) };
    let schema = Value::Object(schema.into_map());
    Ok((ResponseFormat::JsonSchema { schema, param: "output_config.format.schema".to_owned() }, effort))
}

/// An assistant's message at the end is the beginning of the answer.
fn take_prefill(messages: &mut Vec<Value>) -> Option<String> {
    let last = messages.last()?;
    let is_text = last["role"] == "assistant" && last.get("tool_calls").is_none();
    let text = last["content"].as_str().filter(|_| is_text)?.to_owned();
    messages.pop();
    Some(text)
}

#[cfg(test)]
mod tests {
    use super::*;

    fn read(more: Value) -> Result<MessagesCall, ApiError> {
        let mut body = json!({
            "model": "m", "max_tokens": 2048, "messages": [{ "role": "user", "content": "Hi" }],
        });
        body.as_object_mut().unwrap().extend(more.as_object().unwrap().clone());
        MessagesCall::read(body)
    }

    #[test]
    fn what_makes_no_sense_is_named() {
        for (more, param) in [
            (json!({ "max_tokens": null }), "max_tokens"),
            (json!({ "max_tokens": 0 }), "max_tokens"),
            (json!({ "model": 3 }), "model"),
            (json!({ "messages": [] }), "messages"),
            (json!({ "messages": [{ "role": "system", "content": "x" }] }), "messages[0].role"),
            (json!({ "messages": [{ "role": "user" }] }), "messages[0].content"),
            (
                json!({ "messages": [{ "role": "user", "content": [{ "type": "image" }] }] }),
                "messages[0].content[0].type",
            ),
            (json!({ "system": 3 }), "system"),
            (json!({ "temperature": 1.5 }), "temperature"),
            (json!({ "top_k": -1 }), "top_k"),
            (json!({ "stop_sequences": [""] }), "stop_sequences"),
            (json!({ "stream": 1 }), "stream"),
            (json!({ "thinking": { "type": "enabled" } }), "thinking.budget_tokens"),
            (json!({ "thinking": { "type": "enabled", "budget_tokens": 4096 } }), "thinking.budget_tokens"),
            (json!({ "tools": [{ "name": "a b", "input_schema": {} }] }), "tools[0].name"),
            (json!({ "tools": [{ "name": "a" }] }), "tools[0].input_schema"),
            (json!({ "tool_choice": { "type": "any" } }), "tool_choice"),
            (json!({ "output_config": { "effort": "most" } }), "output_config.effort"),
            (
                json!({ "output_config": { "format": { "type": "json_schema" } } }),
                "output_config.format.schema",
            ),
        ] {
            assert_eq!(read(more.clone()).unwrap_err().param.as_deref(), Some(param), "{more}");
        }
    }

    #[test]
    fn blocks_become_messages_that_templates_know() {
        let call = read(json!({
            "system": [{ "type": "text", "text": "Be " }, { "type": "text", "text": "brief." }],
            "messages": [
                { "role": "user", "content": "Time?" },
                { "role": "assistant", "content": [
                    { "type": "thinking", "thinking": "Hm.", "signature": "" },
                    { "type": "text", "text": "I look." },
                    { "type": "tool_use", "id": "t1", "name": "now", "input": { "zone": "UTC" } },
                ] },
                { "role": "user", "content": [
                    { "type": "tool_result", "tool_use_id": "t1", "content": [{ "type": "text", "text": "12:00" }] },
                    { "type": "text", "text": "And now?" },
                ] },
                { "role": "assistant", "content": "It is" },
            ],
        }))
        .unwrap();
        let expected = json!([
            { "role": "system", "content": "Be brief." },
            { "role": "user", "content": "Time?" },
            {
                "role": "assistant", "content": "I look.", "reasoning_content": "Hm.",
                "tool_calls": [{ "id": "t1", "type": "function", "function": { "name": "now", "arguments": { "zone": "UTC" } } }],
            },
            { "role": "tool", "content": "12:00", "tool_call_id": "t1", "name": "now" },
            { "role": "user", "content": "And now?" },
        ]);
        assert_eq!(Value::Array(call.request.messages), expected);
        assert_eq!(call.request.prefill.as_deref(), Some("It is"));
    }

    #[test]
    fn thinking_is_off_until_it_is_asked_for() {
        let thinks = |more| read(more).unwrap().request.template_kwargs["enable_thinking"].clone();
        assert_eq!(thinks(json!({})), false);
        assert_eq!(thinks(json!({ "thinking": { "type": "enabled", "budget_tokens": 1024 } })), true);
        assert_eq!(thinks(json!({ "thinking": { "type": "disabled" } })), false);
    }
}
