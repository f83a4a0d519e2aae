//! Why a grammar was refused.

use std::fmt;

/// The languages that grammars are written in.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum GrammarKind {
    /// JSON Schema.
    JsonSchema,
    /// A regular expression.
    Regex,
    /// Lark.
    Lark,
    /// GBNF.
    Gbnf,
}

impl fmt::Display for GrammarKind {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(match self {
            GrammarKind::JsonSchema => "JSON schema",
            GrammarKind::Regex => "regular expression",
            GrammarKind::Lark => "Lark grammar",
            GrammarKind::Gbnf => "GBNF grammar",
        })
    }
}

/// A grammar cannot be enforced. Nothing has run.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
#[non_exhaustive]
pub enum GrammarError {
    /// A keyword of a schema.
    #[error("the JSON schema cannot be enforced: '{keyword}' at {path}: {reason}")]
    Keyword {
        /// The keyword.
        keyword: String,
        /// Where in the schema, as a JSON pointer that begins with `#`.
        path: String,
        /// What is wrong with it.
        reason: String,
    },
    /// Something else about a schema.
    #[error("the JSON schema cannot be enforced: {reason}")]
    Schema {
        /// What is wrong.
        reason: String,
    },
    /// A grammar that cannot be read.
    #[error("the {kind} is wrong at line {line}, column {column}: {reason}")]
    Syntax {
        /// The language.
        kind: GrammarKind,
        /// Line, from 1.
        line: usize,
        /// Column in characters, from 1.
        column: usize,
        /// What is wrong.
        reason: String,
    },
    /// A grammar that can be read, and not used.
    #[error("the {kind} cannot be used: {reason}")]
    Unusable {
        /// The language.
        kind: GrammarKind,
        /// Why not.
        reason: String,
    },
    /// A grammar beyond the bounds.
    #[error("the {kind} is too large: {what} is {found}, the limit is {limit}")]
    TooLarge {
        /// The language.
        kind: GrammarKind,
        /// What is too large.
        what: &'static str,
        /// How large it is.
        found: usize,
        /// How large it may be.
        limit: usize,
    },
    /// The model's tokens cannot be used with grammars.
    #[error("the model's vocabulary cannot be used with grammars: {reason}")]
    Vocabulary {
        /// Why not.
        reason: String,
    },
}
