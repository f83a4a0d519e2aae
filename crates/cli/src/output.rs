//! Standard output: the one place that writes to it.
//!
//! Contract: a reader that goes away (`minfer info MODEL | head -1`) ends the command quietly with exit code 0, as
//! ripgrep does: the reader has what it wanted, and a shell with `pipefail` should not see a failure. Every other failure
//! to write is an error of the machine.
//!
//! Trap: `std` ignores the signal that would end the process here, so each write has to be checked; hence [`Out`] is the
//! only handle, and the lint table forbids `println!`.

use std::error::Error;
use std::io::{self, BufWriter, ErrorKind, IsTerminal, Stdout, Write};

use crate::escape;

/// What a command exits with when the reader of its output has gone.
pub(crate) const CLOSED_PIPE_EXIT_CODE: u8 = 0;

/// Buffered standard output. Every error of it carries a [`StdoutError`], which tells it from other failures of I/O.
pub(crate) struct Out(BufWriter<Stdout>);

/// Standard output could not be written.
#[derive(Debug, thiserror::Error)]
#[error("cannot write to standard output: {0}")]
pub(crate) struct StdoutError(#[source] io::Error);

impl Out {
    pub(crate) fn new() -> Self {
        Self(BufWriter::with_capacity(64 << 10, io::stdout()))
    }

    /// Whether a person is looking on.
    pub(crate) fn is_terminal(&self) -> bool {
        self.0.get_ref().is_terminal()
    }

    /// Writes text as it is. On a terminal it is made to end in a line break, so that the prompt starts a line of its own;
    /// elsewhere not a byte is added.
    pub(crate) fn exact(&mut self, text: &str) -> io::Result<()> {
        self.write_all(text.as_bytes())?;
        if self.is_terminal() && !text.ends_with('\n') { self.write_all(b"\n") } else { Ok(()) }
    }

    /// Writes a piece of an answer, and hands it over at once. On a terminal what a model says can move no cursor and
    /// change no title; elsewhere its bytes stay as they are.
    pub(crate) fn piece(&mut self, text: &str) -> io::Result<()> {
        if self.is_terminal() {
            self.write_all(escape::text(text).as_bytes())?;
        } else {
            self.write_all(text.as_bytes())?;
        }
        self.flush()
    }

    /// Writes `value` as JSON over several lines.
    pub(crate) fn json(&mut self, value: &impl serde::Serialize) -> anyhow::Result<()> {
        serde_json::to_writer_pretty(&mut *self, value).map_err(io::Error::from)?;
        Ok(writeln!(self)?)
    }

    /// Hands over everything written so far. To be called at the end: what `Drop` could not write would be lost silently.
    pub(crate) fn finish(&mut self) -> anyhow::Result<()> {
        Ok(self.flush()?)
    }
}

impl Write for Out {
    fn write(&mut self, bytes: &[u8]) -> io::Result<usize> {
        self.0.write(bytes).map_err(mark)
    }

    fn flush(&mut self) -> io::Result<()> {
        self.0.flush().map_err(mark)
    }
}

fn mark(error: io::Error) -> io::Error {
    io::Error::new(error.kind(), StdoutError(error))
}

/// Whether `error` says that the reader of standard output has gone.
pub(crate) fn is_closed_pipe(error: &anyhow::Error) -> bool {
    stdout_failure(error).is_some_and(|kind| kind == ErrorKind::BrokenPipe)
}

/// How standard output failed, if that is what `error` is about.
pub(crate) fn stdout_failure(error: &anyhow::Error) -> Option<ErrorKind> {
    let io = error.chain().find_map(|cause| cause.downcast_ref::<io::Error>())?;
    let inner: &(dyn Error + 'static) = io.get_ref()?;
    inner.is::<StdoutError>().then(|| io.kind())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn only_standard_output_can_be_a_closed_pipe() {
        let broken = || io::Error::from(ErrorKind::BrokenPipe);
        assert!(is_closed_pipe(&anyhow::Error::from(mark(broken())).context("writing")));
        assert!(!is_closed_pipe(&broken().into()));
        let full = anyhow::Error::from(mark(ErrorKind::StorageFull.into()));
        assert!(!is_closed_pipe(&full));
        assert_eq!(stdout_failure(&full), Some(ErrorKind::StorageFull));
    }
}
