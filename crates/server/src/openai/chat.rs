//! `POST /v1/chat/completions`.

use std::sync::Arc;

use axum::extract::State;
use axum::response::{IntoResponse, Response};
use serde_json::{Value, json};

use super::usage::{Usage, finish_reason, timings};
use super::{FINGERPRINT, chat_stream, logprobs, messages, settings, tools};
use crate::answer::{Call, Whole, respond};
use crate::body::{Json, RawBody};
use crate::chat::{self, ChatRequest};
use crate::error::ApiError;
use crate::fields::Fields;
use crate::frames::Framing;
use crate::state::{App, SharedApp, unix_now};

/// How hard a model may think, as OpenAI says it.
pub(super) const EFFORTS: [&str; 6] = ["none", "minimal", "low", "medium", "high", "xhigh"];

/// A body that could be read.
#[derive(Clone, Debug)]
pub struct ChatCall {
    /// The model that it names.
    pub model: Option<String>,
    /// What it asks for.
    pub request: ChatRequest,
    /// Whether the answer is to come as it is made.
    pub stream: bool,
    /// Whether the stream is to end with the counts of tokens.
    pub include_usage: bool,
    /// Fields that nobody knows.
    pub unknown: Vec<String>,
}

impl ChatCall {
    /// Reads a body.
    pub fn read(body: Value) -> Result<Self, ApiError> {
        let mut fields = Fields::of_body(body)?;
        let fields = &mut fields;
        refuse_unsupported(fields)?;
        let messages = messages::read(fields)?;
        let (tools, tool_choice) = tools::read(fields)?;
        let mut settings = settings::read(fields)?;
        settings.params.n_predict = n_predict(fields)?;
        settings.params.n_logprobs = n_logprobs(fields)?;
        let request = ChatRequest {
            messages,
            tools,
            tool_choice,
            parallel_tool_calls: fields.bool("parallel_tool_calls")?.unwrap_or(true),
            prefill: None,
            template_kwargs: template_kwargs(fields)?,
            settings,
        };
        let (stream, include_usage) = stream(fields)?;
        let model = fields.string("model")?;
        let unknown = fields.rest().map(str::to_owned).collect();
        Ok(Self { model, request, stream, include_usage, unknown })
    }
}

/// What is known and cannot be had.
fn refuse_unsupported(fields: &mut Fields) -> Result<(), ApiError> {
    for name in ["audio", "web_search_options"] {
        if fields.take(name).is_some() {
            return Err(ApiError::unsupported(name, "this server does not have it"));
        }
    }
    let modalities = fields.strings("modalities", 4)?.unwrap_or_default();
    if modalities.iter().any(|modality| modality != "text") {
        return Err(ApiError::unsupported("modalities", "this model writes nothing but text"));
    }
    // A guess at the answer changes nothing in it.
    fields.ignore(&["prediction"]);
    Ok(())
}

/// The newer name, the older, and llama.cpp's, for which -1 means no limit.
pub(super) fn n_predict(fields: &mut Fields) -> Result<Option<usize>, ApiError> {
    let newer = fields.count("max_completion_tokens", 1..=usize::MAX)?;
    let older = fields.count("max_tokens", 1..=usize::MAX)?;
    let llama_cpp = fields.integer("n_predict", -1..=i64::MAX)?.map(|n| usize::try_from(n).ok());
    Ok(newer.or(older).or(llama_cpp.flatten()))
}

fn n_logprobs(fields: &mut Fields) -> Result<Option<usize>, ApiError> {
    let wanted = fields.bool("logprobs")?.unwrap_or(false);
    let top = fields.count("top_logprobs", 0..=settings::MAX_TOP_LOGPROBS)?;
    match (wanted, top) {
        (false, Some(1..)) => Err(fields.wrong("top_logprobs", "left out unless logprobs is true")),
        (false, _) => Ok(None),
        (true, top) => Ok(Some(top.unwrap_or(0))),
    }
}

/// Arguments of the template; effort is one of them.
fn template_kwargs(fields: &mut Fields) -> Result<serde_json::Map<String, Value>, ApiError> {
    let mut kwargs = effort_kwargs(fields.one_of("reasoning_effort", &EFFORTS)?);
    if let Some(given) = fields.object("chat_template_kwargs")? {
        kwargs.extend(given.into_map());
    }
    Ok(kwargs)
}

/// What an effort, by its place in the list, tells the template.
pub(super) fn effort_kwargs(effort: Option<usize>) -> serde_json::Map<String, Value> {
    let mut kwargs = serde_json::Map::new();
    if let Some(effort) = effort.map(|effort| EFFORTS[effort]) {
        kwargs.insert("reasoning_effort".into(), effort.into());
        if effort == "none" {
            kwargs.insert("enable_thinking".into(), false.into());
        }
    }
    kwargs
}

/// `stream` and `stream_options`.
pub(super) fn stream(fields: &mut Fields) -> Result<(bool, bool), ApiError> {
    let stream = fields.bool("stream")?.unwrap_or(false);
    let Some(mut options) = fields.object("stream_options")? else { return Ok((stream, false)) };
    if !stream {
        return Err(fields.wrong("stream_options", "left out unless stream is true"));
    }
    options.bool("include_obfuscation")?;
    Ok((stream, options.bool("include_usage")?.unwrap_or(false)))
}

/// What all parts of an answer begin with.
#[derive(Clone, Debug)]
pub(super) struct Head {
    pub(super) id: String,
    pub(super) created: u64,
    pub(super) model: String,
}

