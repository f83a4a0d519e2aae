//! `minfer detokenize`: token ids to text.

use minfer_text::tokenizer::Tokenizer;

use crate::args::DetokenizeArgs;
use crate::error::CliError;
use crate::input::Source;
use crate::open;
use crate::shell::Shell;

pub(super) fn run(args: DetokenizeArgs, shell: &mut Shell) -> anyhow::Result<()> {
    // With -m the first argument is an id like the others.
    let (model, first) = args.model.require(None)?;
    let ids: Vec<_> = first.into_iter().chain(args.ids).collect();
    let tokenizer = Tokenizer::from_metadata(open::open(&model, &args.model.open)?.metadata())?;
    let text = if ids.is_empty() { Source::Stdin.read()? } else { ids.join(" ") };
    let text = tokenizer.decode(&parse_ids(&text)?, !args.no_special)?;
    Ok(shell.out.exact(&text)?)
}

/// The ids of a list in brackets or without, separated by blanks or commas.
pub(super) fn parse_ids(text: &str) -> Result<Vec<u32>, CliError> {
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
