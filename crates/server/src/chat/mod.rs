//! A conversation, in no dialect, and how it becomes prompts.
//!
//! Every dialect reads its requests into a [`ChatRequest`] and writes what comes of [`open`] in its own way.

mod constraint;
mod open;
mod request;
mod tagged;
mod templates;

pub(crate) use open::{blocking, prepare};
pub use open::{chat_jobs, open, prompt_jobs};
pub use request::{ChatRequest, ResponseFormat, Settings, Tool, ToolChoice};
pub use templates::Templates;
