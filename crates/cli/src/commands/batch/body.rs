//! The body of a request, as OpenAI spells it: what is known is used or, where it changes nothing, passed over; what is asked
//! for and cannot be had is refused, never ignored.

use std::collections::BTreeMap;

use minfer_engine::sampler::SamplerParams;
use minfer_engine::{EngineError, Fault, GenerateParams, Model};
use minfer_text::chat::{ChatTemplate, RenderInput};
use serde::Deserialize;
use serde_json::Value;

/// Most log-probabilities beside a token's own.
const MAX_TOP_LOGPROBS: usize = 20;

/// An error as the API tells it.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(super) struct ApiError {
    pub(super) status: u16,
    pub(super) code: &'static str,
    pub(super) param: Option<&'static str>,
    pub(super) message: String,
}

impl ApiError {
    pub(super) fn bad(code: &'static str, param: Option<&'static str>, message: String) -> Self {
        Self { status: 400, code, param, message }
    }

    /// An error of the engine that is the request's fault.
    pub(super) fn of(error: &EngineError) -> Self {
        let code = match error {
            EngineError::ContextFull { .. } => "context_length_exceeded",
            EngineError::Template(_) => "invalid_messages",
            _ => "invalid_request",
        };
        let status = if error.fault() == Fault::BadRequest { 400 } else { 500 };
        Self { status, code, param: None, message: error.to_string() }
    }
}

/// A string, or several.
#[derive(Debug, Deserialize)]
#[serde(untagged)]
enum OneOrMany {
    One(String),
    Many(Vec<String>),
}

/// A prompt that goes to the model as it is.
#[derive(Debug, Deserialize)]
#[serde(untagged)]
enum Prompt {
    Text(String),
    Ids(Vec<u32>),
    Texts(Vec<String>),
    IdLists(Vec<Vec<u32>>),
}

/// `logprobs`: yes or no of a chat, how many of a completion.
#[derive(Debug, Deserialize)]
#[serde(untagged)]
enum Logprobs {
    Wanted(bool),
    Top(usize),
}

#[derive(Debug, Default, Deserialize)]
#[serde(default, deny_unknown_fields)]
struct Body {
    model: Option<String>,
    messages: Option<Value>,
    prompt: Option<Prompt>,
    max_tokens: Option<usize>,
    max_completion_tokens: Option<usize>,
    temperature: Option<f32>,
    top_p: Option<f32>,
    top_k: Option<u32>,
    min_p: Option<f32>,
    repeat_penalty: Option<f32>,
    frequency_penalty: Option<f32>,
    presence_penalty: Option<f32>,
    seed: Option<i64>,
    stop: Option<OneOrMany>,
    logprobs: Option<Logprobs>,
    top_logprobs: Option<usize>,
    logit_bias: Option<BTreeMap<String, f32>>,
    n: Option<usize>,
    best_of: Option<usize>,
    stream: Option<bool>,
    echo: Option<bool>,
    suffix: Option<String>,
    tools: Option<Value>,
    functions: Option<Value>,
    response_format: Option<Value>,
    // What changes no answer.
    user: Option<Value>,
    metadata: Option<Value>,
    store: Option<Value>,
    service_tier: Option<Value>,
    stream_options: Option<Value>,
    tool_choice: Option<Value>,
    parallel_tool_calls: Option<Value>,
}

/// A request that could be read.
#[derive(Debug)]
pub(super) struct ApiRequest {
    is_chat: bool,
    body: Body,
}

impl ApiRequest {
    pub(super) fn read(is_chat: bool, body: Value) -> Result<Self, ApiError> {
        let body: Body = serde_json::from_value(body)
            .map_err(|e| ApiError::bad("invalid_request", Some("body"), format!("the body: {e}")))?;
        body.check_supported(is_chat)?;
        Ok(Self { is_chat, body })
    }

    pub(super) fn is_chat(&self) -> bool {
        self.is_chat
    }

    /// The model's name in the answer: as the request has it.
    pub(super) fn model<'a>(&'a self, ours: &'a str) -> &'a str {
        self.body.model.as_deref().unwrap_or(ours)
    }

    /// Tokens of the prompt, and what to generate.
    pub(super) fn prepare(
        &self,
        model: &Model,
        template: Result<&ChatTemplate, &ApiError>,
    ) -> Result<(Vec<u32>, GenerateParams), ApiError> {
        let prompt = if self.is_chat { self.chat(model, template)? } else { self.raw(model)? };
        Ok((prompt, self.body.params(self.is_chat)?))
    }

