//! Contexts of one model share backends: whatever the others do meanwhile, each computes what it computes alone.

#![allow(clippy::unwrap_used, clippy::print_stderr, reason = "a test may panic and says what it skips")]

mod common;

use std::sync::{Arc, Barrier};

use common::*;
use minfer_engine::{Context, ContextParams, Model};

/// Two threads, so that the contexts really meet in the pool.
fn params() -> ContextParams {
    ContextParams { n_threads: Some(2), ..small() }
}

/// Logits after each of some tokens, read two at a time and then one by one.
fn work(context: &mut Context, first: u32) -> Vec<Vec<u32>> {
    let tokens: Vec<u32> = (first..first + 24).collect();
    let seq = context.new_sequence().unwrap();
    let mut rows = all_logits(context, seq, &tokens[..12], 2);
    rows.extend(all_logits(context, seq, &tokens[12..], 1));
    context.free_sequence(seq);
    rows.into_iter().map(|row| row.into_iter().map(f32::to_bits).collect()).collect()
}

fn side_by_side(model: &Arc<Model>, node_by_node: bool) {
    let firsts = [3, 40, 77];
    let alone = firsts.map(|first| work(&mut context(model, &params()), first));
    assert!(alone[0] != alone[1] && alone[1] != alone[2]);
    let start = Barrier::new(firsts.len());
    std::thread::scope(|scope| {
        for (first, alone) in firsts.into_iter().zip(&alone) {
            let mut context = context(model, &params());
            if node_by_node {
                // Then another graph may run between any two nodes.
                context.scheduler_mut().enable_profile();
            }
            let start = &start;
            scope.spawn(move || {
                start.wait();
                for _ in 0..4 {
                    assert!(work(&mut context, first) == *alone, "company changes bits");
                }
            });
        }
    });
}

#[test]
fn contexts_on_several_threads_do_not_meet() {
    for name in COMMITTED {
        let model = load(&data().join(format!("{name}.gguf")));
        side_by_side(&model, false);
        side_by_side(&model, true);
    }
}

#[test]
fn a_context_lives_on_when_those_it_shared_with_are_gone() {
    let model = load(&data().join(format!("{}.gguf", COMMITTED[0])));
    let mut first = context(&model, &params());
    let mut second = context(&model, &params());
    let expected = work(&mut first, 5);
    drop(first);
    assert!(work(&mut second, 5) == expected);
    drop(second);
    assert!(work(&mut context(&model, &params()), 5) == expected);
}
