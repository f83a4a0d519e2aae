//! What a client asks for.

use std::time::Duration;

use minfer_engine::GenerateParams;
use serde_json::{Map, Value};

/// A conversation and what is wanted of it.
#[derive(Clone, Debug, Default)]
pub struct ChatRequest {
    /// The messages as OpenAI spells them, each content one text.
    pub messages: Vec<Value>,
    /// The tools that may be called.
    pub tools: Vec<Tool>,
    /// Whether they must be.
    pub tool_choice: ToolChoice,
    /// Whether an answer may call several.
    pub parallel_tool_calls: bool,
    /// What the answer begins with; the model goes on from there.
    pub prefill: Option<String>,
    /// Arguments of the template, such as `enable_thinking`.
    pub template_kwargs: Map<String, Value>,
    /// Everything that a raw prompt has, too.
    pub settings: Settings,
}

impl ChatRequest {
    /// Whether the model is told of tools.
    pub fn offers_tools(&self) -> bool {
        !self.tools.is_empty() && self.tool_choice != ToolChoice::None
    }
}

/// What does not depend on where the prompt comes from.
#[derive(Clone, Debug)]
pub struct Settings {
    /// Sampler, limits, stop strings, log-probabilities.
    pub params: GenerateParams,
    /// What the answer must look like.
    pub format: ResponseFormat,
    /// How many answers.
    pub n: usize,
    /// Higher goes first.
    pub priority: i32,
    /// Time that it may take.
    pub deadline: Option<Duration>,
}

impl Default for Settings {
    fn default() -> Self {
        Self {
            params: GenerateParams::default(),
            format: ResponseFormat::Text,
            n: 1,
            priority: 0,
            deadline: None,
        }
    }
}

/// A tool.
#[derive(Clone, Debug, PartialEq)]
pub struct Tool {
    /// Its name.
    pub name: String,
    /// The JSON Schema of its arguments, if it has one.
    pub parameters: Option<Value>,
    /// Whether arguments must match the schema.
    pub strict: bool,
    /// All of it as OpenAI spells it, for the template.
    pub definition: Value,
}

/// Whether tools are called.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub enum ToolChoice {
    /// The model decides.
    #[default]
    Auto,
    /// None is.
    None,
    /// At least one is.
    Required,
    /// This one is.
    Named(String),
}

/// What an answer must look like.
#[derive(Clone, Debug, Default, PartialEq)]
pub enum ResponseFormat {
    /// Anything.
    #[default]
    Text,
    /// A JSON object.
    JsonObject,
    /// JSON that matches a schema.
    JsonSchema {
        /// The schema.
        schema: Value,
        /// Where it stands in the request, as errors name it.
        param: String,
    },
    /// A text of a grammar in GBNF.
    Gbnf(String),
    /// A text of a grammar in Lark, as llguidance has it.
    Lark(String),
    /// A text that matches a regular expression.
    Regex(String),
}
