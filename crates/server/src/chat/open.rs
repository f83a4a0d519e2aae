//! From a conversation to answers.

use std::sync::Arc;

use minfer_engine::{CompiledGrammar, Model, Request};
use minfer_text::reply::{ReplyFormat, ReplyOptions, Tools};

use super::constraint::{self, Form};
use super::request::{ChatRequest, Settings};
use super::templates::Templates;
use crate::answer::{Answers, Job};
use crate::error::ApiError;
use crate::reader::Reader;
use crate::state::{App, random};

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
pub(crate) fn prepare(app: &App, request: &ChatRequest) -> Result<Vec<Job>, ApiError> {
    let text = app.templates().render(request)?;
    app.check_length(text.len(), "messages")?;
    if app.config().log_prompts {
        tracing::info!(prompt = text, "a chat");
    }
    jobs_of(app.model(), app.templates(), &text, request)
}

/// The same for who runs the jobs himself.
pub fn chat_jobs(model: &Model, templates: &Templates, request: &ChatRequest) -> Result<Vec<Job>, ApiError> {
    jobs_of(model, templates, &templates.render(request)?, request)
}

fn jobs_of(
    model: &Model,
    templates: &Templates,
    text: &str,
    request: &ChatRequest,
) -> Result<Vec<Job>, ApiError> {
    let format = reply_format(templates, request);
    let shown = format.shown_tokens(model.tokenizer());
    let is_reasoning = format.opens_reasoning(text);
    let mut settings = request.settings.clone();
    settings.params.shown.clone_from(&shown);
    let reader = || reader(format, is_reasoning, shown.clone(), request);
    let form = Form { model, templates, request, format, in_reasoning: is_reasoning };
    let grammar = form.compile()?;
    Ok(jobs(&model.encode_chat(text)?, &settings, grammar.as_ref(), reader))
}

/// How the answer is written. Without tools on offer there are no calls to be read.
fn reply_format(templates: &Templates, request: &ChatRequest) -> ReplyFormat {
    let has_tools = request.offers_tools();
    let format = templates.reply_format(has_tools);
    ReplyFormat { tools: format.tools.filter(|_| has_tools), ..format }
}

fn reader(format: ReplyFormat, in_reasoning: bool, shown: Vec<u32>, request: &ChatRequest) -> Reader {
    let definitions = request.tools.iter().map(|tool| tool.definition.clone()).collect();
    let options = ReplyOptions { tools: Tools::from_json(&definitions), in_reasoning };
    let max_calls = if request.parallel_tool_calls { usize::MAX } else { 1 };
    Reader::of(format, options, shown, max_calls, format!("call_{:016x}", random()))
}

/// The requests of a raw prompt, one for each answer.
pub fn prompt_jobs(model: &Model, prompt: &[u32], settings: &Settings) -> Result<Vec<Job>, ApiError> {
    let grammar = constraint::of_format(model, &settings.format)?;
    Ok(jobs(prompt, settings, grammar.as_ref(), || Reader::Plain))
}

/// One job for each answer; each has a constraint of its own.
fn jobs(
    prompt: &[u32],
    settings: &Settings,
    grammar: Option<&CompiledGrammar>,
    reader: impl Fn() -> Reader,
) -> Vec<Job> {
    let job = |index: u64| {
        let mut params = settings.params.clone();
        // The first answer is what one alone would be.
        params.sampler.seed = params.sampler.seed.map(|seed| seed.wrapping_add(index));
        let request = Request {
            constraint: grammar.map(CompiledGrammar::constraint),
            priority: settings.priority,
            deadline: settings.deadline,
            ..Request::new(prompt.to_vec(), params)
        };
        Job { request, reader: reader() }
    };
    (0..settings.n as u64).map(job).collect()
}
