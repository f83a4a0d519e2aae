//! The CPU backend: kernels, weight packing and the thread pool.

mod backend;
pub mod buf;
mod error;
mod features;
pub mod isa;
pub mod limits;
mod math;
pub mod matmul;
pub mod ops;
mod packed_cache;
pub mod pool;
mod simd;
#[cfg(test)]
mod testing;
pub mod threads;

pub use backend::{CpuDriver, CpuError, CpuOptions};
pub use error::KernelError;
pub use features::cpu_features;
pub use packed_cache::{FilePart, PackedCacheOptions};
