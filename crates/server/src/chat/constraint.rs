//! What holds an answer to its form: a format, calls of tools that must be made, or calls that must match their schema.
//!
//! Thoughts come first, where the template knows of them, and are free.

use minfer_engine::{CompiledGrammar, Grammar, Model, Part};
use minfer_text::reply::{ArgumentsShape, CallShape, ReplyFormat};
use serde_json::{Value, json};

use super::request::{ChatRequest, ResponseFormat, Tool, ToolChoice};
use super::templates::Templates;
use crate::error::ApiError;

/// Most calls of an answer that is held to calls.
const MAX_CALLS: u32 = 16;

/// The grammar of an answer to a raw prompt; `None` if anything goes.
pub(super) fn of_format(model: &Model, format: &ResponseFormat) -> Result<Option<CompiledGrammar>, ApiError> {
    let (grammar, param) = match format {
        ResponseFormat::Text => return Ok(None),
        ResponseFormat::JsonObject => (Grammar::JsonObject, "response_format"),
        ResponseFormat::JsonSchema { schema, param } => (Grammar::JsonSchema(schema.clone()), param.as_str()),
        ResponseFormat::Gbnf(text) => (Grammar::from_text(text), "grammar"),
        ResponseFormat::Lark(text) => (Grammar::Lark(text.clone()), "response_format.definition"),
        ResponseFormat::Regex(text) => (Grammar::Regex(text.clone()), "response_format.definition"),
    };
    compile(model, &grammar, param).map(Some)
}

pub(super) fn compile(model: &Model, grammar: &Grammar, param: &str) -> Result<CompiledGrammar, ApiError> {
    let compiled = model.compile_grammar(grammar);
    compiled.map_err(|error| ApiError::bad("invalid_grammar", error.to_string()).at(param.to_owned()))
}

/// A chat whose answer may be held to a form.
pub(super) struct Form<'a> {
    pub(super) model: &'a Model,
    pub(super) templates: &'a Templates,
    pub(super) request: &'a ChatRequest,
    pub(super) format: ReplyFormat,
    /// Whether the prompt has opened the thoughts.
    pub(super) in_reasoning: bool,
}

