//! A conversation on a terminal. The cache is appended to: only what is new in a prompt is read.

use minfer_engine::{Conversation, EngineError};
use rustyline::DefaultEditor;
use rustyline::error::ReadlineError;

use super::history::History;
use super::line::{HELP, Line};
use super::speaker::Speaker;
use crate::error::CliError;
use crate::fault::Fault;
use crate::report;

const PROMPT: &str = "> ";
/// Before a line that goes on from one that ended with a backslash.
const MORE: &str = "| ";

/// Asks and answers until the user has had enough.
pub(super) fn hold(conversation: Conversation, speaker: Speaker<'_>) -> anyhow::Result<()> {
    let mut talk = Talk { conversation, speaker };
    if talk.conversation.messages().last().is_some_and(|message| message["role"] == "user") {
        talk.reply(pop_question)?;
    }
    report::note("/help lists the commands, /exit or Ctrl-D ends");
    let mut keyboard = Keyboard::open()?;
    while let Some(text) = keyboard.read()? {
        match Line::parse(&text) {
            Line::Exit => break,
            line => talk.take(line)?,
        }
    }
    Ok(())
}

/// What is typed.
struct Keyboard {
    editor: DefaultEditor,
    history: History,
}

impl Keyboard {
    fn open() -> Result<Self, CliError> {
        let mut editor = DefaultEditor::new().map_err(unusable_terminal)?;
        let history = History::load(&mut editor);
        Ok(Self { editor, history })
    }

    /// The next text, of one or more lines; `None` at the end, by Ctrl-D or by Ctrl-C twice.
    fn read(&mut self) -> Result<Option<String>, CliError> {
        let (mut text, mut wants_out) = (String::new(), false);
        loop {
            let prompt = if text.is_empty() { PROMPT } else { MORE };
            match self.editor.readline(prompt) {
                Ok(line) => match line.strip_suffix('\\') {
                    Some(line) => text.extend([line, "\n"]),
                    None => {
                        text.push_str(&line);
                        self.history.add(&mut self.editor, &text);
                        return Ok(Some(text));
                    }
                },
                Err(ReadlineError::Interrupted) if wants_out => return Ok(None),
                Err(ReadlineError::Interrupted) => {
                    (text, wants_out) = (String::new(), true);
                    report::note("Ctrl-C once more ends");
                }
                Err(ReadlineError::Eof) => return Ok(None),
                Err(error) => return Err(unusable_terminal(error)),
            }
        }
    }
}

fn unusable_terminal(error: ReadlineError) -> CliError {
    CliError::Setup { action: "read from the terminal", reason: error.to_string() }
}

struct Talk<'a> {
    conversation: Conversation,
    speaker: Speaker<'a>,
}

impl Talk<'_> {
    fn take(&mut self, line: Line) -> anyhow::Result<()> {
        match line {
            Line::Empty | Line::Exit => {}
            Line::Say(text) => return self.say(&text),
            Line::Clear => self.conversation.clear(),
            Line::Regen => return self.regenerate(),
            Line::System(text) => self.conversation.set_system(text.as_deref()),
            Line::Help => report::lines(HELP),
            Line::Unknown(command) => {
                report::warning(format_args!("unknown command '{command}'; /help lists them"));
            }
        }
        Ok(())
    }

    fn say(&mut self, text: &str) -> anyhow::Result<()> {
        self.speaker.check_bytes(text)?;
        self.conversation.push("user", text);
        self.reply(pop_question)
    }

    fn regenerate(&mut self) -> anyhow::Result<()> {
        let Some(old) = self.conversation.pop("assistant") else {
            report::warning("there is no answer yet");
            return Ok(());
        };
        self.reply(|conversation| conversation.push("assistant", old["content"].as_str().unwrap_or_default()))
    }

    /// Answers the last message. A request that cannot be served is told and undone, and the conversation goes on.
    fn reply(&mut self, undo: impl FnOnce(&mut Conversation)) -> anyhow::Result<()> {
        let Err(error) = self.speaker.answer(&mut self.conversation) else { return Ok(()) };
        if Fault::of(&error) != Fault::Request {
            return Err(error);
        }
        undo(&mut self.conversation);
        report::error(&error, false);
        if matches!(error.downcast_ref(), Some(EngineError::ContextFull { .. })) {
            report::hint("/clear begins anew");
        }
        Ok(())
    }
}

fn pop_question(conversation: &mut Conversation) {
    conversation.pop("user");
}
