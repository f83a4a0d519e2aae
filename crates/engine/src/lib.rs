//! The library that applications embed: load, run, sample, generate.

pub mod npz;
pub mod sampler;
pub mod stop;
