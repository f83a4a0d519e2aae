//! The model's chat templates, parsed once.

use minfer_engine::{EngineError, Model};
use minfer_text::chat::{ChatTemplate, RenderInput};
use minfer_text::reply::{CallShape, ReplyFormat};
use serde_json::Value;

use super::request::ChatRequest;
use crate::error::ApiError;

/// The template for conversations without tools and the one for those with them; or why there is none.
#[derive(Debug)]
pub struct Templates {
    plain: Result<Ready, ApiError>,
    with_tools: Result<Ready, ApiError>,
}

/// A template, and how replies to its prompts are written.
#[derive(Debug)]
struct Ready {
    template: ChatTemplate,
    format: ReplyFormat,
    /// How it writes a call, if that is known.
    shape: Option<CallShape>,
}

impl Templates {
    /// Those of a model.
    pub fn of(model: &Model) -> Self {
        let ready = |has_tools| {
            let template = model.chat_template(has_tools).map_err(|error| missing(&error))?;
            let format = ReplyFormat::detect(&template);
            Ok(Ready { format, shape: format.call_shape(&template), template })
        };
        Self { plain: ready(false), with_tools: ready(true) }
    }

    /// The template for conversations with or without tools.
    pub fn get(&self, has_tools: bool) -> Result<&ChatTemplate, ApiError> {
        self.ready(has_tools).as_ref().map(|ready| &ready.template).map_err(Clone::clone)
    }

    /// How replies are written in conversations with or without tools.
    pub fn reply_format(&self, has_tools: bool) -> ReplyFormat {
        self.ready(has_tools).as_ref().map(|ready| ready.format).unwrap_or_default()
    }

    /// How the template for conversations with tools writes a call, if that is known.
    pub(super) fn call_shape(&self) -> Option<CallShape> {
        self.with_tools.as_ref().ok().and_then(|ready| ready.shape.clone())
    }

    fn ready(&self, has_tools: bool) -> &Result<Ready, ApiError> {
        if has_tools { &self.with_tools } else { &self.plain }
    }

    /// The prompt of a conversation, the assistant to speak next.
    pub fn render(&self, request: &ChatRequest) -> Result<String, ApiError> {
        let has_tools = request.offers_tools();
        let mut input = RenderInput::new(Value::Array(request.messages.clone()));
        input.tools = has_tools.then(|| request.tools.iter().map(|tool| tool.definition.clone()).collect());
        input.kwargs = request.template_kwargs.clone();
        let rendered = self.get(has_tools)?.render(&input);
        let text = rendered.map_err(|error| ApiError::from(EngineError::from(error)))?;
        Ok(text + request.prefill.as_deref().unwrap_or_default())
    }
}

fn missing(error: &EngineError) -> ApiError {
    ApiError::bad("no_chat_template", format!("this model cannot chat: {error}"))
}
