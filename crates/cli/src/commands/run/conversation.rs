//! A conversation on a terminal. The cache is appended to: only what is new in a prompt is read.

use minfer_engine::{Context, Conversation, SeqId};
use minfer_text::tokenizer::EncodeOptions;
use rustyline::DefaultEditor;
use rustyline::error::ReadlineError;

use super::How;
use super::line::{HELP, Line};
use crate::error::CliError;
use crate::fault::Fault;
use crate::interrupt::Interrupt;
use crate::printer::{self, Printer};
use crate::shell::Shell;
use crate::{prompt, report};

const PROMPT: &str = "> ";

/// Asks and answers until the user has had enough.
pub(super) fn hold(
    conversation: Conversation,
    context: &mut Context,
    how: &How,
    shell: &mut Shell,
) -> anyhow::Result<()> {
    let mut editor = DefaultEditor::new().map_err(unusable_terminal)?;
    let interrupt = Interrupt::install()?;
    let seq = context.new_sequence()?;
    let mut talk = Talk { conversation, context, seq, how, interrupt, shell };
    report::note("/help lists the commands, /exit or Ctrl-D ends");
    loop {
        match editor.readline(PROMPT) {
            Ok(line) => {
                let line = line.trim_end();
                // A history that takes no more lines is no reason to stop.
                let _ = editor.add_history_entry(line);
                match Line::parse(line) {
                    Line::Exit => return Ok(()),
                    line => talk.take(line)?,
                }
            }
            // Ctrl-C at the prompt drops the line, as in a shell.
            Err(ReadlineError::Interrupted) => {}
            Err(ReadlineError::Eof) => return Ok(()),
            Err(error) => return Err(unusable_terminal(error).into()),
        }
    }
}

fn unusable_terminal(error: ReadlineError) -> CliError {
    CliError::Setup { action: "read from the terminal", reason: error.to_string() }
}

struct Talk<'a> {
    conversation: Conversation,
    context: &'a mut Context,
    seq: SeqId,
    how: &'a How,
    interrupt: Interrupt,
    shell: &'a mut Shell,
}

impl Talk<'_> {
    fn take(&mut self, line: Line) -> anyhow::Result<()> {
        match line {
            Line::Empty | Line::Exit => Ok(()),
            Line::Say(text) => self.say(&text),
            Line::Clear => {
                self.conversation.clear();
                Ok(())
            }
            Line::Regen => self.regenerate(),
            Line::System(text) => {
                self.conversation.set_system(text.as_deref());
                Ok(())
            }
            Line::Help => {
                report::lines(HELP);
                Ok(())
            }
            Line::Unknown(command) => {
                report::warning(format_args!("unknown command '{command}'; /help lists them"));
                Ok(())
            }
        }
    }

    fn say(&mut self, text: &str) -> anyhow::Result<()> {
        prompt::encode(self.context.model().tokenizer(), text, EncodeOptions::default(), self.shell)?;
        self.conversation.push("user", text);
        self.reply(|conversation| {
            conversation.pop("user");
        })
    }

    fn regenerate(&mut self) -> anyhow::Result<()> {
        let Some(old) = self.conversation.pop("assistant") else {
            report::warning("there is no answer yet");
            return Ok(());
        };
        self.reply(|conversation| conversation.push("assistant", old["content"].as_str().unwrap_or_default()))
    }

    /// Answers the last message. A request that cannot be served is told, undone, and ends nothing.
    fn reply(&mut self, undo: impl FnOnce(&mut Conversation)) -> anyhow::Result<()> {
        self.interrupt.reset();
        let mut printer = Printer::new(&mut self.shell.out, &self.interrupt, true);
        let sink = &mut |event: minfer_engine::Event<'_>| printer.event(event);
        let error = match self.conversation.reply(self.context, self.seq, &self.how.params, sink) {
            Ok(answer) => {
                printer.finish(&answer)?;
                if self.how.with_timings {
                    printer::timings(&answer);
                }
                return Ok(());
            }
            Err(error) => anyhow::Error::from(error),
        };
        if Fault::of(&error) != Fault::Request {
            return Err(error);
        }
        undo(&mut self.conversation);
        report::error(&error, false);
        Ok(())
    }
}
