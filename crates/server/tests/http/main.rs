//! The server over HTTP, as clients see it.
#![allow(clippy::unwrap_used, reason = "a test that cannot go on should say where")]

mod anthropic;
mod chat;
mod completions;
mod graph;
mod constrained;
mod embeddings;
mod forms;
mod llama_cpp;
mod malformed;
mod manners;
mod ollama;
mod replies;
mod responses;
mod pages;
mod support;
mod tls;
mod tools;
