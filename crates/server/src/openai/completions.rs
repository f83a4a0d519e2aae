//! `POST /v1/completions`.

use std::sync::Arc;

use axum::extract::State;
use axum::response::{IntoResponse, Response};
use minfer_engine::Model;
use serde_json::Value;

use super::completion_body::{Parts, completion_body};
use super::completion_stream::CompletionStream;
use super::prompt::Prompt;
use super::{chat, settings};
use crate::answer::{Answers, Job, respond};
use crate::body::{Json, RawBody};
use crate::chat::{Settings, blocking, prompt_jobs};
use crate::error::ApiError;
use crate::fields::Fields;
use crate::frames::Framing;
use crate::state::{App, SharedApp, unix_now};

/// Most prompts in one request.
const MAX_PROMPTS: usize = 128;

/// Most answers of which the best are given.
const MAX_BEST_OF: usize = 20;

/// Length of an answer to a request that says nothing else, as for OpenAI.
const DEFAULT_N_PREDICT: usize = 16;

/// A body that could be read.
#[derive(Clone, Debug)]
pub struct CompletionCall {
    /// The model that it names.
    pub model: Option<String>,
    /// The prompts; each has its own answers.
    pub prompts: Vec<Prompt>,
    /// What it asks for. `n` is how many answers are made of each prompt.
    pub settings: Settings,
    /// How many of them are given: the most probable, if there are more.
    pub n: usize,
    /// Whether the prompt is part of the text.
    pub echo: bool,
    /// Whether log-probabilities are wanted.
    pub has_logprobs: bool,
    /// Whether the answer is to come as it is made.
    pub stream: bool,
    /// Whether the stream is to end with the counts of tokens.
    pub include_usage: bool,
    /// Fields that nobody knows.
    pub unknown: Vec<String>,
}

impl CompletionCall {
    /// Reads a body.
    pub fn read(body: Value) -> Result<Self, ApiError> {
        let mut fields = Fields::of_body(body)?;
        let fields = &mut fields;
        if fields.take("suffix").is_some() {
            return Err(ApiError::unsupported("suffix", "this server does not insert text"));
        }
        let prompts = Prompt::read(fields, "prompt", MAX_PROMPTS)?;
        let mut settings = settings::read(fields)?;
        let n_logprobs = fields.count("logprobs", 0..=settings::MAX_TOP_LOGPROBS)?;
        let echo = fields.bool("echo")?.unwrap_or(false);
        settings.params.n_predict = n_predict(fields)?;
        settings.params.n_logprobs = n_logprobs;
        settings.params.n_prompt_logprobs = n_logprobs.filter(|_| echo);
        let (stream, include_usage) = chat::stream(fields)?;
        let n = settings.n;
        settings.n = best_of(fields, n, stream)?;
        if settings.n > n {
            // The best are found by them.
            settings.params.n_logprobs = Some(n_logprobs.unwrap_or(0));
        }
        let has_logprobs = n_logprobs.is_some();
        if stream && echo && has_logprobs {
            return Err(ApiError::unsupported("echo", "with logprobs, it cannot be streamed"));
        }
        let model = fields.string("model")?;
        let unknown = fields.rest().map(str::to_owned).collect();
        Ok(Self { model, prompts, settings, n, echo, has_logprobs, stream, include_usage, unknown })
    }

    /// The tokens of each prompt.
    pub fn encode(&self, model: &Model) -> Result<Vec<Vec<u32>>, ApiError> {
        let encode = |prompt: &Prompt| match prompt.encode(model)? {
            tokens if tokens.is_empty() => Err(ApiError::field("prompt", "not empty")),
            tokens => Ok(tokens),
        };
        self.prompts.iter().map(encode).collect()
    }

    /// The jobs of its prompts, which are these tokens, one prompt after the other.
    pub fn jobs(&self, model: &Model, prompts: &[Vec<u32>]) -> Result<Vec<Job>, ApiError> {
        let mut jobs = Vec::new();
        for prompt in prompts {
            jobs.extend(prompt_jobs(model, prompt, &self.settings)?);
        }
        Ok(jobs)
    }
}