    fn chat(&self, model: &Model, template: Result<&ChatTemplate, &ApiError>) -> Result<Vec<u32>, ApiError> {
        let Some(Value::Array(messages)) = &self.body.messages else {
            return Err(wrong("messages", "a list of messages"));
        };
        let template = template.map_err(Clone::clone)?;
        let messages = messages.iter().map(plain_message).collect::<Result<Vec<_>, _>>()?;
        let input = RenderInput::new(Value::Array(messages));
        let text = template.render(&input).map_err(|e| ApiError::of(&e.into()))?;
        model.encode_chat(&text).map_err(|e| ApiError::of(&e))
    }

    fn raw(&self, model: &Model) -> Result<Vec<u32>, ApiError> {
        let one = || wrong("prompt", "one text, or the ids of one");
        let encode = |text: &str| model.encode(text).map_err(|e| ApiError::of(&e));
        match self.body.prompt.as_ref().ok_or_else(one)? {
            Prompt::Text(text) => encode(text),
            Prompt::Ids(ids) => Ok(ids.clone()),
            Prompt::Texts(texts) => match &texts[..] {
                [text] => encode(text),
                _ => Err(one()),
            },
            Prompt::IdLists(lists) => match &lists[..] {
                [ids] => Ok(ids.clone()),
                _ => Err(one()),
            },
        }
    }
}

/// A message whose content is one text, however it was cut.
fn plain_message(message: &Value) -> Result<Value, ApiError> {
    let Some(object) = message.as_object().filter(|m| m.get("role").is_some_and(Value::is_string)) else {
        return Err(wrong("messages", "objects with a role"));
    };
    let mut object = object.clone();
    if let Some(Value::Array(parts)) = object.get("content") {
        let text = |part: &Value| {
            let text = part.get("text").and_then(Value::as_str).filter(|_| part["type"] == "text");
            text.map(ToOwned::to_owned)
                .ok_or_else(|| wrong("messages", "text; this model reads nothing else"))
        };
        let text = parts.iter().map(text).collect::<Result<String, _>>()?;
        object.insert("content".into(), Value::String(text));
    }
    Ok(Value::Object(object))
}

fn wrong(param: &'static str, what: &str) -> ApiError {
    ApiError::bad("invalid_request", Some(param), format!("{param} must be {what}"))
}

impl Body {
    fn check_supported(&self, is_chat: bool) -> Result<(), ApiError> {
        self.check_belongs(is_chat)?;
        let is_set = |value: &Option<Value>| {
            value.as_ref().is_some_and(|v| !v.is_null() && *v != Value::Array(vec![]))
        };
        let wants_form = self.response_format.as_ref().is_some_and(|f| f["type"] != "text");
        let unsupported = [
            ("n", self.n.is_some_and(|n| n != 1)),
            ("best_of", self.best_of.is_some_and(|n| n != 1)),
            ("stream", self.stream == Some(true)),
            ("echo", self.echo == Some(true)),
            ("suffix", self.suffix.is_some()),
            ("tools", is_set(&self.tools)),
            ("functions", is_set(&self.functions)),
            ("response_format", wants_form),
        ];
        match unsupported.into_iter().find(|(_, is_asked)| *is_asked) {
            None => Ok(()),
            Some((param, _)) => {
                let message = format!("{param}: this is not supported in a batch");
                Err(ApiError::bad("unsupported_parameter", Some(param), message))
            }
        }
    }

    /// Settings that only another kind of request, or another setting, gives a meaning.
    fn check_belongs(&self, is_chat: bool) -> Result<(), ApiError> {
        let has_top = self.top_logprobs.is_some_and(|n| n > 0);
        if is_chat && self.prompt.is_some() {
            return Err(wrong("prompt", "left out of a chat: messages are its prompt"));
        }
        if !is_chat && self.messages.is_some() {
            return Err(wrong("messages", "left out of a completion: prompt is its text"));
        }
        if has_top && !matches!(self.logprobs, Some(Logprobs::Wanted(true))) {
            return Err(wrong("top_logprobs", "left out unless logprobs is true"));
        }
        Ok(())
    }

    fn params(&self, is_chat: bool) -> Result<GenerateParams, ApiError> {
        let stop = match &self.stop {
            None => Vec::new(),
            Some(OneOrMany::One(text)) => vec![text.clone()],
            Some(OneOrMany::Many(texts)) => texts.clone(),
        };
        let n_predict = self.max_completion_tokens.or(self.max_tokens).or((!is_chat).then_some(16));
        Ok(GenerateParams {
            n_predict,
            sampler: self.sampler()?,
            stop,
            n_logprobs: self.n_logprobs()?,
            ..GenerateParams::default()
        })
    }

