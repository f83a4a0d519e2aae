//! Op × type: the CPU runs what it claims, with the right numbers, and cannot run what it does not claim.

#![allow(clippy::unwrap_used, reason = "a test may panic")]

use std::sync::Arc;

use minfer_cpu::{CpuDriver, CpuOptions};
use minfer_graph::testing::check_ops;

/// Int8 activations, half-precision cache.
const TOLERANCE: f32 = 0.02;

#[test]
fn the_cpu_runs_what_it_claims_and_nothing_else() {
    let options = CpuOptions { n_threads: Some(2), ..CpuOptions::default() };
    check_ops(Arc::new(CpuDriver::new(&options).unwrap()), TOLERANCE);
}
