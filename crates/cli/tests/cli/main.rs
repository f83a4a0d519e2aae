//! The real binary, run as a user runs it.

#![allow(clippy::unwrap_used, clippy::print_stderr, reason = "helpers of tests may, like the tests")]

mod hostile;
mod info;
mod listing;
mod pipes;
mod reference;
mod render;
mod support;
mod tokenize;
mod wrong_input;
