//! The library that applications embed: load, run, sample, generate.

pub mod sampler;
pub mod stop;
