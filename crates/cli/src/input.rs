//! Text and JSON that a command reads: from an argument, a file or standard input.

use std::fs::File;
use std::io::{self, IsTerminal, Read};
use std::path::{Path, PathBuf};

use crate::error::CliError;
use crate::files;
use crate::report;

/// The most that is read of anything, in bytes; the tokenizer takes no longer text.
const MAX_BYTES: u64 = 1 << 30;
/// The file name that means standard input.
const STDIN_NAME: &str = "-";

/// Where a text comes from.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) enum Source {
    /// It is on the command line.
    Argument(String),
    /// It is in a file.
    File(PathBuf),
    /// It comes in on standard input.
    Stdin,
}

impl Source {
    /// A text given as an argument or by a flag, or in a file, else on standard input; twice is an error.
    pub(crate) fn of(
        argument: Option<String>,
        flag: Option<String>,
        file: Option<PathBuf>,
    ) -> Result<Self, CliError> {
        let extra = |argument, flag| CliError::ExtraArgument { argument, what: "text", flag };
        match (argument, flag, file) {
            (Some(argument), Some(_), _) => Err(extra(argument, "-p")),
            (Some(argument), None, Some(_)) => Err(extra(argument, "-f")),
            (Some(text), None, None) | (None, Some(text), _) => Ok(Self::Argument(text)),
            (None, None, Some(path)) => Ok(Self::file(path)),
            (None, None, None) => Ok(Self::Stdin),
        }
    }

    /// A file, or standard input by the name `-`.
    pub(crate) fn file(path: PathBuf) -> Self {
        if path == Path::new(STDIN_NAME) { Self::Stdin } else { Self::File(path) }
    }

    /// The text, byte for byte.
    pub(crate) fn read(self) -> Result<String, CliError> {
        let origin = self.origin();
        let bytes = match self {
            Self::Argument(text) => return Ok(text),
            Self::File(path) => {
                files::reads(&path, "the input")?;
                read_file(&path).map_err(CliError::read_file(&path))?
            }
            Self::Stdin => read_stdin().map_err(CliError::ReadStdin)?,
        };
        if bytes.len() as u64 > MAX_BYTES {
            return Err(CliError::TooLong { origin, limit: MAX_BYTES });
        }
        String::from_utf8(bytes).map_err(|error| {
            let valid_up_to = error.utf8_error().valid_up_to();
            CliError::NotUtf8 { origin, valid_up_to }
        })
    }

    /// The text of a prompt: of a file or standard input without the line break at its end, which editors and `echo` put
    /// there.
    pub(crate) fn read_prompt(self) -> Result<String, CliError> {
        let is_literal = matches!(self, Self::Argument(_));
        let mut text = self.read()?;
        if !is_literal && text.ends_with('\n') {
            text.pop();
            text.truncate(text.strip_suffix('\r').map_or(text.len(), str::len));
        }
        Ok(text)
    }

    /// The JSON value that the text is.
    pub(crate) fn read_json(self) -> Result<serde_json::Value, CliError> {
        let origin = self.origin();
        serde_json::from_str(&self.read()?).map_err(|source| CliError::Json { origin, source })
    }

    /// What to call it in an error.
    pub(crate) fn origin(&self) -> String {
        match self {
            Self::Argument(_) => "the argument".to_owned(),
            Self::File(path) => path.display().to_string(),
            Self::Stdin => "standard input".to_owned(),
        }
    }
}

fn read_file(path: &Path) -> io::Result<Vec<u8>> {
    read_all(File::open(path)?)
}

fn read_stdin() -> io::Result<Vec<u8>> {
    let stdin = io::stdin();
    if stdin.is_terminal() {
        report::note("reading from the terminal; end with Ctrl-D on an empty line");
    }
    read_all(stdin.lock())
}

/// Everything, or one byte more than is allowed.
fn read_all(from: impl Read) -> io::Result<Vec<u8>> {
    let mut bytes = Vec::new();
    from.take(MAX_BYTES + 1).read_to_end(&mut bytes)?;
    Ok(bytes)
}
