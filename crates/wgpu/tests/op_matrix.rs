//! Op × type: the device runs what it claims, with the right numbers, and cannot run what it does not claim.

mod common;

use minfer_graph::testing::check_ops;

/// Half-precision cache: 2^-11 for each element, which the sums of positive values here do not magnify; everything else is
/// computed in f32.
const TOLERANCE: f32 = 1e-3;

#[test]
fn the_device_runs_what_it_claims_and_nothing_else() {
    if let Some(driver) = common::dyn_driver() {
        check_ops(driver, TOLERANCE);
    }
}

#[test]
fn the_same_holds_at_other_subgroup_widths() {
    common::at_other_widths("the_device_runs_what_it_claims_and_nothing_else");
}
