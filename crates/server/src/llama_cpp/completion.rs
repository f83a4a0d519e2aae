//! `POST /completion`.

use std::sync::Arc;

use axum::extract::State;
use axum::response::{IntoResponse, Response};
use serde_json::Value;

use super::body::whole_body;
use super::stream::CompletionStream;
use crate::answer::{Answers, Job, respond};
use crate::body::{Json, RawBody};
use crate::chat::{Settings, blocking, prompt_jobs};
use crate::error::ApiError;
use crate::fields::{Fields, whole};
use crate::frames::Framing;
use crate::openai::settings;
use crate::state::{App, SharedApp};

/// Most prompts in one request.
const MAX_PROMPTS: usize = 128;

/// What changes no answer.
const IGNORED: [&str; 10] = [
    "n_keep",
    "n_discard",
    "t_max_prompt_ms",
    "post_sampling_probs",
    "oaicompat_msg",
    "stream_options",
    "lora",
    "n_cmpl",
    "add_special",
    "chat_format",
];

/// A body that could be read.
#[derive(Clone, Debug)]
pub struct RawCompletion {
    /// The prompts.
    pub prompts: Vec<RawPrompt>,
    /// Whether there was a list of them, so that the answer is one.
    pub is_list: bool,
    /// What it asks for.
    pub settings: Settings,
    /// Whether the answer is to come as it is made.
    pub stream: bool,
    /// Whether the tokens are wanted beside the text.
    pub return_tokens: bool,
}

/// A prompt: texts and tokens, one after the other.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct RawPrompt(pub Vec<PromptPart>);

/// A part of a prompt.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum PromptPart {
    /// A text.
    Text(String),
    /// Tokens.
    Tokens(Vec<u32>),
}

impl RawCompletion {
    /// Reads a body.
    pub fn read(body: Value) -> Result<Self, ApiError> {
        let mut fields = Fields::of_body(body)?;
        let Some(prompt) = fields.take("prompt") else {
            return Err(wrong_prompt(&fields));
        };
        let (prompts, is_list) = prompts(prompt).ok_or_else(|| wrong_prompt(&fields))?;
        Self::with_prompts(fields, prompts, is_list)
    }

    /// Reads the rest of a body.
    pub(super) fn with_prompts(
        mut fields: Fields,
        prompts: Vec<RawPrompt>,
        is_list: bool,
    ) -> Result<Self, ApiError> {
        let fields = &mut fields;
        fields.ignore(&IGNORED);
        let n_predict = fields.integer("n_predict", -2..=i64::MAX)?;
        let max_tokens = fields.integer("max_tokens", -1..=i64::MAX)?;
        let n_probs = fields.count("n_probs", 0..=settings::MAX_TOP_LOGPROBS)?;
        let time = fields.integer("t_max_predict_ms", 0..=i64::from(u32::MAX))?.filter(|ms| *ms > 0);
        let mut settings = settings::read(fields)?;
        settings.params.n_predict = n_predict.or(max_tokens).and_then(|n| usize::try_from(n).ok());
        settings.params.n_logprobs = n_probs.filter(|n| *n > 0);
        let time = time.and_then(|ms| u64::try_from(ms).ok()).map(std::time::Duration::from_millis);
        settings.deadline = settings.deadline.or(time);
        if settings.n > 1 {
            return Err(ApiError::unsupported("n", "this endpoint gives one answer to each prompt"));
        }
        let stream = fields.bool("stream")?.unwrap_or(false);
        if stream && prompts.len() > 1 {
            return Err(ApiError::unsupported("stream", "only one prompt can be streamed"));
        }
        let return_tokens = fields.bool("return_tokens")?.unwrap_or(false);
        Ok(Self { prompts, is_list, settings, stream, return_tokens })
    }

    /// Its jobs, one for each prompt.
    pub fn jobs(&self, app: &App) -> Result<Vec<Job>, ApiError> {
        let mut jobs = Vec::new();
        for prompt in &self.prompts {
            jobs.extend(prompt_jobs(app.model(), &prompt.encode(app)?, &self.settings)?);
        }
        Ok(jobs)
    }
}

impl RawPrompt {
    /// Its tokens; the begin token goes before a text that comes first.
    fn encode(&self, app: &App) -> Result<Vec<u32>, ApiError> {
        let mut tokens = Vec::new();
        for (index, part) in self.0.iter().enumerate() {
            match part {
                PromptPart::Tokens(part) => tokens.extend(part),
                PromptPart::Text(text) => {
                    app.check_length(text.len(), "prompt")?;
                    let model = app.model();
                    tokens.extend(if index == 0 { model.encode(text)? } else { model.encode_chat(text)? });
                }
            }
        }
        if tokens.is_empty() { Err(ApiError::field("prompt", "not empty")) } else { Ok(tokens) }
    }
}

