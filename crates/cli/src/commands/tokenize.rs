//! `minfer tokenize`: text to token ids.

use std::io::{self, Write};

use minfer_text::tokenizer::{EncodeOptions, Tokenizer};

use crate::args::TokenizeArgs;
use crate::input::Source;
use crate::open;
use crate::output::Out;
use crate::prompt;
use crate::shell::Shell;
use crate::token::{self, Token};

pub(super) fn run(args: TokenizeArgs, shell: &mut Shell) -> anyhow::Result<()> {
    let (model, text) = args.model.require(args.text.as_deref())?;
    let tokenizer = Tokenizer::from_metadata(open::open(&model, &args.model.open)?.metadata())?;
    let text = Source::of(text, args.prompt, args.file)?.read()?;
    let options = EncodeOptions { add_special: !args.no_special, parse_special: !args.no_parse_special };
    let ids = prompt::encode(&tokenizer, &text, options, shell)?;
    if args.ids {
        token::write_ids(&ids, &mut shell.out)?;
    } else if args.json {
        shell.out.json(&ids.iter().map(|&id| Token::of(&tokenizer, id)).collect::<Vec<_>>())?;
    } else {
        write_lines(&tokenizer, &ids, &mut shell.out)?;
    }
    Ok(())
}

fn write_lines(tokenizer: &Tokenizer, ids: &[u32], out: &mut Out) -> io::Result<()> {
    for &id in ids {
        writeln!(out, "{id:6} {}", token::quoted(tokenizer, id))?;
    }
    Ok(())
}
