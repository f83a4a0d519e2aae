//! Chat templates: the model's own Jinja template turns a conversation into the prompt it was trained on.
//!
//! The template comes with the model, and one missing space in a prompt costs quality that nobody can see. So the
//! contract is: the text equals, byte for byte, what Python's Jinja2 gives as `transformers` sets it up, or there is an
//! error. The engine underneath is `minijinja`; this module adds what Python does and Rust does not (`str` and `repr` of
//! values, methods of `str`, `list` and `dict`, `tojson`, formatting, `strftime_now`, `raise_exception`, the
//! `{% generation %}` tag).
//!
//! Templates are hostile input: steps, nesting, output and the depth of request values are bounded.
//!
//! # What is refused at load
//! 1. Text that does not parse, with construct and line.
//! 2. A filter, test, function or method that does not exist, unless it stands in a branch (`{% if %}`, an inline `if`)
//!    that some conversations do not take; for functions and methods a macro's body counts as a branch, too. Jinja2
//!    draws the same line for filters and tests.
//! 3. A template for which every one of a few plain conversations fails with an error other than its own
//!    `raise_exception`. A template that renders one of them, or refuses one in its own words, is accepted; so is one that
//!    reads a template argument without asking whether it is defined, since only the caller can give that.
//!
//! 4. A macro that uses `varargs` or `kwargs`, which the engine does not have.
//! 5. A template far larger or deeper than any real one: its parser recurses.
//!
//! # Example
//! ```
//! use minfer_text::chat::{ChatTemplate, RenderInput, TemplateContext};
//!
//! let source = "{% for m in messages %}[{{ m.role }}] {{ m.content|trim }}{{ eos_token }}\n{% endfor %}\
//!               {% if add_generation_prompt %}[assistant]{% endif %}";
//! let template = ChatTemplate::parse(source, TemplateContext::new("<s>", "</s>"))?;
//! let messages = serde_json::json!([{"role": "user", "content": " Hello! "}]);
//! let prompt = template.render(&RenderInput::new(messages))?;
//! assert_eq!(prompt, "[user] Hello!</s>\n[assistant]");
//! # Ok::<(), minfer_text::chat::TemplateError>(())
//! ```

mod bound;
mod check;
mod clock;
mod dict;
mod environment;
mod error;
mod filters;
mod formatting;
mod functions;
mod jinja_tests;
mod json;
mod metadata;
mod methods;
mod operators;
mod render;
mod repr;
mod source;

use std::collections::BTreeMap;

use minijinja::Environment;

pub use error::{Construct, TemplateError};
pub use jiff::civil::DateTime;

/// The longest template that is accepted; real ones have some 20 KB.
const MAX_TEMPLATE_BYTES: usize = 256 << 10;

/// What a template knows of the model: the text of its special tokens by variable name (`bos_token`, `eos_token`, …).
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct TemplateContext {
    /// Variable name → text of the token.
    pub tokens: BTreeMap<String, String>,
}

impl TemplateContext {
    /// The two tokens that nearly every template uses.
    pub fn new(bos_token: impl Into<String>, eos_token: impl Into<String>) -> Self {
        Self::default().with_token("bos_token", bos_token).with_token("eos_token", eos_token)
    }

    /// Adds a token under the name of its variable, such as `pad_token`.
    #[must_use]
    pub fn with_token(mut self, name: impl Into<String>, text: impl Into<String>) -> Self {
        self.tokens.insert(name.into(), text.into());
        self
    }
}

/// One conversation to render.
#[derive(Clone, Debug, PartialEq)]
pub struct RenderInput {
    /// The messages, a JSON array as OpenAI spells them.
    pub messages: serde_json::Value,
    /// The tools, a JSON array as OpenAI spells them.
    pub tools: Option<serde_json::Value>,
    /// Documents to answer from, for templates that know them.
    pub documents: Option<serde_json::Value>,
    /// Whether the prompt ends with the opening of the assistant's turn.
    pub add_generation_prompt: bool,
    /// Template arguments, such as `enable_thinking`; they may replace any other variable.
    pub kwargs: serde_json::Map<String, serde_json::Value>,
    /// The time that `strftime_now` tells; `None` is the local time of the rendering.
    pub now: Option<DateTime>,
}

impl RenderInput {
    /// A conversation without tools or arguments, with the assistant to speak next.
    pub fn new(messages: serde_json::Value) -> Self {
        Self {
            messages,
            tools: None,
            documents: None,
            add_generation_prompt: true,
            kwargs: serde_json::Map::new(),
            now: None,
        }
    }
}

/// A chat template, ready to render; shared between threads as it is.
#[derive(Debug)]
pub struct ChatTemplate {
    env: Environment<'static>,
    context: TemplateContext,
}

impl ChatTemplate {
    /// Parses a template and makes sure that it can render; see the [module](self) for what is refused.
    pub fn parse(source: &str, context: TemplateContext) -> Result<Self, TemplateError> {
        if source.len() > MAX_TEMPLATE_BYTES {
            return Err(TemplateError::TooLong { n_bytes: source.len(), limit: MAX_TEMPLATE_BYTES });
        }
        let source = source::Source::scan(source);
        check::size(&source)?;
        let env = environment::build(source.text.clone()).map_err(|e| TemplateError::from_parse(&e))?;
        check::macros(&source)?;
        check::names(&env, &source)?;
        let template = Self { env, context };
        check::trial(&template, &source)?;
        Ok(template)
    }

    /// Whether the template has this text somewhere.
    pub fn mentions(&self, text: &str) -> bool {
        self.env
            .get_template(environment::TEMPLATE_NAME)
            .is_ok_and(|template| template.source().contains(text))
    }

    /// Renders one conversation.
    ///
    /// [`TemplateError::Raised`] carries the template's own refusal; other errors name the line.
    pub fn render(&self, input: &RenderInput) -> Result<String, TemplateError> {
        render::render(&self.env, &self.context, input)
    }
}
