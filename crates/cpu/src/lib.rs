//! The CPU backend: kernels, weight packing and the thread pool.

pub mod buf;
mod error;
pub mod isa;
pub mod limits;
mod math;
pub mod matmul;
pub mod ops;
pub mod pool;
mod simd;
#[cfg(test)]
mod testing;
pub mod threads;

pub use error::KernelError;
