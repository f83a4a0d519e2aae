//! `POST /api/generate`.

use std::sync::Arc;

use axum::extract::State;
use axum::response::{IntoResponse, Response};
use serde_json::{Value, json};

use super::stream::{LineStream, Shape, final_line};
use super::{messages, now, options};
use crate::answer::{Answers, Job, Whole, respond};
use crate::body::{Json, RawBody};
use crate::chat::{self, ChatRequest, blocking, prompt_jobs};
use crate::error::ApiError;
use crate::fields::Fields;
use crate::frames::Framing;
use crate::state::{App, SharedApp};

/// A body that could be read.
#[derive(Clone, Debug)]
pub struct OllamaGenerate {
    /// The model that it names.
    pub model: String,
    /// What is to be gone on with.
    pub prompt: String,
    /// Tokens before it, from an earlier answer.
    pub context: Vec<u32>,
    /// Whether the prompt goes to the model as it is.
    pub raw: bool,
    /// The prompt as a conversation, and the settings.
    pub request: ChatRequest,
    /// Whether the answer is to come as it is made.
    pub stream: bool,
}

impl OllamaGenerate {
    /// Reads a body.
    pub fn read(body: Value) -> Result<Self, ApiError> {
        let mut fields = Fields::of_body(body)?;
        let fields = &mut fields;
        messages::refuse_images(fields)?;
        for name in ["suffix", "template"] {
            if fields.string(name)?.is_some_and(|text| !text.is_empty()) {
                return Err(ApiError::unsupported(name, "this server does not have it"));
            }
        }
        let model = fields.required_string("model")?;
        let prompt = fields.string("prompt")?.unwrap_or_default();
        let system = fields.string("system")?.filter(|text| !text.is_empty());
        let context = context(fields)?;
        let raw = fields.bool("raw")?.unwrap_or(false);
        let mut conversation: Vec<Value> = Vec::new();
        conversation.extend(system.map(|text| json!({ "role": "system", "content": text })));
        conversation.push(json!({ "role": "user", "content": prompt }));
        let request = ChatRequest {
            messages: conversation,
            template_kwargs: options::think(fields)?,
            settings: options::read(fields)?,
            ..ChatRequest::default()
        };
        Ok(Self { model, prompt, context, raw, request, stream: options::stream(fields)? })
    }

    /// Its jobs, and the tokens of its prompt.
    fn prepare(&self, app: &App) -> Result<(Vec<Job>, Vec<u32>), ApiError> {
        if self.raw {
            app.check_length(self.prompt.len(), "prompt")?;
            let prompt = app.model().encode(&self.prompt)?;
            let jobs = prompt_jobs(app.model(), &prompt, &self.request.settings)?;
            return Ok((jobs, prompt));
        }
        let mut jobs = chat::prepare(app, &self.request)?;
        let mut prompt = self.context.clone();
        for job in &mut jobs {
            job.request.prompt = [self.context.as_slice(), &job.request.prompt].concat();
            prompt.clone_from(&job.request.prompt);
        }
        Ok((jobs, prompt))
    }
}

fn context(fields: &mut Fields) -> Result<Vec<u32>, ApiError> {
    let list = fields.list("context", usize::MAX)?.unwrap_or_default();
    let tokens: Option<Vec<u32>> = list.iter().map(|id| u32::try_from(id.as_u64()?).ok()).collect();
    tokens.ok_or_else(|| fields.wrong("context", "a list of token ids"))
}

pub(super) async fn create(State(app): State<SharedApp>, body: RawBody) -> Result<Response, ApiError> {
    let call = Arc::new(body.read(OllamaGenerate::read).await?);
    app.check_model(Some(&call.model))?;
    if call.prompt.is_empty() {
        return Ok(Json(loaded(&call.model)).into_response());
    }
    let asked = call.clone();
    let (jobs, prompt) = blocking(&app, move |app| asked.prepare(app)).await?;
    let answers = Answers::submit(&app, jobs)?.begin().await?;
    let shape = Shape::Generate { prompt };
    if call.stream {
        return Ok(respond(answers, LineStream::new(call.model.clone(), shape), Framing::Lines));
    }
    let whole = answers.whole().await?.into_iter().next().unwrap_or_default();
    Ok(Json(body_of(&call.model, &whole, &shape)).into_response())
}

/// What is said when nothing is asked: the model is there.
fn loaded(model: &str) -> Value {
    json!({ "model": model, "created_at": now(), "response": "", "done": true, "done_reason": "load" })
}

fn body_of(model: &str, whole: &Whole, shape: &Shape) -> Value {
    let mut line = json!({ "model": model, "created_at": now(), "response": whole.content });
    if !whole.reasoning.is_empty() {
        line["thinking"] = whole.reasoning.as_str().into();
    }
    final_line(&mut line, whole.finished.as_deref());
    if let Some(finished) = whole.finished.as_deref() {
        shape.add_context(&mut line, finished);
    }
    line
}
