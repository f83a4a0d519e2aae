//! The server over HTTP, as clients see it.
#![allow(clippy::unwrap_used, reason = "a test that cannot go on should say where")]

mod chat;
mod completions;
mod graph;
mod manners;
mod support;