fn wrong_prompt(fields: &Fields) -> ApiError {
    fields.wrong(
        "prompt",
        format_args!("a text, token ids, texts and token ids mixed, or a list of at most {MAX_PROMPTS}"),
    )
}

/// A text, a list of texts and tokens, or a list of such.
fn prompts(value: Value) -> Option<(Vec<RawPrompt>, bool)> {
    match value {
        Value::Array(list) if list.iter().any(Value::is_number) => Some((vec![mixed(list)?], false)),
        Value::Array(list) if (1..=MAX_PROMPTS).contains(&list.len()) => {
            let prompts = list.into_iter().map(prompt).collect::<Option<_>>()?;
            Some((prompts, true))
        }
        value => Some((vec![prompt(value)?], false)),
    }
}

fn prompt(value: Value) -> Option<RawPrompt> {
    match value {
        Value::String(text) => Some(RawPrompt(vec![PromptPart::Text(text)])),
        Value::Array(list) => mixed(list),
        // llama.cpp's form for pictures, here without any.
        Value::Object(mut map) => match map.remove("prompt_string")? {
            Value::String(text) => Some(RawPrompt(vec![PromptPart::Text(text)])),
            _ => None,
        },
        _ => None,
    }
}

fn mixed(list: Vec<Value>) -> Option<RawPrompt> {
    let mut parts: Vec<PromptPart> = Vec::new();
    for value in list {
        if let Value::String(text) = value {
            parts.push(PromptPart::Text(text));
            continue;
        }
        let id = u32::try_from(whole(&value)?).ok()?;
        if let Some(PromptPart::Tokens(tokens)) = parts.last_mut() {
            tokens.push(id);
        } else {
            parts.push(PromptPart::Tokens(vec![id]));
        }
    }
    (!parts.is_empty()).then_some(RawPrompt(parts))
}

pub(super) async fn create(State(app): State<SharedApp>, body: RawBody) -> Result<Response, ApiError> {
    answer(&app, body.read(RawCompletion::read).await?).await
}

/// Runs what was read.
pub(super) async fn answer(app: &SharedApp, call: RawCompletion) -> Result<Response, ApiError> {
    let call = Arc::new(call);
    let asked = call.clone();
    let jobs = blocking(app, move |app| asked.jobs(app)).await?;
    let texts: Vec<String> = jobs
        .iter()
        .map(|job| app.model().tokenizer().decode(&job.request.prompt, true).unwrap_or_default())
        .collect();
    let answers = Answers::submit(app, jobs)?.begin().await?;
    if call.stream {
        return Ok(respond(answers, CompletionStream::new(app, &call, texts), Framing::Events));
    }
    let all = answers.whole().await?;
    let bodies = all.iter().zip(&texts).enumerate();
    let mut bodies: Vec<Value> =
        bodies.map(|(index, (whole, text))| whole_body(app, &call, index, text, whole)).collect();
    Ok(Json(if call.is_list { bodies.into() } else { bodies.pop().unwrap_or_default() }).into_response())
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::*;

    #[test]
    fn prompts_come_in_many_forms() {
        let text = |text: &str| PromptPart::Text(text.into());
        let tokens = |ids: &[u32]| PromptPart::Tokens(ids.to_vec());
        for (value, parts, is_list) in [
            (json!("a"), vec![vec![text("a")]], false),
            (json!([1, 2]), vec![vec![tokens(&[1, 2])]], false),
            (json!([1, "a", 2, 3]), vec![vec![tokens(&[1]), text("a"), tokens(&[2, 3])]], false),
            (json!(["a", "b"]), vec![vec![text("a")], vec![text("b")]], true),
            (json!([[1], ["a", 2]]), vec![vec![tokens(&[1])], vec![text("a"), tokens(&[2])]], true),
        ] {
            let expected = (parts.into_iter().map(RawPrompt).collect(), is_list);
            assert_eq!(prompts(value), Some(expected));
        }
        for bad in [json!(3), json!([]), json!([-1]), json!([1, null]), json!({}), json!(true)] {
            assert_eq!(prompts(bad.clone()), None, "{bad}");
        }
    }

    #[test]
    fn what_makes_no_sense_is_named() {
        for (more, param) in [
            (json!({ "prompt": null }), "prompt"),
            (json!({ "n_predict": -3 }), "n_predict"),
            (json!({ "n_predict": "many" }), "n_predict"),
            (json!({ "temperature": "hot" }), "temperature"),
            (json!({ "stream": 1 }), "stream"),
            (json!({ "prompt": ["a", "b"], "stream": true }), "stream"),
            (json!({ "n_probs": -1 }), "n_probs"),
            (json!({ "mirostat": 2 }), "mirostat"),
        ] {
            let mut body = json!({ "prompt": "Hi" });
            body.as_object_mut().unwrap().extend(more.as_object().unwrap().clone());
            assert_eq!(RawCompletion::read(body).unwrap_err().param.as_deref(), Some(param), "{more}");
        }
    }
}
