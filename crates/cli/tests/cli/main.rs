//! The real binary, run as a user runs it.

#![allow(clippy::unwrap_used, clippy::print_stderr, reason = "helpers of tests may, like the tests")]

mod ab;
mod batch;
mod bench;
mod draft;
mod files;
mod grammar;
mod graph;
mod hostile;
mod info;
mod listing;
mod numbers;
mod packed;
mod pipes;
mod plan;
mod profile;
mod reference;
mod render;
mod run;
mod schema;
mod selftest;
#[cfg(unix)]
mod serve;
mod session;
mod support;
mod terminal;
mod tokenize;
mod verify;
mod viz;
mod wrong_input;
