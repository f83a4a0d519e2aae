//! What a line of a conversation means.

/// One line that was typed.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(super) enum Line {
    /// Something to say to the model.
    Say(String),
    /// Nothing.
    Empty,
    /// Begin anew; the system message stays.
    Clear,
    /// Answer the last message once more.
    Regen,
    /// Set the system message, or remove it.
    System(Option<String>),
    /// List the commands.
    Help,
    /// End the conversation.
    Exit,
    /// A command that there is not.
    Unknown(String),
}

/// What `/help` shows.
pub(super) const HELP: &str = "\
/clear         begin anew; the system message stays
/regen         answer the last message once more
/system TEXT   set the system message; without TEXT, remove it
/exit          end (also Ctrl-D, or Ctrl-C twice)
Ctrl-C         stop an answer
\\              at the end of a line: go on in the next one
//...          say something that begins with a slash";

impl Line {
    /// Reads a line: a command if it begins with a slash.
    pub(super) fn parse(line: &str) -> Self {
        if line.trim().is_empty() {
            return Self::Empty;
        }
        let Some(command) = line.strip_prefix('/') else { return Self::Say(line.to_owned()) };
        if command.starts_with('/') {
            return Self::Say(command.to_owned());
        }
        let (name, rest) = command.split_once(char::is_whitespace).unwrap_or((command, ""));
        match (name, rest.trim()) {
            ("clear", "") => Self::Clear,
            ("regen", "") => Self::Regen,
            ("system", text) => Self::System((!text.is_empty()).then(|| text.to_owned())),
            ("help" | "?", "") => Self::Help,
            ("exit" | "quit" | "bye", "") => Self::Exit,
            _ => Self::Unknown(line.trim().to_owned()),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn lines_are_told_apart() {
        for (line, want) in [
            ("  ", Line::Empty),
            ("  Hi /exit\nand ", Line::Say("  Hi /exit\nand ".into())),
            (" /exit", Line::Say(" /exit".into())),
            ("//etc/passwd", Line::Say("/etc/passwd".into())),
            ("/clear ", Line::Clear),
            ("/regen", Line::Regen),
            ("/system  Be brief. ", Line::System(Some("Be brief.".into()))),
            ("/system", Line::System(None)),
            ("/?", Line::Help),
            ("/quit", Line::Exit),
            ("/clear all", Line::Unknown("/clear all".into())),
            ("/etc/passwd", Line::Unknown("/etc/passwd".into())),
        ] {
            assert_eq!(Line::parse(line), want, "{line:?}");
        }
    }
}
