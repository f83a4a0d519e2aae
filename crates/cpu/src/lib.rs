//! The CPU backend: kernels, weight packing and the thread pool.

pub mod buf;
pub mod isa;
pub mod matmul;
pub mod pool;
pub mod threads;
