//! What can go wrong with a chat template, told apart by whose fault it is.

use minfer_gguf::MetadataError;
use minijinja::{Error, ErrorKind};

/// Why a chat template was refused or did not render.
#[derive(Debug, thiserror::Error)]
#[non_exhaustive]
pub enum TemplateError {
    /// The model has no chat template.
    #[error("the model has no chat template (metadata key 'tokenizer.chat_template')")]
    Missing,
    /// The metadata that should hold the template holds something else.
    #[error(transparent)]
    Metadata(#[from] MetadataError),
    /// The template is longer than any template may be.
    #[error("the chat template has {n_bytes} bytes, more than {limit}")]
    TooLong {
        /// Length of the template.
        n_bytes: usize,
        /// The most that is accepted.
        limit: usize,
    },
    /// The template is not Jinja as this renderer knows it.
    #[error("chat template, line {line}: {construct}")]
    Syntax {
        /// What is wrong, naming the construct.
        construct: String,
        /// Line of the template, from 1.
        line: usize,
    },
    /// Every rendering would need something that does not exist here.
    #[error("chat template, line {line}: unknown {kind} '{name}'")]
    Unknown {
        /// What is missing.
        kind: Construct,
        /// Its name.
        name: String,
        /// Line of the template, from 1.
        line: usize,
    },
    /// The template refused the conversation by calling `raise_exception`.
    #[error("{message}")]
    Raised {
        /// The template's own words.
        message: String,
    },
    /// A request value is nested too deeply.
    #[error("messages, tools or template arguments are nested more than {limit} levels deep")]
    InputTooDeep {
        /// The most levels that are accepted.
        limit: usize,
    },
    /// Rendering would take too many steps or produce too much text.
    #[error("chat template, line {line}: {detail}")]
    Limit {
        /// Which limit was met.
        detail: String,
        /// Line of the template, from 1; 0 if it is not known.
        line: usize,
    },
    /// An expression failed for this conversation.
    #[error("chat template, line {line}: {detail}")]
    Render {
        /// What failed.
        detail: String,
        /// Line of the template, from 1; 0 if it is not known.
        line: usize,
    },
}

/// A kind of name that a template refers to.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
#[allow(missing_docs, reason = "the variants are the constructs their names say")]
pub enum Construct {
    Filter,
    Test,
    Function,
    Method,
}

impl std::fmt::Display for Construct {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.write_str(match self {
            Self::Filter => "filter",
            Self::Test => "test",
            Self::Function => "function",
            Self::Method => "method",
        })
    }
}

/// Carries the message of `raise_exception` through the engine.
#[derive(Debug, thiserror::Error)]
#[error("{0}")]
pub(super) struct RaisedByTemplate(pub(super) String);

/// Marks an error that comes from a limit of this module rather than of the engine.
#[derive(Debug, thiserror::Error)]
#[error("{0}")]
pub(super) struct LimitReached(pub(super) &'static str);

impl TemplateError {
    /// The error of a template that does not parse.
    pub(super) fn from_parse(error: &Error) -> Self {
        Self::Syntax { construct: detail_of(error), line: error.line().unwrap_or(0) }
    }

    /// The error of a rendering.
    pub(super) fn from_render(error: &Error) -> Self {
        if let Some(RaisedByTemplate(message)) = find_cause(error) {
            return Self::Raised { message: message.clone() };
        }
        let line = error.line().unwrap_or(0);
        if let Some(LimitReached(what)) = find_cause(error) {
            return Self::Limit { detail: (*what).to_owned(), line };
        }
        let detail = detail_of(error);
        match error.kind() {
            ErrorKind::OutOfFuel => Self::Limit { detail, line },
            _ => Self::Render { detail, line },
        }
    }
}

fn detail_of(error: &Error) -> String {
    match error.detail() {
        Some(detail) => format!("{}: {detail}", error.kind()),
        None => error.kind().to_string(),
    }
}

fn find_cause<T: std::error::Error + 'static>(error: &Error) -> Option<&T> {
    let mut next: Option<&(dyn std::error::Error + 'static)> = std::error::Error::source(error);
    while let Some(cause) = next {
        if let Some(found) = cause.downcast_ref() {
            return Some(found);
        }
        next = cause.source();
    }
    None
}
