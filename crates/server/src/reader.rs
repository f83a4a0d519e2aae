//! Tells the parts of an answer's text apart: thoughts, the answer itself, calls of tools.

use crate::answer::Delta;

/// Reads the text of one answer as it comes.
#[derive(Debug, Default)]
pub enum Reader {
    /// All of it is the answer.
    #[default]
    Plain,
}

impl Reader {
    /// Takes more text; gives what can be told of it now.
    pub fn push(&mut self, text: &str) -> Vec<Delta> {
        match self {
            Reader::Plain if text.is_empty() => Vec::new(),
            Reader::Plain => vec![Delta::Content(text.to_owned())],
        }
    }

    /// Gives what was held back, at the end of the text.
    pub fn finish(&mut self) -> Vec<Delta> {
        match self {
            Reader::Plain => Vec::new(),
        }
    }

    /// Whether a tool was called.
    pub fn calls_tools(&self) -> bool {
        match self {
            Reader::Plain => false,
        }
    }
}