/// The endpoint.
pub(super) async fn create(State(app): State<SharedApp>, body: RawBody) -> Result<Response, ApiError> {
    let call = body.read(ChatCall::read).await?;
    app.check_model(call.model.as_deref())?;
    let head = Head { id: app.new_id("chatcmpl-"), created: unix_now(), model: app.name().to_owned() };
    let answers = chat::open(&app, call.request).await?;
    if call.stream {
        let render = chat_stream::ChatStream::new(&app, head, call.include_usage);
        return Ok(respond(answers, render, Framing::Events));
    }
    let all = answers.whole().await?;
    Ok(Json(body_of(&app, &head, &all)).into_response())
}

fn body_of(app: &Arc<App>, head: &Head, all: &[Whole]) -> Value {
    chat_body(&head.id, head.created, &head.model, app.model().tokenizer(), all)
}

/// The body of a whole answer.
pub fn chat_body(
    id: &str,
    created: u64,
    model: &str,
    tokenizer: &minfer_text::tokenizer::Tokenizer,
    all: &[Whole],
) -> Value {
    let mut usage = Usage::default();
    all.iter().filter_map(|whole| whole.finished.as_deref()).for_each(|finished| usage.add(finished));
    let choices: Vec<Value> =
        all.iter().enumerate().map(|(index, whole)| choice(index, whole, tokenizer)).collect();
    let mut body = json!({
        "id": id,
        "object": "chat.completion",
        "created": created,
        "model": model,
        "choices": choices,
        "usage": usage.json(),
        "system_fingerprint": FINGERPRINT,
    });
    if let Some(finished) = all.first().and_then(|whole| whole.finished.as_deref()) {
        body["timings"] = timings(finished);
    }
    body
}

fn choice(index: usize, whole: &Whole, tokenizer: &minfer_text::tokenizer::Tokenizer) -> Value {
    let finished = whole.finished.as_deref();
    let has_logprobs = finished.is_some_and(|it| !it.generated.logprobs.is_empty());
    let logprobs = if has_logprobs { logprobs::of_chat(tokenizer, &whole.tokens) } else { Value::Null };
    json!({
        "index": index,
        "message": message(whole),
        "logprobs": logprobs,
        "finish_reason": finished.map(|it| finish_reason(it.reason)),
    })
}

fn message(whole: &Whole) -> Value {
    // A call without a word beside it has no content.
    let is_silent = whole.content.is_empty() && !whole.calls.is_empty();
    let content = if is_silent { Value::Null } else { whole.content.as_str().into() };
    let mut message = json!({ "role": "assistant", "content": content, "refusal": null });
    if !whole.reasoning.is_empty() {
        message["reasoning_content"] = whole.reasoning.as_str().into();
    }
    if !whole.calls.is_empty() {
        let call = |call: &Call| {
            json!({
                "id": call.id,
                "type": "function",
                "function": { "name": call.name, "arguments": call.arguments },
            })
        };
        message["tool_calls"] = whole.calls.iter().map(call).collect();
    }
    message
}

#[cfg(test)]
mod tests {
    use super::*;

    fn read(more: Value) -> Result<ChatCall, ApiError> {
        let mut body = json!({ "messages": [{ "role": "user", "content": "Hi" }] });
        body.as_object_mut().unwrap().extend(more.as_object().unwrap().clone());
        ChatCall::read(body)
    }

    #[test]
    fn limits_and_log_probabilities_are_read() {
        let n_predict = |more| read(more).unwrap().request.settings.params.n_predict;
        assert_eq!(n_predict(json!({})), None);
        assert_eq!(n_predict(json!({ "max_tokens": 5 })), Some(5));
        assert_eq!(n_predict(json!({ "max_tokens": 5, "max_completion_tokens": 6 })), Some(6));
        assert_eq!(n_predict(json!({ "n_predict": -1 })), None);
        let n_logprobs = |more| read(more).unwrap().request.settings.params.n_logprobs;
        assert_eq!(n_logprobs(json!({ "logprobs": true })), Some(0));
        assert_eq!(n_logprobs(json!({ "logprobs": true, "top_logprobs": 3 })), Some(3));
        assert_eq!(n_logprobs(json!({ "logprobs": false, "top_logprobs": 0 })), None);
    }

    #[test]
    fn what_makes_no_sense_is_named() {
        for (more, param) in [
            (json!({ "max_tokens": 0 }), "max_tokens"),
            (json!({ "max_completion_tokens": -3 }), "max_completion_tokens"),
            (json!({ "top_logprobs": 2 }), "top_logprobs"),
            (json!({ "logprobs": true, "top_logprobs": 21 }), "top_logprobs"),
            (json!({ "logprobs": 3 }), "logprobs"),
            (json!({ "stream": "yes" }), "stream"),
            (json!({ "stream_options": { "include_usage": true } }), "stream_options"),
            (json!({ "reasoning_effort": "extreme" }), "reasoning_effort"),
            (json!({ "modalities": ["text", "audio"] }), "modalities"),
            (json!({ "chat_template_kwargs": [] }), "chat_template_kwargs"),
            (json!({ "model": 3 }), "model"),
        ] {
            assert_eq!(read(more.clone()).unwrap_err().param.as_deref(), Some(param), "{more}");
        }
    }

    #[test]
    fn fields_that_nobody_knows_are_listed() {
        let call = read(json!({ "temprature": 1, "user": "u", "store": true })).unwrap();
        assert_eq!(call.unknown, ["temprature"]);
    }

    #[test]
    fn effort_and_arguments_reach_the_template() {
        let call = read(json!({ "reasoning_effort": "none", "chat_template_kwargs": { "x": 1 } })).unwrap();
        let kwargs = call.request.template_kwargs;
        assert_eq!(
            Value::Object(kwargs),
            json!({ "reasoning_effort": "none", "enable_thinking": false, "x": 1 })
        );
    }
}
