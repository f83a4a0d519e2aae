//! A model name to a local file.
