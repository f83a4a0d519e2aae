//! Replies read as they come: reasoning, content, tool calls.
#![allow(clippy::unwrap_used, clippy::print_stderr)]

#[path = "../common/mod.rs"]
mod common;
mod cuts;
mod fixtures;
mod formats;
mod support;
mod tokens;
