//! One rendering: the variables a template sees, and the limits it runs under.

use std::io;

use jiff::civil::DateTime;
use minijinja::value::Object;
use minijinja::{Environment, Value};

use super::environment::{MAX_OUTPUT_BYTES, TEMPLATE_NAME};
use super::error::TemplateError;
use super::json::from_json;
use super::{RenderInput, TemplateContext};

/// The time of a rendering, handed to `strftime_now` through a variable that no template can name.
#[derive(Debug)]
pub(super) struct Clock(pub(super) DateTime);

impl Clock {
    pub(super) const VARIABLE: &str = " clock";
}

impl Object for Clock {}

/// Renders the template of `env`.
pub(super) fn render(
    env: &Environment<'_>,
    context: &TemplateContext,
    input: &RenderInput,
) -> Result<String, TemplateError> {
    let variables = variables(context, input)?;
    let template = env.get_template(TEMPLATE_NAME).map_err(|e| TemplateError::from_parse(&e))?;
    let mut out = Bounded::default();
    let result = template.render_captured_to(variables, &mut out);
    if out.is_full {
        return Err(TemplateError::Limit {
            detail: format!("rendering produces more than {MAX_OUTPUT_BYTES} bytes"),
            line: 0,
        });
    }
    result.map_err(|e| TemplateError::from_render(&e))?;
    // The engine writes whole strings only.
    String::from_utf8(out.bytes).map_err(|e| TemplateError::Render { detail: e.to_string(), line: 0 })
}

/// Later names win, as in the reference: template arguments over special tokens over the conversation.
fn variables(context: &TemplateContext, input: &RenderInput) -> Result<Value, TemplateError> {
    let or_none = |json: Option<&serde_json::Value>| json.map_or(Ok(Value::from(())), from_json);
    let mut variables: Vec<(String, Value)> = vec![
        ("messages".to_owned(), from_json(&input.messages)?),
        ("tools".to_owned(), or_none(input.tools.as_ref())?),
        ("documents".to_owned(), or_none(input.documents.as_ref())?),
        ("add_generation_prompt".to_owned(), Value::from(input.add_generation_prompt)),
    ];
    variables.extend(context.tokens.iter().map(|(name, text)| (name.clone(), Value::from(text.as_str()))));
    for (name, value) in &input.kwargs {
        variables.push((name.clone(), from_json(value)?));
    }
    let now = input.now.unwrap_or_else(|| jiff::Zoned::now().datetime());
    variables.push((Clock::VARIABLE.to_owned(), Value::from_object(Clock(now))));
    Ok(Value::from_pairs(variables))
}

/// Collects output up to [`MAX_OUTPUT_BYTES`].
#[derive(Default)]
struct Bounded {
    bytes: Vec<u8>,
    is_full: bool,
}

impl io::Write for Bounded {
    fn write(&mut self, bytes: &[u8]) -> io::Result<usize> {
        if self.bytes.len() + bytes.len() > MAX_OUTPUT_BYTES {
            self.is_full = true;
            return Err(io::Error::other("the output limit is reached"));
        }
        self.bytes.extend_from_slice(bytes);
        Ok(bytes.len())
    }

    fn flush(&mut self) -> io::Result<()> {
        Ok(())
    }
}
