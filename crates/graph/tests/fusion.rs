//! The fusion pass: when it fires, when it must not, and that numbers stay.

#![allow(clippy::unwrap_used, reason = "a test may panic")]

mod common;

use common::*;
use minfer_graph::{Backend, InputData, Op, OpKind, Scheduler, fuse};

fn op_of<'a>(c: &'a minfer_graph::Compiled, name: &str) -> &'a Op {
    &c.graph.by_name(&format!("0.{name}")).unwrap().op
}

#[test]
fn swiglu_fusion_applies_when_backend_supports() {
    for swapped in [false, true] {
        let c = compiled(&null_registry(&[]), |b, x| {
            let up = b.scale("up", x, 2.0);
            let silu = b.silu("silu", x);
            if swapped { b.mul("mul", up, silu) } else { b.mul("mul", silu, up) }
        });
        let mul = c.graph.by_name("0.mul").unwrap();
        assert_eq!(mul.op, Op::SwiGlu);
        let sources: Vec<_> = mul.src.iter().map(|s| c.graph.node(*s).name.to_string()).collect();
        assert_eq!(sources, ["x", "0.up"], "the gate comes first whatever the order of the product");
        assert_eq!(c.fusions[0].refused, None);
    }
}

#[test]
fn swiglu_fusion_skipped_when_backend_does_not_support() {
    let c = compiled(&null_registry(&[OpKind::SwiGlu]), silu_mul);
    assert_eq!(c.graph.by_name("0.mul").unwrap().backend, Some(Backend::METAL));
    assert_eq!(*op_of(&c, "mul"), Op::Mul);
    assert_eq!(c.fusions[0].refused, Some("refused by the test"));
}

#[test]
fn swiglu_fusion_skipped_when_the_silu_is_read_elsewhere() {
    let c = compiled(&null_registry(&[]), |b, x| {
        let silu = b.silu("silu", x);
        let mul = b.mul("mul", silu, x);
        b.add("both", mul, silu)
    });
    assert_eq!(*op_of(&c, "mul"), Op::Mul);
    assert_eq!(c.fusions[0].refused, Some("an inner value has another consumer"));
}

#[test]
fn swiglu_fusion_skipped_when_the_silu_is_an_output() {
    let c = compiled(&null_registry(&[]), |b, x| {
        let silu = b.silu("silu", x);
        b.output(silu);
        b.mul("mul", silu, x)
    });
    assert_eq!(*op_of(&c, "mul"), Op::Mul);
    assert_eq!(c.fusions[0].refused, Some("an inner value is an output"));
}

#[test]
fn swiglu_fusion_skipped_across_backends() {
    let c = compiled(&null_registry(&[OpKind::Silu]), silu_mul);
    assert_eq!(c.graph.by_name("0.silu").unwrap().backend, Some(Backend::CPU));
    assert_eq!(c.fusions[0].refused, Some("the pattern spans two backends"));
}

#[test]
fn unassigned_nodes_are_never_fused() {
    let registry = null_registry(&[]);
    let p = params(2);
    let policy = minfer_graph::Policy::new(&registry, &p.cparams);
    let mut graph = build_with(silu_mul)(&p, &policy).unwrap();
    let records = fuse(&mut graph, &registry);
    assert_eq!(records[0].refused, Some("the node has no owner"));
    assert_eq!(graph.by_name("0.mul").unwrap().op, Op::Mul);
}

#[test]
fn fusion_is_idempotent() {
    let registry = null_registry(&[]);
    let c = compiled(&registry, silu_mul);
    let mut again = c.graph.clone();
    assert_eq!(fuse(&mut again, &registry), []);
    assert_eq!(again.nodes, c.graph.nodes);
}

#[test]
fn a_rewrite_keeps_ids_shapes_and_count() {
    let fused = compiled(&null_registry(&[]), silu_mul);
    let plain = compiled(&null_registry(&[OpKind::SwiGlu]), silu_mul);
    assert_eq!(fused.graph.nodes.len(), plain.graph.nodes.len());
    for (a, b) in fused.graph.nodes.iter().zip(&plain.graph.nodes) {
        assert_eq!((a.id, &a.name, a.out_shape), (b.id, &b.name, b.out_shape));
    }
}

#[test]
fn orphans_get_no_buffer_and_are_skipped() {
    let c = compiled(&null_registry(&[]), silu_mul);
    let silu = c.graph.by_name("0.silu").unwrap();
    assert!(!c.live[silu.id.index()]);
    assert_eq!(c.plan.placement(silu.id, Backend::METAL), None);
    assert!(c.splits.iter().all(|s| !s.nodes.contains(&silu.id)));
    assert!(c.graph.by_name("0.gate").is_some_and(|n| c.live[n.id.index()]));
}

#[test]
fn swiglu_matches_silu_then_mul() {
    let run = |refused: &[OpKind]| {
        let mut s = Scheduler::new(reference_registry(refused), no_weights(), vec![]);
        let x: Vec<f32> = (0..2 * D).map(|i| (i as f32 - 7.3) * 0.71).collect();
        let mut out = vec![0.0; 2 * D];
        s.step(&build_with(silu_mul), &params(2), &[("x", InputData::F32(&x))], &mut out, None).unwrap();
        out
    };
    let (fused, plain) = (run(&[]), run(&[OpKind::SwiGlu]));
    assert_eq!(fused, plain);
    assert!(fused.iter().any(|v| v.abs() > 1.0));
}
