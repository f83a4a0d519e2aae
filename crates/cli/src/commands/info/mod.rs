//! `minfer info`: what a model file holds.
//!
//! [`facts`] gathers, [`text`] and JSON show. A file that opens is always shown, even one that minfer cannot run: a
//! tokenizer or chat template that is unusable is a fact like any other, with the reason.

mod facts;
mod text;
mod value;

use crate::args::InfoArgs;
use crate::open;
use crate::shell::Shell;

use facts::Facts;

pub(super) fn run(args: &InfoArgs, shell: &mut Shell) -> anyhow::Result<()> {
    let gguf = open::open(args.model.name()?, &args.model.open)?;
    let facts = Facts::of(&gguf, args.full);
    if args.json { shell.out.json(&facts) } else { Ok(text::write(&facts, args.tensors, &mut shell.out)?) }
}
