//! Grammars: what an answer must look like, enforced token by token.
//!
//! A [`Grammar`] is compiled for a model ([`Model::compile_grammar`](crate::Model::compile_grammar)), and every request that
//! uses it gets a constraint of its own: a parser that follows the answer and says which tokens may come next. The parser is
//! `llguidance`'s; what is ours is what surrounds it:
//! - `vocabulary`: the model's tokens as bytes, shared by all grammars of a model and built when the first one is compiled;
//! - `schema`: a JSON Schema is enforced whole or refused, with the keyword and the place;
//! - `gbnf`: llama.cpp's grammars, rewritten as Lark;
//! - `compile`: bounds for grammars that come from strangers;
//! - `constraint`, with `closing` and `digits`: the answer is closed in time, and numbers end.
//!
//! Nothing is ever enforced by half: what cannot be is an error before anything runs.

mod closing;
mod compile;
mod compose;
mod constraint;
mod digits;
mod error;
mod gbnf;
mod regex;
mod schema;
mod vocabulary;

use serde_json::Value;

pub use compile::CompiledGrammar;
pub(crate) use compile::GrammarCompiler;
pub use compose::Part;
pub use error::{GrammarError, GrammarKind};
pub use gbnf::to_lark as gbnf_to_lark;

/// What an answer must look like.
///
/// ```
/// use minfer_engine::Grammar;
/// use serde_json::json;
///
/// let schema = Grammar::JsonSchema(json!({
///     "type": "object",
///     "properties": { "name": { "type": "string" }, "age": { "type": "integer", "minimum": 0 } },
///     "required": ["name", "age"],
///     "additionalProperties": false,
/// }));
/// let yes_or_no = Grammar::Gbnf(r#"root ::= "yes" | "no""#.into());
/// # assert_ne!(schema, yes_or_no);
/// ```
#[derive(Clone, Debug, PartialEq)]
pub enum Grammar {
    /// Any JSON object.
    JsonObject,
    /// JSON that a schema describes.
    JsonSchema(Value),
    /// A text that a regular expression matches whole, in the syntax of the `regex` crate, without anchors and
    /// look-around.
    Regex(String),
    /// A text that the rule `start` of a grammar in llguidance's dialect of Lark derives.
    Lark(String),
    /// A text that the rule `root` of a grammar in llama.cpp's GBNF derives.
    Gbnf(String),
    /// Parts, one after the other.
    Composed(Vec<Part>),
}

impl Grammar {
    /// A grammar as llama.cpp's users write it: GBNF, or Lark if the text begins with `%llguidance`.
    pub fn from_text(text: &str) -> Grammar {
        let is_lark = text.trim_start().starts_with("%llguidance");
        if is_lark { Grammar::Lark(text.into()) } else { Grammar::Gbnf(text.into()) }
    }

    /// In which language it is written.
    pub fn kind(&self) -> GrammarKind {
        match self {
            Grammar::JsonObject | Grammar::JsonSchema(_) => GrammarKind::JsonSchema,
            Grammar::Regex(_) => GrammarKind::Regex,
            Grammar::Lark(_) | Grammar::Composed(_) => GrammarKind::Lark,
            Grammar::Gbnf(_) => GrammarKind::Gbnf,
        }
    }
}
