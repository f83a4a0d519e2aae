//! The model's chat templates, parsed once.

use minfer_engine::{EngineError, Model};
use minfer_text::chat::{ChatTemplate, RenderInput};
use serde_json::Value;

use super::request::{ChatRequest, ToolChoice};
use crate::error::ApiError;

/// The template for conversations without tools and the one for those with them; or why there is none.
#[derive(Debug)]
pub struct Templates {
    plain: Result<ChatTemplate, ApiError>,
    with_tools: Result<ChatTemplate, ApiError>,
}

impl Templates {
    /// Those of a model.
    pub fn of(model: &Model) -> Self {
        let template = |has_tools| model.chat_template(has_tools).map_err(|error| missing(&error));
        Self { plain: template(false), with_tools: template(true) }
    }

    /// The template for conversations with or without tools.
    pub fn get(&self, has_tools: bool) -> Result<&ChatTemplate, ApiError> {
        let template = if has_tools { &self.with_tools } else { &self.plain };
        template.as_ref().map_err(Clone::clone)
    }

    /// The prompt of a conversation, the assistant to speak next.
    pub fn render(&self, request: &ChatRequest) -> Result<String, ApiError> {
        let has_tools = !request.tools.is_empty() && request.tool_choice != ToolChoice::None;
        let mut input = RenderInput::new(Value::Array(request.messages.clone()));
        input.tools = has_tools.then(|| request.tools.iter().map(|tool| tool.definition.clone()).collect());
        input.kwargs = request.template_kwargs.clone();
        let rendered = self.get(has_tools)?.render(&input);
        rendered.map_err(|error| ApiError::from(EngineError::from(error)))
    }
}

fn missing(error: &EngineError) -> ApiError {
    ApiError::bad("no_chat_template", format!("this model cannot chat: {error}"))
}
