//! From what the user gives to token ids.

use minfer_engine::{EngineError, Model};
use minfer_text::tokenizer::{Dropped, EncodeOptions, Tokenizer, TokenizerError};

use crate::args::{PromptArgs, TokensArgs};
use crate::error::CliError;
use crate::input::Source;
use crate::shell::Shell;

/// Most bytes without a token that are named one by one.
const MAX_NAMED: usize = 8;

/// The ids of a raw prompt: those given, or those of a text with the begin token in front where the model wants it.
/// `argument` is the one after the model.
pub(crate) fn raw_ids(
    model: &Model,
    argument: Option<String>,
    prompt: &PromptArgs,
    tokens: &TokensArgs,
    shell: &Shell,
) -> anyhow::Result<Vec<u32>> {
    let source = prompt.source(argument)?;
    let ids = match (&tokens.tokens, source) {
        (Some(ids), Source::Stdin) => parse_ids(ids)?,
        (Some(_), _) => return Err(CliError::TextAndTokens.into()),
        (None, source) => encode_raw(model, &source.read_prompt()?, shell)?,
    };
    let n_vocab = model.n_vocab();
    match ids.iter().find(|id| **id as usize >= n_vocab) {
        Some(&id) => Err(EngineError::Token { id, n_vocab }.into()),
        None if ids.is_empty() => Err(EngineError::EmptyPrompt.into()),
        None => Ok(ids),
    }
}

/// The ids of a text that goes to the model as it is.
pub(crate) fn encode_raw(model: &Model, text: &str, shell: &Shell) -> Result<Vec<u32>, TokenizerError> {
    encode(model.tokenizer(), text, EncodeOptions { add_special: true, parse_special: true }, shell)
}

/// The ids of a text; a warning names the bytes that have none.
pub(crate) fn encode(
    tokenizer: &Tokenizer,
    text: &str,
    options: EncodeOptions,
    shell: &Shell,
) -> Result<Vec<u32>, TokenizerError> {
    let encoding = tokenizer.encode(text, options)?;
    if !encoding.dropped.is_empty() {
        shell.warn(&about_dropped(&encoding.dropped));
    }
    Ok(encoding.ids)
}

fn about_dropped(dropped: &[Dropped]) -> String {
    let named = dropped.iter().take(MAX_NAMED).map(|it| format!("{:02x} at {}", it.byte, it.offset));
    let named = named.collect::<Vec<_>>().join(", ");
    let more = if dropped.len() > MAX_NAMED { ", ..." } else { "" };
    let n = dropped.len();
    let (bytes, have, are) = if n == 1 { ("byte", "has", "is") } else { ("bytes", "have", "are") };
    format!("{n} {bytes} of the text {have} no token in this model and {are} left out: {named}{more}")
}

/// The ids of a list in brackets or without, separated by blanks or commas.
pub(crate) fn parse_ids(text: &str) -> Result<Vec<u32>, CliError> {
    let text = text.trim();
    let inner = text.strip_prefix('[').and_then(|text| text.strip_suffix(']')).unwrap_or(text);
    let words = inner.split(|c: char| c.is_whitespace() || c == ',').filter(|word| !word.is_empty());
    words.map(parse_id).collect()
}

fn parse_id(word: &str) -> Result<u32, CliError> {
    word.parse().map_err(|_| CliError::TokenId { text: word.to_owned() })
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn ids_may_be_separated_in_any_usual_way() {
        for text in ["1 2 3", "1,2,3", "[1, 2, 3]", " [1,\n2,\n3]\n", "1 2,3"] {
            assert_eq!(parse_ids(text).unwrap(), [1, 2, 3], "{text:?}");
        }
        assert!(parse_ids("[]").unwrap().is_empty());
        assert_eq!(parse_ids("4294967295").unwrap(), [u32::MAX]);
    }

    #[test]
    fn what_is_no_id_is_named() {
        for (text, word) in
            [("1 x", "x"), ("-1", "-1"), ("4294967296", "4294967296"), ("[1", "[1"), ("1.0", "1.0")]
        {
            match parse_ids(text) {
                Err(CliError::TokenId { text: named }) => assert_eq!(named, word),
                other => panic!("{text}: {other:?}"),
            }
        }
    }
}
