//! Tokenizers against the recorded answers of Hugging Face `tokenizers`, hostile metadata, and streams.

mod fixtures;
mod support;
mod tiny;
