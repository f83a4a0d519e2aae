//! A graph at any stage as text, DOT and JSON, and the difference between two; the same decisions that a run makes, since
//! they come from the same passes.

mod census;
mod diff;
mod dot;
mod fields;
mod json;
mod memory;
mod payload;
mod text;
mod view;

pub use census::{census, split_map};
pub use diff::{Change, GraphDiff, diff};
pub use dot::dot;
pub use json::{JSON_SCHEMA_VERSION, json};
pub use memory::{MEMORY_SCHEMA_VERSION, memory};
pub use text::{TEXT_VERSION, text};
pub use view::{Snapshot, View};
