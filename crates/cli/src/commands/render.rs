//! `minfer render`: a conversation to the prompt that the chat template makes of it.

use std::path::PathBuf;

use minfer_gguf::Gguf;
use minfer_text::chat::{ChatTemplate, RenderInput, TemplateContext};
use serde_json::{Map, Value};

use crate::args::RenderArgs;
use crate::error::CliError;
use crate::input::Source;
use crate::open;
use crate::shell::Shell;

pub(super) fn run(args: RenderArgs, shell: &mut Shell) -> anyhow::Result<()> {
    let (model, messages) = model_and_messages(&args)?;
    let messages = Source::file(messages.into());
    let model = model.map(|name| open::open(&name, &args.model.open)).transpose()?;
    let origin = messages.origin();
    let mut input = Request { origin: &origin }.parse(messages.read_json()?)?;
    if let Some(path) = args.tools {
        input.tools = Some(read_tools(path)?);
    }
    input.add_generation_prompt &= !args.no_generation_prompt;
    input.kwargs.extend(args.template_args);
    let template = template(model.as_ref(), args.template_file, &input)?;
    Ok(shell.out.exact(&template.render(&input)?)?)
}

/// Which model and which messages; with a template of its own the command needs no model, and one argument is the messages.
fn model_and_messages(args: &RenderArgs) -> Result<(Option<String>, String), CliError> {
    let selection = args.model.select(args.messages.as_deref())?;
    let missing = CliError::Missing { what: "file with messages" };
    match (selection.model, selection.rest) {
        (model, Some(messages)) => Ok((model, messages)),
        (Some(messages), None) if args.template_file.is_some() => Ok((None, messages)),
        (Some(_), None) => Err(missing),
        (None, None) => Err(if args.template_file.is_some() { missing } else { CliError::NoModel }),
    }
}

fn template(
    model: Option<&Gguf>,
    file: Option<PathBuf>,
    input: &RenderInput,
) -> anyhow::Result<ChatTemplate> {
    let Some(path) = file else {
        let model = model.ok_or(CliError::NoModel)?;
        return Ok(ChatTemplate::from_metadata(model.metadata(), input.tools.is_some())?);
    };
    let context = model.map(|model| TemplateContext::from_metadata(model.metadata())).unwrap_or_default();
    Ok(ChatTemplate::parse(&Source::file(path).read()?, with_token_args(context, &input.kwargs))?)
}

/// Special tokens given as arguments (`--arg bos_token=<s>`) count as the template's when it is tried, too.
fn with_token_args(context: TemplateContext, args: &Map<String, Value>) -> TemplateContext {
    let tokens = args.iter().filter(|(name, _)| name.ends_with("_token"));
    tokens.fold(context, |context, (name, value)| match value {
        Value::String(text) => context.with_token(name, text),
        _ => context,
    })
}

fn read_tools(path: PathBuf) -> Result<Value, CliError> {
    let source = Source::file(path);
    let request = Request { origin: &source.origin() };
    request.list("the value", source.read_json()?)
}

/// A conversation in JSON, read part by part.
struct Request<'a> {
    /// What to call it in an error.
    origin: &'a str,
}

impl Request<'_> {
    /// A list of messages, or an object that has one.
    fn parse(&self, json: Value) -> Result<RenderInput, CliError> {
        let Value::Object(mut request) = json else {
            return Ok(RenderInput::new(self.list("the value", json)?));
        };
        let messages = request.remove("messages").unwrap_or_default();
        let mut input = RenderInput::new(self.list("`messages`", messages)?);
        let mut optional = |key: &str| request.remove(key).filter(|value| !value.is_null());
        input.tools = optional("tools").map(|tools| self.list("`tools`", tools)).transpose()?;
        input.documents = optional("documents").map(|it| self.list("`documents`", it)).transpose()?;
        input.kwargs = optional("chat_template_kwargs").map_or(Ok(Map::new()), |it| self.object(it))?;
        input.add_generation_prompt =
            optional("add_generation_prompt").map_or(Ok(true), |it| self.truth(it))?;
        Ok(input)
    }

    fn list(&self, what: &'static str, value: Value) -> Result<Value, CliError> {
        if value.is_array() { Ok(value) } else { Err(self.not(what, "a list")) }
    }

    fn object(&self, value: Value) -> Result<Map<String, Value>, CliError> {
        match value {
            Value::Object(map) => Ok(map),
            _ => Err(self.not("`chat_template_kwargs`", "an object")),
        }
    }

    fn truth(&self, value: Value) -> Result<bool, CliError> {
        value.as_bool().ok_or_else(|| self.not("`add_generation_prompt`", "true or false"))
    }

    fn not(&self, what: &'static str, expected: &'static str) -> CliError {
        CliError::Shape { origin: self.origin.to_owned(), what, expected }
    }
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::*;

    fn parse(json: Value) -> Result<RenderInput, CliError> {
        Request { origin: "it" }.parse(json)
    }

    #[test]
    fn a_request_may_be_bare_or_whole() {
        let messages = json!([{"role": "user", "content": "Hi"}]);
        assert_eq!(parse(messages.clone()).unwrap(), RenderInput::new(messages.clone()));
        let whole = parse(json!({
            "model": "ignored", "messages": messages, "tools": [1], "documents": null,
            "chat_template_kwargs": {"a": 1}, "add_generation_prompt": false,
        }));
        let mut want = RenderInput::new(messages);
        want.tools = Some(json!([1]));
        want.kwargs.insert("a".into(), json!(1));
        want.add_generation_prompt = false;
        assert_eq!(whole.unwrap(), want);
    }

    #[test]
    fn a_part_of_another_shape_is_named() {
        for (json, message) in [
            (json!("Hi"), "it: the value should be a list"),
            (json!({}), "it: `messages` should be a list"),
            (json!({"messages": {}}), "it: `messages` should be a list"),
            (json!({"messages": [], "tools": "x"}), "it: `tools` should be a list"),
            (
                json!({"messages": [], "chat_template_kwargs": []}),
                "it: `chat_template_kwargs` should be an object",
            ),
            (
                json!({"messages": [], "add_generation_prompt": 1}),
                "it: `add_generation_prompt` should be true or false",
            ),
        ] {
            assert_eq!(parse(json.clone()).unwrap_err().to_string(), message, "{json}");
        }
    }
}