    fn n_logprobs(&self) -> Result<Option<usize>, ApiError> {
        let n = match self.logprobs {
            None | Some(Logprobs::Wanted(false)) => None,
            Some(Logprobs::Wanted(true)) => Some(self.top_logprobs.unwrap_or(0)),
            Some(Logprobs::Top(n)) => Some(n),
        };
        match n {
            Some(n) if n > MAX_TOP_LOGPROBS => Err(wrong("top_logprobs", "at most 20")),
            n => Ok(n),
        }
    }

    fn sampler(&self) -> Result<SamplerParams, ApiError> {
        let default = SamplerParams::default();
        let bias = self.logit_bias.iter().flatten().map(|(id, bias)| {
            let id = id.parse().map_err(|_| wrong("logit_bias", "an object of token ids and numbers"))?;
            Ok((id, *bias))
        });
        Ok(SamplerParams {
            seed: self.seed.map(i64::cast_unsigned),
            temperature: self.temperature.unwrap_or(default.temperature),
            top_p: self.top_p.unwrap_or(default.top_p),
            top_k: self.top_k.unwrap_or(default.top_k),
            min_p: self.min_p.unwrap_or(default.min_p),
            repeat_penalty: self.repeat_penalty.unwrap_or(default.repeat_penalty),
            frequency_penalty: self.frequency_penalty.unwrap_or(0.0),
            presence_penalty: self.presence_penalty.unwrap_or(0.0),
            logit_bias: bias.collect::<Result<_, ApiError>>()?,
            ..default
        })
    }
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::*;

    #[test]
    fn what_cannot_be_had_is_refused_and_never_ignored() {
        for (body, param) in [
            (json!({ "n": 2 }), "n"),
            (json!({ "stream": true }), "stream"),
            (json!({ "tools": [{}] }), "tools"),
            (json!({ "response_format": { "type": "json_object" } }), "response_format"),
            (json!({ "prompt": "x", "messages": [] }), "prompt"),
            (json!({ "top_logprobs": 2 }), "top_logprobs"),
            (json!({ "top_logprobs": 2, "logprobs": false }), "top_logprobs"),
            (json!({ "temprature": 1 }), "body"),
            (json!({ "temperature": "hot" }), "body"),
        ] {
            assert_eq!(ApiRequest::read(true, body.clone()).unwrap_err().param, Some(param), "{body}");
        }
        let both = json!({ "prompt": "x", "messages": [] });
        assert_eq!(ApiRequest::read(false, both).unwrap_err().param, Some("messages"));
        let same = json!({ "n": 1, "stream": false, "tools": [], "user": "u", "response_format": { "type": "text" } });
        assert!(ApiRequest::read(true, same).is_ok());
    }

    #[test]
    fn settings_are_those_of_the_request() {
        let body = json!({
            "max_tokens": 5, "temperature": 0, "seed": -1, "stop": "x", "logprobs": true, "top_logprobs": 3,
            "logit_bias": { "7": -1.5 }
        });
        let params = ApiRequest::read(true, body).unwrap().body.params(true).unwrap();
        assert_eq!((params.n_predict, params.n_logprobs), (Some(5), Some(3)));
        assert_eq!((params.stop, params.sampler.seed), (vec!["x".to_owned()], Some(u64::MAX)));
        assert_eq!((params.sampler.temperature, params.sampler.logit_bias), (0.0, vec![(7, -1.5)]));
        let many = ApiRequest::read(false, json!({ "logprobs": 21 })).unwrap();
        assert_eq!(many.body.params(false).unwrap_err().param, Some("top_logprobs"));
        let bias = ApiRequest::read(false, json!({ "logit_bias": { "x": 1 } })).unwrap();
        assert_eq!(bias.body.params(false).unwrap_err().param, Some("logit_bias"));
    }

    #[test]
    fn parts_of_a_message_are_one_text() {
        let parts = json!({ "role": "user", "content": [{ "type": "text", "text": "a" }, { "type": "text", "text": "b" }] });
        assert_eq!(plain_message(&parts).unwrap()["content"], "ab");
        let image = json!({ "role": "user", "content": [{ "type": "image_url", "image_url": {} }] });
        assert_eq!(plain_message(&image).unwrap_err().param, Some("messages"));
        assert!(plain_message(&json!("hello")).is_err());
    }
}
