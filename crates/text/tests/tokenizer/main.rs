//! Tokenizers against the recorded answers of Hugging Face `tokenizers`, by hand-made vocabularies, and with metadata
//! that lies.

mod fixtures;
mod hostile;
mod made_up;
mod properties;
mod rules;
mod support;
mod tiny;