fn n_predict(fields: &mut Fields) -> Result<Option<usize>, ApiError> {
    let llama_cpp = fields.integer("n_predict", -1..=i64::MAX)?.map(|n| usize::try_from(n).ok());
    let openai = fields.count("max_tokens", 0..=usize::MAX)?;
    Ok(openai.map(Some).or(llama_cpp).unwrap_or(Some(DEFAULT_N_PREDICT)))
}

fn best_of(fields: &mut Fields, n: usize, stream: bool) -> Result<usize, ApiError> {
    let Some(best_of) = fields.count("best_of", 1..=MAX_BEST_OF)? else { return Ok(n) };
    if best_of < n {
        return Err(fields.wrong("best_of", "at least n"));
    }
    if stream && best_of > n {
        return Err(ApiError::unsupported("best_of", "more than n answers cannot be streamed"));
    }
    Ok(best_of)
}

/// The endpoint.
pub(super) async fn create(State(app): State<SharedApp>, body: RawBody) -> Result<Response, ApiError> {
    let call = body.read(CompletionCall::read).await?;
    app.check_model(call.model.as_deref())?;
    for prompt in &call.prompts {
        app.check_length(prompt.n_bytes(), "prompt")?;
    }
    let (call, prompts, answers) = open(&app, call).await?;
    let (id, name) = (app.new_id("cmpl-"), app.name().to_owned());
    let parts = Parts {
        id: &id,
        created: unix_now(),
        model_name: &name,
        model: app.model(),
        call: &call,
        prompts: &prompts,
    };
    if call.stream {
        let render = CompletionStream::new(&app, &parts);
        return Ok(respond(answers, render, Framing::Events));
    }
    let all = answers.whole().await?;
    Ok(Json(completion_body(&parts, all)).into_response())
}

async fn open(
    app: &Arc<App>,
    call: CompletionCall,
) -> Result<(CompletionCall, Vec<Vec<u32>>, Answers), ApiError> {
    let prepare = move |app: &App| {
        let prompts = call.encode(app.model())?;
        if app.config().log_prompts {
            tracing::info!(prompts = ?call.prompts, "a completion");
        }
        let jobs = call.jobs(app.model(), &prompts)?;
        Ok((call, prompts, jobs))
    };
    let (call, prompts, jobs) = blocking(app, prepare).await?;
    let answers = Answers::submit(app, jobs)?.begin().await?;
    Ok((call, prompts, answers))
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::*;

    fn read(more: Value) -> Result<CompletionCall, ApiError> {
        let mut body = json!({ "prompt": "x" });
        body.as_object_mut().unwrap().extend(more.as_object().unwrap().clone());
        CompletionCall::read(body)
    }

    #[test]
    fn limits_are_read() {
        let n_predict = |more| read(more).unwrap().settings.params.n_predict;
        assert_eq!(n_predict(json!({})), Some(16));
        assert_eq!(n_predict(json!({ "max_tokens": 0 })), Some(0));
        assert_eq!(n_predict(json!({ "n_predict": -1 })), None);
        let call = read(json!({ "n": 2, "best_of": 3, "logprobs": 2, "echo": true })).unwrap();
        assert_eq!((call.n, call.settings.n), (2, 3));
        assert_eq!(call.settings.params.n_prompt_logprobs, Some(2));
    }

    #[test]
    fn what_makes_no_sense_is_named() {
        for (more, param) in [
            (json!({ "prompt": null }), "prompt"),
            (json!({ "max_tokens": -1 }), "max_tokens"),
            (json!({ "n": 3, "best_of": 2 }), "best_of"),
            (json!({ "best_of": 2, "stream": true }), "best_of"),
            (json!({ "logprobs": 21 }), "logprobs"),
            (json!({ "logprobs": true }), "logprobs"),
            (json!({ "suffix": "y" }), "suffix"),
            (json!({ "echo": true, "logprobs": 1, "stream": true }), "echo"),
        ] {
            assert_eq!(read(more.clone()).unwrap_err().param.as_deref(), Some(param), "{more}");
        }
    }
}
