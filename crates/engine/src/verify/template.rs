//! The chat template: whether it parses, renders plain conversations, and writes tokens that the vocabulary has.

use minfer_gguf::Metadata;
use minfer_text::chat::{ChatTemplate, RenderInput, TemplateError};
use minfer_text::tokenizer::{TokenKind, Tokenizer};
use serde_json::{Value, json};

use super::{Check, Severity};

pub(super) fn check(metadata: &Metadata) -> Check {
    let mut check = Check::new("template");
    let template = match ChatTemplate::from_metadata(metadata, false) {
        Ok(template) => template,
        Err(TemplateError::Missing) => {
            check.add(Severity::Warning, "the file has no chat template: conversations need another one");
            return check;
        }
        Err(error) => {
            check.add(Severity::Warning, format!("conversations do not work: {error}"));
            return check;
        }
    };
    let mut rendered = Vec::new();
    for (what, messages) in conversations() {
        match template.render(&RenderInput::new(messages)) {
            Ok(text) => rendered.push(text),
            Err(TemplateError::Raised { message }) => {
                check.add(Severity::Note, format!("it refuses {what} in its own words: {message}"));
            }
            Err(error) => check.add(Severity::Warning, format!("{what} does not render: {error}")),
        }
    }
    check
        .add(Severity::Note, format!("{} of {} conversations render", rendered.len(), conversations().len()));
    if let Ok(tokenizer) = Tokenizer::from_metadata(metadata) {
        unknown_markers(&tokenizer, &rendered, &mut check);
    }
    for name in ChatTemplate::names(metadata) {
        check.add(Severity::Note, format!("there is another template named '{name}'"));
    }
    check
}

fn conversations() -> [(&'static str, Value); 3] {
    let user = json!({"role": "user", "content": "Hello!"});
    let system = json!({"role": "system", "content": "Be brief."});
    let assistant = json!({"role": "assistant", "content": "Hi."});
    [
        ("a question", json!([user])),
        ("a conversation with a system message", json!([system, user])),
        ("a conversation of three turns", json!([user, assistant, user])),
    ]
}

/// What looks like a control token (`<|im_start|>`) and is none goes to the model as ordinary text, which it was not
/// trained on.
fn unknown_markers(tokenizer: &Tokenizer, rendered: &[String], check: &mut Check) {
    let mut unknown: Vec<&str> = rendered.iter().flat_map(|text| markers(text)).collect();
    unknown.sort_unstable();
    unknown.dedup();
    for marker in unknown {
        let is_whole = tokenizer
            .token_id(marker)
            .and_then(|id| tokenizer.kind(id))
            .is_some_and(|kind| matches!(kind, TokenKind::Control | TokenKind::UserDefined));
        if !is_whole {
            check.add(
                Severity::Warning,
                format!("it writes '{marker}', which is no special token of the vocabulary"),
            );
        }
    }
}

/// Stretches of the form `<|name|>`.
fn markers(text: &str) -> Vec<&str> {
    let mut found = Vec::new();
    let mut rest = text;
    while let Some(start) = rest.find("<|") {
        rest = &rest[start..];
        let end = rest.find("|>").map(|end| end + 2);
        match end {
            Some(end) if rest[2..end - 2].chars().all(|c| c.is_alphanumeric() || c == '_') && end > 4 => {
                found.push(&rest[..end]);
                rest = &rest[end..];
            }
            _ => rest = &rest[2..],
        }
    }
    found
}

#[cfg(test)]
mod tests {
    use super::markers;

    #[test]
    fn markers_are_found() {
        assert_eq!(markers("<|im_start|>user\n<|x|><|a b|> <||> <|end"), ["<|im_start|>", "<|x|>"]);
        assert_eq!(markers("<|<|a|>|>"), ["<|a|>"]);
    }
}
