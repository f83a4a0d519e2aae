//! The first thing that the model reads, made ready and checked.

use std::io::{self, IsTerminal};
use std::path::PathBuf;

use minfer_engine::{CompiledGrammar, Conversation, Model};
use minfer_text::chat::{ChatTemplate, TemplateContext};
use minfer_text::tokenizer::EncodeOptions;

use crate::args::ChatArgs;
use crate::error::CliError;
use crate::input::Source;
use crate::prompt;
use crate::shell::Shell;

/// How a run begins.
pub(super) enum Opening {
    /// A text to go on with, as tokens.
    Text(Vec<u32>),
    /// A conversation whose last message is to be answered, and that is all.
    Question(Conversation),
    /// A conversation on the terminal; its last message, if the user's, is to be answered first.
    Conversation(Conversation),
}

impl Opening {
    /// Reads the prompt, if one is to be read, and puts it where it belongs.
    pub(super) fn prepare(
        model: &Model,
        source: Source,
        args: ChatArgs,
        grammar: Option<CompiledGrammar>,
        shell: &Shell,
    ) -> anyhow::Result<Self> {
        if args.no_template {
            return Ok(Self::Text(prompt::encode_raw(model, &source.read_prompt()?, shell)?));
        }
        let template = template(model, args.template_file)?;
        let mut conversation = Conversation::new(template, args.template_args.into_iter().collect());
        conversation.set_grammar(grammar);
        if let Some(system) = &args.system {
            check_bytes(model, system, shell)?;
            conversation.set_system(Some(system));
        }
        let is_person = io::stdin().is_terminal() && io::stdout().is_terminal();
        if source == Source::Stdin && is_person {
            return Ok(Self::Conversation(conversation));
        }
        if args.conversation && !is_person {
            return Err(CliError::NoTerminal.into());
        }
        conversation.push("user", &question(model, source, shell)?);
        Ok(if args.conversation { Self::Conversation(conversation) } else { Self::Question(conversation) })
    }
}

fn question(model: &Model, source: Source, shell: &Shell) -> anyhow::Result<String> {
    let text = source.read_prompt()?;
    if text.is_empty() {
        return Err(CliError::Missing { what: "prompt" }.into());
    }
    check_bytes(model, &text, shell)?;
    Ok(text)
}

/// Warns of bytes that the model has no token for. The text is tokenized again as part of the prompt; here its bytes have
/// the places that the user knows.
pub(super) fn check_bytes(model: &Model, text: &str, shell: &Shell) -> anyhow::Result<()> {
    prompt::encode(model.tokenizer(), text, EncodeOptions::default(), shell)?;
    Ok(())
}

fn template(model: &Model, file: Option<PathBuf>) -> anyhow::Result<ChatTemplate> {
    let Some(path) = file else { return Ok(model.chat_template(false)?) };
    let context = TemplateContext::from_metadata(model.file().metadata());
    Ok(ChatTemplate::parse(&Source::file(path).read()?, context)?)
}
