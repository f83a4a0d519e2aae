//! The GPU backend over wgpu: the engine `metal` on macOS, `vulkan` elsewhere.
//!
//! The same WGSL kernels and the same host code run on every device; what differs between devices (limits, subgroup sizes,
//! optional features) is asked for and never assumed. Results on one device are a function of the model and the tokens:
//! every kernel fixes the order of its additions, whatever the number of tokens in a step. Tolerances against the scalar
//! reference are stated in the op matrix test.
//!
//! Nothing is touched before [`adapters`] or [`WgpuDriver::open`] is called: a process that uses only the CPU loads no
//! graphics library.

mod backend;
mod device;
mod error;
mod kernels;

pub use backend::{BACKEND, WgpuDriver, refusals};
pub use device::{Adapter, Counts, DeviceKind, Faults, WgpuOptions, adapters};
pub use error::DeviceError;
