//! Tokenizers and chat templates from GGUF metadata.

pub mod tokenizer;
