//! From a conversation to answers.

use std::sync::Arc;

use minfer_engine::{Model, Request, TokenConstraint};

use super::request::{ChatRequest, ResponseFormat, Settings, ToolChoice};
use super::templates::Templates;
use crate::answer::{Answers, Job};
use crate::error::ApiError;
use crate::reader::Reader;
use crate::state::App;

/// Submits a conversation.
pub async fn open(app: &Arc<App>, request: ChatRequest) -> Result<Answers, ApiError> {
    let jobs = blocking(app, move |app| prepare(app, &request)).await?;
    Answers::submit(app, jobs)?.begin().await
}

/// Runs what may take long, such as reading a long prompt, where it keeps nobody waiting.
pub(crate) async fn blocking<T: Send + 'static>(
    app: &Arc<App>,
    work: impl FnOnce(&App) -> Result<T, ApiError> + Send + 'static,
) -> Result<T, ApiError> {
    let app = app.clone();
    let done = tokio::task::spawn_blocking(move || work(&app)).await;
    done.unwrap_or_else(|error| {
        tracing::error!(%error, "a request could not be prepared");
        Err(ApiError::internal())
    })
}

/// One job for each answer.
fn prepare(app: &App, request: &ChatRequest) -> Result<Vec<Job>, ApiError> {
    let text = app.templates().render(request)?;
    app.check_length(text.len(), "messages")?;
    if app.config().log_prompts {
        tracing::info!(prompt = text, "a chat");
    }
    jobs_of(app.model(), &text, request)
}

/// The same for who runs the jobs himself.
pub fn chat_jobs(model: &Model, templates: &Templates, request: &ChatRequest) -> Result<Vec<Job>, ApiError> {
    jobs_of(model, &templates.render(request)?, request)
}

fn jobs_of(model: &Model, text: &str, request: &ChatRequest) -> Result<Vec<Job>, ApiError> {
    refuse_forced_tools(request)?;
    prompt_jobs(&model.encode_chat(text)?, &request.settings, || Reader::Plain)
}

/// The requests of a prompt, one for each answer.
pub fn prompt_jobs(
    prompt: &[u32],
    settings: &Settings,
    reader: impl Fn() -> Reader,
) -> Result<Vec<Job>, ApiError> {
    let job = |index: u64| {
        let mut params = settings.params.clone();
        // The first answer is what one alone would be.
        params.sampler.seed = params.sampler.seed.map(|seed| seed.wrapping_add(index));
        let request = Request {
            constraint: constraint(&settings.format)?,
            priority: settings.priority,
            deadline: settings.deadline,
            ..Request::new(prompt.to_vec(), params)
        };
        Ok(Job { request, reader: reader() })
    };
    (0..settings.n as u64).map(job).collect()
}

/// What enforces a format.
fn constraint(format: &ResponseFormat) -> Result<Option<Box<dyn TokenConstraint>>, ApiError> {
    match format {
        ResponseFormat::Text => Ok(None),
        ResponseFormat::JsonObject | ResponseFormat::JsonSchema { .. } => {
            Err(ApiError::unsupported("response_format", "this server cannot enforce it"))
        }
        ResponseFormat::Gbnf(_) | ResponseFormat::Lark(_) | ResponseFormat::Regex(_) => {
            Err(ApiError::unsupported("grammar", "this server cannot enforce it"))
        }
    }
}

fn refuse_forced_tools(request: &ChatRequest) -> Result<(), ApiError> {
    match request.tool_choice {
        ToolChoice::Auto | ToolChoice::None => Ok(()),
        ToolChoice::Required | ToolChoice::Named(_) => {
            Err(ApiError::unsupported("tool_choice", "this server cannot force a call"))
        }
    }
}
