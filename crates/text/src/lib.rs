//! Tokenizers and chat templates from GGUF metadata.

#![forbid(unsafe_code)]

pub mod chat;
pub mod reply;
pub mod tokenizer;