impl Form<'_> {
    /// The grammar of the answer; `None` if anything goes.
    pub(super) fn compile(&self) -> Result<Option<CompiledGrammar>, ApiError> {
        let has_strict = self.request.offers_tools() && self.request.tools.iter().any(|tool| tool.strict);
        let (mut parts, param) = match &self.request.tool_choice {
            ToolChoice::Required => (self.calls(&self.all(), self.max_calls(), "tool_choice")?, "tools"),
            ToolChoice::Named(name) => {
                let named: Vec<&Tool> = self.request.tools.iter().filter(|tool| tool.name == *name).collect();
                (self.calls(&named, 1, "tool_choice")?, "tools")
            }
            ToolChoice::Auto if has_strict => (self.words_or_calls()?, "tools"),
            ToolChoice::Auto | ToolChoice::None => match self.json() {
                Some((schema, param)) => (vec![Part::Json(schema)], param),
                None => return of_format(self.model, &self.request.settings.format),
            },
        };
        let mut all = self.thoughts();
        all.append(&mut parts);
        compile(self.model, &Grammar::Composed(all), param).map(Some)
    }

    fn all(&self) -> Vec<&Tool> {
        self.request.tools.iter().collect()
    }

    fn max_calls(&self) -> u32 {
        if self.request.parallel_tool_calls { MAX_CALLS } else { 1 }
    }

    /// The schema of an answer that is to be JSON.
    fn json(&self) -> Option<(Value, &str)> {
        match &self.request.settings.format {
            ResponseFormat::JsonObject => Some((json!({ "type": "object" }), "response_format")),
            ResponseFormat::JsonSchema { schema, param } => Some((schema.clone(), param)),
            _ => None,
        }
    }

    /// Words, in which whatever begins like a call is one. Words are read up to and with what opens a call, since a text that
    /// is read by the longest match would leave nothing of it.
    fn words_or_calls(&self) -> Result<Vec<Part>, ApiError> {
        let all = self.all();
        if let Some((schema, _)) = self.json() {
            let calls = self.calls(&all, self.max_calls(), "tools")?;
            return Ok(vec![Part::Choice(vec![vec![Part::Json(schema)], calls])]);
        }
        let shape = self.shape("tools")?;
        let Some(open) = self.format.opening(&shape.before) else {
            // Without an opening, a call is the whole answer.
            let begin = shape.before.trim_end().to_owned();
            let calls = self.calls(&all, 1, "tools")?;
            return Ok(vec![Part::Choice(vec![calls, vec![Part::Without(begin)]])]);
        };
        let call = self.one_of(&shape, &all, open.len())?;
        let (mut words, rest) = match self.hidden(open) {
            // A control token is no text that words could have.
            Some(id) => (vec![Part::Any, Part::Token(id)], Part::Any),
            None => (vec![Part::Until(open.to_owned())], Part::Without(open.to_owned())),
        };
        words.push(call);
        Ok(vec![Part::Repeat(words, 0, Some(self.max_calls())), rest])
    }

    fn shape(&self, param: &'static str) -> Result<CallShape, ApiError> {
        let why =
            "calls cannot be demanded of this model: its template writes none, or none that can be enforced";
        self.templates.call_shape().ok_or_else(|| ApiError::unsupported(param, why))
    }

    /// Calls of some of these tools, at least one.
    fn calls(&self, tools: &[&Tool], max: u32, param: &'static str) -> Result<Vec<Part>, ApiError> {
        let shape = self.shape(param)?;
        let one = self.one_of(&shape, tools, 0)?;
        // Where calls stand in a list, one is all of it.
        let max = if shape.after.starts_with("}]") { 1 } else { max };
        let mut calls = vec![one.clone()];
        if max > 1 {
            let next = vec![optional_break(), one];
            calls.push(Part::Repeat(next, 0, Some(max - 1)));
        }
        Ok(calls)
    }

    /// A call of one of these tools, less what of its beginning is there already.
    fn one_of(&self, shape: &CallShape, tools: &[&Tool], n_begun: usize) -> Result<Part, ApiError> {
        let calls = tools.iter().map(|tool| self.call(shape, tool, n_begun));
        Ok(Part::Choice(calls.collect::<Result<_, _>>()?))
    }

    fn call(&self, shape: &CallShape, tool: &Tool, n_begun: usize) -> Result<Vec<Part>, ApiError> {
        let mut parts = self.spelled(&[&shape.before[n_begun..], &tool.name, &shape.between].concat());
        match &shape.arguments {
            ArgumentsShape::Json => {
                let schema = tool.parameters.clone().unwrap_or_else(|| json!({ "type": "object" }));
                parts.push(Part::Json(schema));
            }
            ArgumentsShape::Tags(shape) => parts.extend(self.parameters(shape, tool)?),
        }
        parts.extend(self.spelled(&shape.after));
        Ok(parts)
    }

    /// What may come before the answer.
    fn thoughts(&self) -> Vec<Part> {
        let Some(tags) = self.format.reasoning else { return Vec::new() };
        let mut rest = self.until(tags.close);
        rest.push(optional_break());
        if self.in_reasoning {
            return rest;
        }
        if self.request.template_kwargs.get("enable_thinking") == Some(&Value::Bool(false)) {
            return Vec::new();
        }
        let mut all = self.spelled(tags.open);
        all.append(&mut rest);
        vec![Part::Choice(vec![all, Vec::new()])]
    }

    /// Anything up to a text, and it.
    pub(super) fn until(&self, text: &str) -> Vec<Part> {
        match self.hidden(text) {
            Some(id) => vec![Part::Any, Part::Token(id)],
            None => vec![Part::Until(text.to_owned())],
        }
    }

    /// A text, its control tokens as such.
    pub(super) fn spelled(&self, text: &str) -> Vec<Part> {
        let (mut parts, mut rest) = (Vec::new(), text);
        let markers = self.format.markers();
        while let Some((at, n_bytes, id)) = self.first_token(rest, &markers) {
            parts.extend((at > 0).then(|| Part::Text(rest[..at].to_owned())));
            parts.push(Part::Token(id));
            rest = &rest[at + n_bytes..];
        }
        parts.extend((!rest.is_empty()).then(|| Part::Text(rest.to_owned())));
        parts
    }

    /// Where the first marker stands that is a control token, its length, and its id.
    fn first_token(&self, text: &str, markers: &[&str]) -> Option<(usize, usize, u32)> {
        let found = markers
            .iter()
            .filter(|marker| !marker.is_empty())
            .filter_map(|marker| Some((text.find(marker)?, marker.len(), self.hidden(marker)?)));
        found.min()
    }

    /// The control token that a text is.
    fn hidden(&self, text: &str) -> Option<u32> {
        let tokenizer = self.model.tokenizer();
        let id = tokenizer.token_id(text)?;
        tokenizer.kind(id).is_some_and(|kind| kind.is_hidden()).then_some(id)
    }
}

fn optional_break() -> Part {
    let text = |text: &str| vec![Part::Text(text.to_owned())];
    Part::Choice(vec![text("\n\n"), text("\n"), Vec::new()])
}
