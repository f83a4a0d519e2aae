//! What goes to standard error: one line for what is wrong, one for what to do about it.
//!
//! Nothing here can fail: when standard error is closed there is nobody left to tell.

use std::fmt::Display;
use std::io::Write;
use std::panic::{self, PanicHookInfo};

use owo_colors::{OwoColorize, Style};

use crate::fault::Fault;
use crate::{escape, hint};

/// Longest message, in characters: text out of a model file may be of any length.
const MAX_MESSAGE_CHARS: usize = 2000;

/// `error: ...`, `hint: ...`, and with `verbose` the causes below.
pub(crate) fn error(error: &anyhow::Error, verbose: bool) {
    line("error", Style::new().red().bold(), error);
    for cause in error.chain().skip(1).filter(|_| verbose) {
        line("caused by", Style::new().red(), cause);
    }
    if let Some(hint) = hint::of(error) {
        self::hint(hint);
    }
}

/// `warning: ...`
pub(crate) fn warning(message: impl Display) {
    line("warning", Style::new().yellow().bold(), message);
}

/// `hint: ...`
pub(crate) fn hint(message: impl Display) {
    line("hint", Style::new().cyan().bold(), message);
}

/// A line without a label, for what is neither wrong nor odd.
pub(crate) fn note(message: impl Display) {
    let _ = writeln!(anstream::stderr(), "{}", escape::one_line(&message.to_string()));
}

/// Several lines, as a report of the graph has them.
pub(crate) fn lines(text: &str) {
    text.lines().for_each(note);
}

fn line(label: &str, style: Style, message: impl Display) {
    let message = escape::elided(&message.to_string(), MAX_MESSAGE_CHARS);
    let _ = writeln!(anstream::stderr(), "{}{} {message}", label.style(style), ":".style(style));
}

/// Prints what the parser has to say, be it an error or the help that was asked for; gives the exit code.
pub(crate) fn parser_answer(answer: &clap::Error) -> u8 {
    // A closed pipe under `minfer --help | head -1` is no error, and nothing else can be said on a closed stream.
    let _ = answer.print();
    u8::try_from(answer.exit_code()).unwrap_or(Fault::Usage.exit_code())
}

/// Makes a panic say one line and a hint; with `RUST_BACKTRACE` set, all that Rust has to say about it.
pub(crate) fn shorten_panics() {
    let default = panic::take_hook();
    panic::set_hook(Box::new(move |info| {
        if std::env::var_os("RUST_BACKTRACE").is_some() {
            default(info);
        }
        line("error", Style::new().red().bold(), format_args!("internal error {}", what_and_where(info)));
        hint(hint::REPORT);
    }));
}

fn what_and_where(info: &PanicHookInfo<'_>) -> String {
    let at = info.location().map(|at| format!("at {}:{}: ", at.file(), at.line())).unwrap_or_default();
    at + info.payload_as_str().unwrap_or("no message")
}
