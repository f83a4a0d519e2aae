//! `minfer run`: an answer, or a conversation.

mod conversation;
mod line;

use std::path::PathBuf;
use std::sync::Arc;

use minfer_engine::{Context, Conversation, GenerateParams, Generated, Model, generate};
use minfer_hub::DEFAULT_MODEL;
use minfer_text::chat::{ChatTemplate, TemplateContext};
use minfer_text::tokenizer::EncodeOptions;

use crate::args::{ContextArgs, RunArgs};
use crate::error::CliError;
use crate::input::Source;
use crate::interrupt::Interrupt;
use crate::printer::{self, Printer};
use crate::shell::Shell;
use crate::{engine, prompt};

pub(super) fn run(args: RunArgs, shell: &mut Shell) -> anyhow::Result<()> {
    let selection = args.model.select(args.prompt.argument.as_deref())?;
    let source = args.prompt.source(selection.rest)?;
    let model = engine::load(selection.model.as_deref().unwrap_or(DEFAULT_MODEL), &args.model.open)?;
    let how = How { params: args.sampling.params(), with_timings: args.timings };
    if args.no_template {
        let ids = prompt::encode_raw(&model, &source.read_prompt()?, shell)?;
        return with_context(&model, &args.context, shell, |context, shell| {
            continue_text(context, &ids, &how, shell)
        });
    }
    let arguments = args.template_args.into_iter().collect();
    let mut conversation = Conversation::new(template(&model, args.template_file)?, arguments);
    conversation.set_system(args.system.as_deref());
    if source.is_terminal() {
        return with_context(&model, &args.context, shell, |context, shell| {
            conversation::hold(conversation, context, &how, shell)
        });
    }
    conversation.push("user", &question(&model, source, shell)?);
    with_context(&model, &args.context, shell, |context, shell| answer(conversation, context, &how, shell))
}

/// How answers are made, and what is told about them.
struct How {
    params: GenerateParams,
    with_timings: bool,
}

/// Runs `body` with a context and finishes the reports of the context even when it was broken off.
fn with_context(
    model: &Arc<Model>,
    args: &ContextArgs,
    shell: &mut Shell,
    body: impl FnOnce(&mut Context, &mut Shell) -> anyhow::Result<()>,
) -> anyhow::Result<()> {
    let mut context = engine::context(model, args, shell)?;
    let result = body(&mut context, shell);
    engine::finish(&mut context)?;
    result
}

/// The user's message; a warning names what the model has no token for.
fn question(model: &Model, source: Source, shell: &Shell) -> anyhow::Result<String> {
    let text = source.read_prompt()?;
    if text.is_empty() {
        return Err(CliError::Missing { what: "prompt" }.into());
    }
    prompt::encode(model.tokenizer(), &text, EncodeOptions::default(), shell)?;
    Ok(text)
}

fn template(model: &Arc<Model>, file: Option<PathBuf>) -> anyhow::Result<ChatTemplate> {
    let Some(path) = file else { return Ok(model.chat_template(false)?) };
    let context = TemplateContext::from_metadata(model.file().metadata());
    Ok(ChatTemplate::parse(&Source::file(path).read()?, context)?)
}

fn answer(
    mut conversation: Conversation,
    context: &mut Context,
    how: &How,
    shell: &mut Shell,
) -> anyhow::Result<()> {
    let (seq, interrupt) = (context.new_sequence()?, Interrupt::install()?);
    let mut printer = Printer::new(&mut shell.out, &interrupt, true);
    let answer = conversation.reply(context, seq, &how.params, &mut |event| printer.event(event))?;
    printer.finish(&answer)?;
    conclude(&answer, how)
}

fn continue_text(context: &mut Context, ids: &[u32], how: &How, shell: &mut Shell) -> anyhow::Result<()> {
    let (seq, interrupt) = (context.new_sequence()?, Interrupt::install()?);
    let mut printer = Printer::new(&mut shell.out, &interrupt, true);
    let text = generate(context, seq, ids, &how.params, &mut |event| printer.event(event))?;
    printer.finish(&text)?;
    conclude(&text, how)
}

fn conclude(generated: &Generated, how: &How) -> anyhow::Result<()> {
    if how.with_timings {
        printer::timings(generated);
    }
    Ok(printer::check_complete(generated)?)
}
