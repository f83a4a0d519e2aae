//! `minfer run`: an answer, a text that goes on, or a conversation.
//!
//! Everything that can be wrong with what was typed is found before the weights are read: [`opening`] turns it into the
//! first thing that the model will read, then [`speaker`] generates and shows, once or as often as [`conversation`] wants.

mod conversation;
mod history;
mod keeper;
mod line;
mod lock;
mod opening;
mod speaker;

use std::path::Path;

use minfer_hub::DEFAULT_MODEL;

use crate::args::RunArgs;
use crate::error::CliError;
use crate::input::Source;
use crate::shell::Shell;
use crate::{engine, files, printer};

use keeper::Keeper;
use lock::SessionLock;
use opening::Opening;
use speaker::{Settings, Speaker};

pub(super) fn run(args: RunArgs, shell: &mut Shell) -> anyhow::Result<()> {
    let selection = args.model.select(args.prompt.argument.as_deref())?;
    let source = args.prompt.source(selection.rest)?;
    let model = engine::load(selection.model.as_deref().unwrap_or(DEFAULT_MODEL), &args.model.open)?;
    let grammar = args.grammar.compile(&model)?;
    let lock = args.session.as_deref().map(|path| claim(path, args.session_ro)).transpose()?;
    let settings = Settings {
        params: args.sampling.params(),
        grammar: grammar.clone(),
        with_prompt: args.verbose_prompt,
        with_timings: !args.no_timings,
    };
    let only_draws =
        args.context.dump.is_wanted() && source == Source::Stdin && settings.params.n_predict == Some(0);
    let opening =
        if only_draws { None } else { Some(Opening::prepare(&model, source, args.chat, grammar, shell)?) };
    let guesses = (&args.sampling.speculation, &args.model.open);
    let mut context = engine::for_requests(&model, &args.context, guesses, 1, shell)?;
    let Some(opening) = opening else { return Ok(()) };
    engine::load_weights(&mut context, shell)?;
    let keeper = Keeper { path: args.session, is_read_only: args.session_ro, _lock: lock.flatten() };
    let spoken =
        Speaker::new(&mut context, settings, keeper, shell).and_then(|speaker| speak(opening, speaker));
    let finished = engine::finish(&mut context, &args.context.compute, shell);
    spoken?;
    finished
}

/// Makes sure that nothing else of this run, and no other run, writes the session.
fn claim(path: &Path, is_read_only: bool) -> Result<Option<SessionLock>, CliError> {
    if is_read_only {
        files::reads(path, "the session")?;
        return Ok(None);
    }
    files::writes(path, "the session")?;
    SessionLock::take(path)
}

fn speak(opening: Opening, mut speaker: Speaker<'_>) -> anyhow::Result<()> {
    let answer = match opening {
        Opening::Text(ids) => speaker.go_on(&ids)?,
        Opening::Question(mut conversation) => speaker.answer(&mut conversation)?,
        Opening::Conversation(conversation) => return conversation::hold(conversation, speaker),
    };
    Ok(printer::check_complete(&answer)?)
}
