//! The end of `minfer --help`: exit codes and environment variables, written from the tables that the program runs on.

use std::fmt::Write;

use crate::env::VARIABLES;
use crate::fault::FAULTS;

/// Exit codes and environment variables.
pub(super) fn epilogue() -> String {
    let mut text = String::from(
        "Exit codes:\n    0  done; also when the reader of the output went away\n    1  a comparison found a difference, or a check a fault\n",
    );
    for (fault, meaning) in FAULTS {
        // Writing to a string cannot fail.
        let _ = writeln!(text, "  {:3}  {meaning}", fault.exit_code());
    }
    text.push_str("\nEnvironment variables (empty counts as unset; a flag beats its variable):\n");
    for variable in VARIABLES {
        let _ =
            writeln!(text, "  {:<25}  {}", format!("{}={}", variable.name, variable.value), variable.help);
    }
    text.truncate(text.trim_end().len());
    text
}
