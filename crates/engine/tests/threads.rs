//! Decode steps and steps that read prompts have threads of their own number, and no others work in them.

#![allow(clippy::unwrap_used, clippy::print_stderr, reason = "a test may panic and says what it skips")]

mod common;

use std::collections::BTreeSet;

use common::*;
use minfer_engine::{Context, ContextParams, Row};
use minfer_graph::{Timeline, Track};

/// Sequences that generate together: enough for the ops of a tiny model to be shared out.
const N_SEQS: usize = 24;
/// Tokens of a prompt, for the same reason.
const N_PROMPT: u32 = 96;
/// Steps within which every thread that may work has done so once.
const MAX_STEPS: usize = 2000;

/// A context of so many threads for decode steps and for prompts.
fn with_threads(n_threads: usize, n_threads_batch: usize) -> Context {
    let model = load(&data().join("qwen2-tied-q4_0.gguf"));
    let params = ContextParams {
        n_threads: Some(n_threads),
        n_threads_batch: Some(n_threads_batch),
        n_seq_max: N_SEQS,
        ..small()
    };
    let mut context = context(&model, &params);
    assert_eq!((context.n_threads(), context.n_threads_batch()), (n_threads, n_threads_batch));
    context.scheduler_mut().enable_timeline();
    context
}

/// The threads that work in a step, gathered over steps until there are `n_wanted` or there will be no more.
fn workers(context: &mut Context, rows: &dyn Fn(&mut Context) -> Vec<Row>, n_wanted: usize) -> BTreeSet<u16> {
    // Thread 0 runs the step; what it does alone is not told of.
    let mut threads = BTreeSet::from([0]);
    for step in 0..MAX_STEPS {
        let rows = rows(context);
        context.step(&rows).unwrap();
        rows.iter().for_each(|row| context.free_sequence(row.seq));
        let timeline = context.scheduler_mut().set_timeline(Some(Timeline::default())).unwrap();
        threads.extend(timeline.events().filter_map(|event| match event.track {
            Track::Thread(_, thread) => Some(thread),
            _ => None,
        }));
        if threads.len() >= n_wanted && step >= 20 {
            break;
        }
    }
    threads
}

fn decode(context: &mut Context) -> Vec<Row> {
    (0..N_SEQS as u32)
        .map(|token| Row { seq: context.new_sequence().unwrap(), token, wants_logits: true })
        .collect()
}

fn prompt(context: &mut Context) -> Vec<Row> {
    let seq = context.new_sequence().unwrap();
    (0..N_PROMPT).map(|token| Row { seq, token, wants_logits: token + 1 == N_PROMPT }).collect()
}

/// A chunk of a prompt, and a sequence that generates.
fn mixed(context: &mut Context) -> Vec<Row> {
    let mut rows = prompt(context);
    rows.push(Row { seq: context.new_sequence().unwrap(), token: 1, wants_logits: true });
    rows
}

#[test]
fn each_kind_of_step_has_its_threads() {
    for (n_threads, n_threads_batch) in [(1, 3), (3, 1), (2, 3)] {
        let mut context = with_threads(n_threads, n_threads_batch);
        for _ in 0..2 {
            let all = |n: usize| (0..n as u16).collect::<BTreeSet<_>>();
            assert_eq!(workers(&mut context, &prompt, n_threads_batch), all(n_threads_batch), "a prompt");
            assert_eq!(workers(&mut context, &decode, n_threads), all(n_threads), "decode steps");
            assert_eq!(workers(&mut context, &mixed, n_threads_batch), all(n_threads_batch), "a mixed step");
        }
    }
}
