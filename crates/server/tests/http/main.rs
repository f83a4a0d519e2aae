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
mod malformed;
mod manners;
mod ollama;
mod pages;
mod replies;
mod responses;
mod support;
mod tls;
mod tools;
