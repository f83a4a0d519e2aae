//! The server over HTTP, as clients see it.
#![allow(clippy::unwrap_used, clippy::print_stderr, reason = "a test may panic and says what it skips")]

mod anthropic;
mod chat;
mod completions;
mod constrained;
mod embeddings;
mod forms;
mod graph;
mod llama_cpp;
mod loading;
mod malformed;
mod manners;
mod ollama;
mod pages;
mod replies;
mod responses;
mod stopping;
mod support;
mod tls;
mod tools;
