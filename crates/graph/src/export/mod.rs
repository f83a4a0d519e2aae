//! A compiled graph as text, DOT and JSON; the same decisions that a run makes, since they come from the same passes.

mod dot;
mod json;
mod text;

pub use dot::dot;
pub use json::{JSON_SCHEMA_VERSION, json};
pub use text::{census, split_map};
