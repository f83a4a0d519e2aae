//! `minfer render`.

use std::path::PathBuf;

use clap::Args;

use super::ModelArgs;

/// Turn a conversation into the prompt that the model's chat template makes of it
///
/// The file holds a list of messages, or a whole request as OpenAI spells it: `messages`, and perhaps `tools`,
/// `documents`, `add_generation_prompt` and `chat_template_kwargs`. Flags beat the file. The prompt is written as it is,
/// with nothing added.
#[derive(Args, Debug)]
#[command(after_long_help = "\
Examples:
  echo '[{\"role\": \"user\", \"content\": \"Hi\"}]' | minfer render smollm2-135m -
  minfer render qwen3.gguf request.json --arg enable_thinking=false
  minfer render --template-file chat.jinja messages.json --arg 'bos_token=<s>'")]
pub(crate) struct RenderArgs {
    #[command(flatten)]
    pub(crate) model: ModelArgs,
    /// The conversation, a JSON file; `-` is standard input
    #[arg(value_name = "MESSAGES")]
    pub(crate) messages: Option<String>,
    /// Use this template instead of the model's; then no model is needed
    #[arg(long, visible_alias = "chat-template-file", value_name = "FILE")]
    pub(crate) template_file: Option<PathBuf>,
    /// Give the template an argument; VALUE is JSON, or else a string (may be repeated)
    #[arg(long = "arg", value_name = "KEY=VALUE", value_parser = parse_template_arg)]
    pub(crate) template_args: Vec<(String, serde_json::Value)>,
    /// Tools that the model may call: a JSON file with a list, as OpenAI spells them
    #[arg(long, value_name = "FILE")]
    pub(crate) tools: Option<PathBuf>,
    /// End after the last message instead of opening the assistant's turn
    #[arg(long)]
    pub(crate) no_generation_prompt: bool,
}

/// A template argument that has no key.
#[derive(Debug, Clone, Copy, PartialEq, Eq, thiserror::Error)]
#[error("expected KEY=VALUE, for instance enable_thinking=false")]
pub(crate) struct TemplateArgError;

/// `enable_thinking=false` is a truth value, `name=Ann` a string, `n=\"1\"` a string too.
pub(crate) fn parse_template_arg(text: &str) -> Result<(String, serde_json::Value), TemplateArgError> {
    let (key, value) = text.split_once('=').filter(|(key, _)| !key.is_empty()).ok_or(TemplateArgError)?;
    let value = serde_json::from_str(value).unwrap_or_else(|_| value.into());
    Ok((key.to_owned(), value))
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::*;

    #[test]
    fn a_template_argument_is_json_or_a_string() {
        for (text, want) in [
            ("k=false", json!(false)),
            ("k=[1, {\"a\": null}]", json!([1, {"a": null}])),
            ("k=\"1\"", json!("1")),
            ("k=a=b", json!("a=b")),
            ("k=", json!("")),
        ] {
            assert_eq!(parse_template_arg(text), Ok(("k".to_owned(), want)), "{text}");
        }
        assert_eq!(parse_template_arg("k"), Err(TemplateArgError));
        assert_eq!(parse_template_arg("=1"), Err(TemplateArgError));
    }
}
