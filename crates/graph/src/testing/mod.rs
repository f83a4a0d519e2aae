//! Backends for tests: one that does nothing, and one that computes everything plainly in its own host memory.

mod null;
mod reference;
mod weights;

pub use null::NullDriver;
pub use reference::ReferenceDriver;
pub use weights::MapWeights;
