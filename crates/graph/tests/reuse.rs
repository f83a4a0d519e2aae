//! Params are the identity of a graph: equal ones reuse it whole, different ones never do.

#![allow(clippy::unwrap_used, reason = "a test may panic")]

mod common;

use common::*;
use minfer_graph::{Backend, BackendSet, InputData, Scheduler, StepError};

fn step(s: &mut Scheduler, p: &minfer_graph::GraphParams) -> Vec<f32> {
    let x = vec![0.5; D * p.n_tokens];
    let mut out = vec![0.0; D * p.n_tokens];
    s.step(&build_with(silu_mul), p, &[("x", InputData::F32(&x))], &mut out, None).unwrap();
    out
}

#[test]
fn a_second_step_builds_plans_and_prepares_nothing() {
    let mut s = Scheduler::new(reference_registry(&[]), no_weights(), vec![]);
    let first = step(&mut s, &params(2));
    let before = s.counters();
    let second = step(&mut s, &params(2));
    let after = s.counters();
    assert_eq!(first, second);
    assert_eq!((before.built, before.planned, before.prepared), (1, 1, 1));
    assert_eq!((after.built, after.planned, after.prepared, after.executed), (1, 1, 1, 2));
}

#[test]
fn several_graphs_stay_ready() {
    let mut s = Scheduler::new(reference_registry(&[]), no_weights(), vec![]);
    for n in [1, 2, 3, 1, 2, 3] {
        step(&mut s, &params(n));
    }
    assert_eq!(s.counters().built, 3);
}

#[test]
fn fuse_flags_are_part_of_the_reuse_identity() {
    let mut s = Scheduler::new(reference_registry(&[]), no_weights(), vec![]);
    let base = params(2);
    let (mut qkv, mut ffn) = (base, base);
    qkv.cparams.fuse_qkv = false;
    ffn.cparams.fuse_ffn = false;
    assert!(base != qkv && base != ffn && qkv != ffn);
    for p in [base, qkv, ffn, base] {
        step(&mut s, &p);
    }
    assert_eq!(s.counters().built, 3);
}

#[test]
fn toggling_a_backend_forces_a_rebuild() {
    let mut s = Scheduler::new(reference_registry(&[]), no_weights(), vec![]);
    let on = params(2);
    let mut off = on;
    off.cparams.backends = BackendSet::CPU_ONLY;
    let with_device = step(&mut s, &on);
    let without = step(&mut s, &off);
    assert_eq!(with_device, without);
    assert_eq!(s.counters().built, 2);
    assert_eq!(s.compiled(&on).unwrap().graph.nodes[1].backend, Some(Backend::METAL));
    assert_eq!(s.compiled(&off).unwrap().graph.nodes[1].backend, Some(Backend::CPU));
}

#[test]
fn inputs_of_the_wrong_name_size_or_number_are_refused() {
    let mut s = Scheduler::new(reference_registry(&[]), no_weights(), vec![]);
    let mut out = vec![0.0; 2 * D];
    let mut attempt = |inputs: &[(&str, InputData<'_>)]| {
        let e = s.step(&build_with(silu_mul), &params(2), inputs, &mut out, None).unwrap_err();
        assert!(matches!(e, StepError::Input { .. }));
        e.to_string()
    };
    let x = vec![0.0; 2 * D];
    assert_eq!(attempt(&[]), "input '': the graph has 1 inputs, 0 were given");
    assert_eq!(attempt(&[("y", InputData::F32(&x))]), "input 'x': 'y' was given in its place");
    assert_eq!(attempt(&[("x", InputData::F32(&x[1..]))]), "input 'x': takes 16 of f32, was given 15 of f32");
    assert_eq!(
        attempt(&[("x", InputData::I32(&[0; 16]))]),
        "input 'x': takes 16 of f32, was given 16 of i32"
    );
}
