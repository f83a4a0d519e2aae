//! `minfer tokenize`: text to token ids.

use std::io::{self, Write};

use minfer_text::tokenizer::{EncodeOptions, Tokenizer};
use serde::Serialize;

use crate::args::TokenizeArgs;
use crate::escape;
use crate::input::Source;
use crate::open;
use crate::output::Out;
use crate::prompt;
use crate::shell::Shell;

pub(super) fn run(args: TokenizeArgs, shell: &mut Shell) -> anyhow::Result<()> {
    let (model, text) = args.model.require(args.text.as_deref())?;
    let tokenizer = Tokenizer::from_metadata(open::open(&model, &args.model.open)?.metadata())?;
    let text = Source::of(text, args.prompt, args.file)?.read()?;
    let options = EncodeOptions { add_special: !args.no_special, parse_special: !args.no_parse_special };
    let ids = prompt::encode(&tokenizer, &text, options, shell)?;
    if args.ids {
        write_ids(&ids, &mut shell.out)?;
    } else if args.json {
        shell.out.json(&tokens(&tokenizer, &ids).collect::<Vec<_>>())?;
    } else {
        write_lines(&tokenizer, &ids, &mut shell.out)?;
    }
    Ok(())
}

/// `[1, 2, 3]`.
fn write_ids(ids: &[u32], out: &mut Out) -> io::Result<()> {
    out.write_all(b"[")?;
    for (i, id) in ids.iter().enumerate() {
        write!(out, "{}{id}", if i == 0 { "" } else { ", " })?;
    }
    writeln!(out, "]")
}

fn write_lines(tokenizer: &Tokenizer, ids: &[u32], out: &mut Out) -> io::Result<()> {
    for &id in ids {
        writeln!(out, "{id:6} {}", escape::quoted(bytes_of(tokenizer, id)))?;
    }
    Ok(())
}

/// One token, as `--json` shows it.
#[derive(Serialize)]
struct Token<'a> {
    id: u32,
    text: std::borrow::Cow<'a, str>,
    #[serde(skip_serializing_if = "Option::is_none")]
    bytes: Option<&'a [u8]>,
}

fn tokens<'a>(tokenizer: &'a Tokenizer, ids: &[u32]) -> impl Iterator<Item = Token<'a>> {
    ids.iter().map(|&id| {
        let bytes = bytes_of(tokenizer, id);
        let is_text = std::str::from_utf8(bytes).is_ok();
        Token { id, text: String::from_utf8_lossy(bytes), bytes: (!is_text).then_some(bytes) }
    })
}

/// Ids that the tokenizer gave out are in its vocabulary.
fn bytes_of(tokenizer: &Tokenizer, id: u32) -> &[u8] {
    tokenizer.token_bytes(id).unwrap_or_default()
}
