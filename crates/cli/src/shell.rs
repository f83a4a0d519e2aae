//! What every command gets: the environment, standard output, and a way to warn.

use crate::env::Env;
use crate::output::Out;
use crate::report;

/// The surroundings of a command.
pub(crate) struct Shell {
    /// What the environment variables say.
    pub(crate) env: Env,
    /// Standard output.
    pub(crate) out: Out,
    /// Whether the user wants to know more.
    pub(crate) verbose: bool,
    /// What the command exits with when nothing went wrong: 1 says that a comparison found a difference.
    pub(crate) exit_code: u8,
}

impl Shell {
    pub(crate) fn new(env: Env, verbose: bool) -> Self {
        Self { env, out: Out::new(), verbose, exit_code: 0 }
    }

    /// Tells of something that is odd and does not stop the command; on standard error.
    pub(crate) fn warn(&self, message: &str) {
        report::warning(message);
    }
}
