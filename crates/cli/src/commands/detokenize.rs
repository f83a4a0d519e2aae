//! `minfer detokenize`: token ids to text.

use minfer_text::tokenizer::Tokenizer;

use crate::args::DetokenizeArgs;
use crate::input::Source;
use crate::open;
use crate::prompt;
use crate::shell::Shell;

pub(super) fn run(args: DetokenizeArgs, shell: &mut Shell) -> anyhow::Result<()> {
    // With -m the first argument is an id like the others.
    let (model, first) = args.model.require(None)?;
    let ids: Vec<_> = first.into_iter().chain(args.ids).collect();
    let tokenizer = Tokenizer::from_metadata(open::open(&model, &args.model.open)?.metadata())?;
    let text = if ids.is_empty() { Source::Stdin.read()? } else { ids.join(" ") };
    let text = tokenizer.decode(&prompt::parse_ids(&text)?, !args.no_special)?;
    Ok(shell.out.exact(&text)?)
}
