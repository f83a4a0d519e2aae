//! Who owns what, and that it is final.

#![allow(clippy::unwrap_used, reason = "a test may panic")]

mod common;

use std::sync::Arc;

use common::*;
use minfer_graph::testing::NullDriver;
use minfer_graph::{
    Backend, BackendSet, CompileError, DType, GraphBuilder, GraphParams, Op, OpKind, Policy, Reason,
    Registry, compile,
};

fn owners(p: &GraphParams, registry: &Registry) -> Vec<(String, Backend)> {
    let c = compile(&build_with(silu_mul), p, registry, &mut |_, _| {}).unwrap();
    c.graph.nodes.iter().map(|n| (n.name.to_string(), n.backend.unwrap())).collect()
}

#[test]
fn the_first_willing_backend_in_priority_order_gets_the_node() {
    let mut registry = null_registry(&[OpKind::Silu]);
    registry.register(Arc::new(NullDriver::new(Backend::CUDA)));
    let c = compile(&build_with(silu_mul), &params(2), &registry, &mut |_, _| {}).unwrap();
    assert_eq!(c.graph.by_name("0.gate").unwrap().backend, Some(Backend::METAL));
    let silu = c.graph.by_name("0.silu").unwrap();
    assert_eq!(silu.backend, Some(Backend::CPU), "CUDA holds no part of the model");
    let refusals = vec![
        (Backend::METAL, "refused by the test"),
        (Backend::CUDA, "does not hold this part of the model"),
    ];
    assert_eq!(c.reasons[silu.id.index()], Reason::Chosen(refusals));
}

#[test]
fn a_backend_outside_the_set_gets_nothing() {
    let mut p = params(2);
    p.cparams.backends = BackendSet::CPU_ONLY;
    assert!(owners(&p, &null_registry(&[])).iter().all(|(_, b)| *b == Backend::CPU));
}

#[test]
fn a_device_takes_only_the_layers_it_holds() {
    let mut p = params(2);
    p.cparams.gpu.as_mut().unwrap().n_layers = 0;
    let owners = owners(&p, &null_registry(&[]));
    assert!(owners.iter().all(|(name, b)| (*b == Backend::METAL) == (name == "x")), "{owners:?}");
    let mut none = params(2);
    none.cparams.gpu = None;
    assert!(self::owners(&none, &null_registry(&[])).iter().all(|(_, b)| *b == Backend::CPU));
}

#[test]
fn explicit_assignment_is_kept() {
    let source = |p: &GraphParams, policy: &Policy<'_>| {
        let mut graph = build_with(silu_mul)(p, policy)?;
        graph.nodes[1].backend = Some(Backend::CPU);
        Ok(graph)
    };
    let c = compile(&source, &params(2), &null_registry(&[]), &mut |_, _| {}).unwrap();
    assert_eq!(c.graph.nodes[1].backend, Some(Backend::CPU));
    assert_eq!(c.reasons[1], Reason::Explicit);
    assert_eq!(c.graph.nodes[2].backend, Some(Backend::METAL));
}

#[test]
fn views_follow_their_source() {
    let registry = null_registry(&[OpKind::View, OpKind::Reshape]);
    let source = |p: &GraphParams, _: &Policy<'_>| {
        let mut b = GraphBuilder::new();
        let x = b.input("x", [D, p.n_tokens, 1, 1], DType::F32);
        b.set_layer(Some(0));
        let y = b.scale("y", x, 2.0);
        let v = b.view("v", y, D, [D, 1, 1, 1]);
        let s = b.silu("s", v);
        b.output(s);
        b.finish()
    };
    // The device refuses views, so a graph that needs one there is a defect that the verifier names.
    let error = compile(&source, &params(2), &registry, &mut |_, _| {}).unwrap_err();
    assert!(matches!(error, CompileError::Verify(_)), "{error}");
    let c = compile(&source, &params(2), &null_registry(&[]), &mut |_, _| {}).unwrap();
    assert_eq!(c.reasons[2], Reason::FollowsSource);
    assert_eq!(c.plan.buffer(c.graph.nodes[2].id, Backend::METAL).unwrap().1, D * 4);
}

#[test]
fn what_nobody_can_run_is_an_error_with_every_refusal() {
    let mut registry = Registry::new();
    registry.register(Arc::new(NullDriver::new(Backend::CPU).refusing(&[OpKind::Silu])));
    let error = compile(&build_with(silu_mul), &params(2), &registry, &mut |_, _| {}).unwrap_err();
    assert_eq!(error.to_string(), "no backend can run node '0.silu' (Silu): cpu: refused by the test");
}

#[test]
fn a_shape_mistake_is_reported_once_with_the_node() {
    let source = |_: &GraphParams, _: &Policy<'_>| {
        let mut b = GraphBuilder::new();
        let x = b.input("x", [D, 2, 1, 1], DType::F32);
        let y = b.input("y", [D, 3, 1, 1], DType::F32);
        let z = b.add("z", x, y);
        b.output(z);
        b.finish()
    };
    let error = compile(&source, &params(2), &null_registry(&[]), &mut |_, _| {}).unwrap_err();
    assert_eq!(error.to_string(), "node 'z' (Add): source 1 should be [8, 2, 1, 1], is [8, 3, 1, 1]");
}

#[test]
fn a_claim_about_a_fused_kernel_is_the_owners() {
    let matmul = Op::MatMul;
    let p = params(1);
    for (refused, claimed) in [(&[][..], true), (&[OpKind::FusedFfn][..], false)] {
        let registry = null_registry(refused);
        let policy = Policy::new(&registry, &p.cparams);
        let types = [minfer_gguf::TensorType::F32];
        assert_eq!(policy.claims_fused(&Op::FusedFfn, &matmul, &types, Some(0)).is_yes(), claimed);
    }
}
