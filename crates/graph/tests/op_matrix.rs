//! Op × type: the reference backend runs what it claims and cannot run what it does not claim.

use std::sync::Arc;

use minfer_graph::Backend;
use minfer_graph::testing::{ReferenceDriver, check_ops};

#[test]
fn the_reference_backend_runs_what_it_claims_and_nothing_else() {
    check_ops(Arc::new(ReferenceDriver::new(Backend::CPU)), 0.0);
}
