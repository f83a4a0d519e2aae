//! The CPU backend: kernels, weight packing and the thread pool.
