//! The best element of a column, as the sampler defines it: the first among equals, and what is no number before everything.

#![allow(clippy::unwrap_used, reason = "a test may panic")]

mod common;

use std::sync::Arc;

use common::{Random, params};
use minfer_graph::testing::MapWeights;
use minfer_graph::{
    BuildError, ComputeGraph, DType, GraphBuilder, GraphParams, InputData, KvType, Policy, Registry,
    Scheduler,
};

/// Columns of one length, each with its best place.
fn columns(d: usize) -> Vec<(Vec<f32>, usize)> {
    let (inf, nan) = (f32::INFINITY, f32::from_bits(0x7fc0_0001));
    let random = |seed| Random::new(seed).units(d);
    let with = |values: &[(usize, f32)], mut base: Vec<f32>, best: usize| {
        values.iter().for_each(|(i, v)| base[*i] = *v);
        (base, best)
    };
    let first_of = |x: &[f32]| x.iter().position(|v| x.iter().all(|w| v >= w)).unwrap();
    let mut all: Vec<_> = (1..5).map(|seed| (random(seed), first_of(&random(seed)))).collect();
    if d <= 130 {
        // The places below would meet.
        return all;
    }
    all.extend([
        with(&[(3, 2.0), (67, 2.0), (130, 2.0)], random(5), 3),
        with(&[(130, 2.0), (66, 2.0)], random(6), 66),
        with(&[(5, -0.0), (6, 0.0)], vec![-1.0; d], 5),
        with(&[(70, 0.0), (71, -0.0)], vec![-1e-40; d], 70),
        with(&[(9, -3e38)], vec![-inf; d], 9),
        (vec![-inf; d], 0),
        (vec![0.25; d], 0),
        with(&[(90, nan), (91, inf), (4, 3e38)], random(7), 90),
        with(&[(64, inf), (65, nan)], random(8), 64),
        with(&[(64, -nan), (1, 9.0)], random(9), 64),
        with(&[(1, 1e-40), (2, 2e-40), (3, 2e-40)], vec![-1.0; d], 2),
    ]);
    all
}

#[test]
fn the_best_is_what_the_sampler_takes() {
    let Some(driver) = common::dyn_driver() else { return };
    for d in [1, 2, 63, 64, 65, 131, 1000, 49_152] {
        let columns = columns(d);
        let n = columns.len();
        let source = move |_: &GraphParams, _: &Policy<'_>| -> Result<ComputeGraph, BuildError> {
            let mut b = GraphBuilder::new();
            let x = b.input("x", [d, n, 1, 1], DType::F32);
            let out = b.argmax("best", x);
            b.output(out);
            b.finish()
        };
        let mut registry = Registry::new();
        registry.register(driver.clone());
        let mut scheduler = Scheduler::new(registry, Arc::new(MapWeights::new(1)), Vec::new());
        let x: Vec<f32> = columns.iter().flat_map(|c| c.0.iter().copied()).collect();
        let mut out = vec![0.0; 2 * n];
        let inputs = [("x", InputData::F32(&x))];
        scheduler.step(&source, &params(n, KvType::F32, 1), &inputs, &mut out, None).unwrap();
        for (i, ((column, place), found)) in columns.iter().zip(out.chunks(2)).enumerate() {
            let expected = (*place as f32, column[*place].to_bits());
            assert_eq!((found[0], found[1].to_bits()), expected, "column {i} of {d}");
        }
    }
}

#[test]
fn the_same_holds_at_other_subgroup_widths() {
    common::at_other_widths("the_best_is_what_the_sampler_takes");
}
