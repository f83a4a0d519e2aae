//! Backends for tests: one that does nothing, one that computes everything plainly in its own host memory,
//! and one with a changed kernel; and the test that every backend must pass.

mod matrix;
mod null;
mod reference;
mod tampered;
mod weights;

pub use matrix::check_ops;
pub use null::NullDriver;
pub use reference::ReferenceDriver;
pub use tampered::TamperedDriver;
pub use weights::MapWeights;
