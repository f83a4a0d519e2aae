//! The arena: as large as the largest graph, and never larger than it may be.

#![allow(clippy::unwrap_used, reason = "a test may panic")]

mod common;

use common::*;
use minfer_graph::{Arena, Backend, Compiled, KernelFault, compile};

/// A graph whose values are `n` times as large as those of `chain(1)`, all on the CPU.
fn chain(n: usize) -> Compiled {
    let mut params = params(n);
    params.cparams.gpu = None;
    let source = build_with(|b, x| {
        let y = (0..4).fold(x, |y, i| b.scale(&format!("s{i}"), y, 2.0));
        b.add("sum", y, x)
    });
    compile(&source, &params, &null_registry(&[]), &mut |_, _| {}).unwrap()
}

#[test]
fn smaller_graphs_fit_where_the_largest_does() {
    let registry = null_registry(&[]);
    let mut arena = Arena::default();
    arena.reserve(Backend::CPU, chain(1024).plan.bytes(Backend::CPU), &registry).unwrap();
    let reserved = arena.bytes(Backend::CPU);
    for n in (1..=1024).rev().chain(1..=1024) {
        arena.lay_out(&chain(n).plan, &registry).unwrap();
        assert_eq!(arena.bytes(Backend::CPU), reserved, "a step of {n}");
    }
    arena.lay_out(&chain(2048).plan, &registry).unwrap();
    assert!(arena.bytes(Backend::CPU) > reserved);
}

#[test]
fn buffers_of_one_graph_never_overlap_in_however_many_chunks() {
    let registry = null_registry(&[]);
    let mut arena = Arena::default();
    for n in [1, 300, 1000, 4000] {
        let compiled = chain(n);
        let layout = arena.lay_out(&compiled.plan, &registry).unwrap();
        let mut ranges: Vec<_> = Vec::new();
        for key in compiled.plan.buffers() {
            let (chunk, start) = layout.get(key).unwrap();
            assert!(start + key.bytes <= chunk.bytes());
            let address = std::sync::Arc::as_ptr(&chunk).cast::<()>() as usize;
            ranges.push((address, start, start + key.bytes));
        }
        ranges.sort_unstable();
        assert!(ranges.len() > 1);
        assert!(ranges.windows(2).all(|w| w[0].0 != w[1].0 || w[0].2 <= w[1].1), "{ranges:?}");
    }
}

#[test]
fn what_is_over_the_limit_is_refused_and_the_rest_goes_on() {
    let registry = null_registry(&[]);
    let mut arena = Arena::default();
    let (small, large) = (chain(2), chain(5000));
    arena.set_limit(small.plan.bytes(Backend::CPU) + 4096);
    arena.lay_out(&small.plan, &registry).unwrap();
    let refused = arena.lay_out(&large.plan, &registry).err().unwrap();
    assert_eq!(refused.backend, Backend::CPU);
    assert!(matches!(refused.fault, KernelFault::OutOfMemory { .. }), "{refused}");
    arena.lay_out(&small.plan, &registry).unwrap();
    assert_eq!(arena.bytes(Backend::CPU), small.plan.bytes(Backend::CPU));
}
