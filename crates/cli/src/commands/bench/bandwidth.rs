//! How fast this machine reads memory: the limit of generation, which reads every weight once for each token.

use std::time::Instant;

use minfer_cpu::isa::Isa;
use minfer_cpu::limits;

/// What is read: well over the caches of most machines.
const BUFFER_BYTES: usize = 512 << 20;
/// Passes over it; the fastest counts.
const N_PASSES: usize = 5;

/// Bytes per second that `n_threads` threads read together; `None` if there is no memory to try it with.
pub(super) fn measure(n_threads: usize, isa: Option<&str>) -> Option<f64> {
    let isa = isa.and_then(|name| Isa::from_name(name).ok()).unwrap_or_else(Isa::detect);
    let mut buffer = Vec::new();
    buffer.try_reserve_exact(BUFFER_BYTES).ok()?;
    buffer.resize(BUFFER_BYTES, 1u8);
    let seconds = (0..N_PASSES).map(|_| pass(&buffer, n_threads, isa)).fold(f64::INFINITY, f64::min);
    (seconds > 0.0).then(|| BUFFER_BYTES as f64 / seconds)
}

/// Seconds for one pass, each thread over a part of its own.
fn pass(buffer: &[u8], n_threads: usize, isa: Isa) -> f64 {
    let start = Instant::now();
    std::thread::scope(|scope| {
        for part in buffer.chunks(buffer.len().div_ceil(n_threads.max(1))) {
            scope.spawn(move || limits::read(isa, part));
        }
    });
    start.elapsed().as_secs_f64()
}
