//! The plan: what a context says it takes, against what the process then takes.

#![allow(clippy::unwrap_used, clippy::print_stderr, reason = "a test may panic and says what it skips")]

mod common;

use std::sync::{Mutex, MutexGuard, PoisonError};

use common::*;
use minfer_engine::memory::{LimitSource, Plan, PlanPart};
use minfer_engine::{Context, ContextParams, EngineError, Fault, Row};
use minfer_graph::Backend;

/// The figures are those of the whole process, so the tests take turns.
fn alone() -> MutexGuard<'static, ()> {
    static TURN: Mutex<()> = Mutex::new(());
    TURN.lock().unwrap_or_else(PoisonError::into_inner)
}

/// A figure of `/proc/self/status`, in bytes.
fn status(name: &str) -> Option<usize> {
    let text = std::fs::read_to_string("/proc/self/status").ok()?;
    let line = text.lines().find(|l| l.starts_with(name))?;
    Some(line.split_whitespace().nth(1)?.parse::<usize>().ok()? << 10)
}

/// Forgets the peak so far, where the system can.
fn reset_peak() -> bool {
    std::fs::write("/proc/self/clear_refs", "5").is_ok() && status("VmHWM:").is_some()
}

/// Fills the context and the cache of graphs: a full chunk, chunks of many sizes, decode steps of several sequences.
fn work(context: &mut Context, params: &ContextParams) {
    let n_vocab = context.model().n_vocab() as u32;
    let seqs: Vec<_> = (0..params.n_seq_max).map(|_| context.new_sequence().unwrap()).collect();
    let n_outputs = params.n_outputs_max.unwrap_or(params.n_seq_max);
    let mut n_steps = 0;
    for (s, &seq) in seqs.iter().enumerate() {
        let mut left = context.n_ctx() - 4;
        while left > 0 {
            let n = left.min(if n_steps == 0 { params.n_ubatch } else { n_steps % 40 + 1 });
            n_steps += 1;
            let rows: Vec<Row> = (0..n)
                .map(|i| Row {
                    seq,
                    token: (i * 7 + s) as u32 % n_vocab,
                    wants_logits: i >= n - n.min(n_outputs),
                })
                .collect();
            context.step(&rows).unwrap();
            left -= n;
        }
    }
    for n in 1..=seqs.len().min(4) {
        let rows: Vec<Row> = seqs[..n].iter().map(|&seq| Row { seq, token: 1, wants_logits: true }).collect();
        context.step(&rows).unwrap();
    }
}

#[test]
fn a_real_model_stays_within_its_plan() {
    let _turn = alone();
    for file in ["smollm2-135m-instruct-q4_1.gguf", "qwen2.5-coder-0.5b-instruct-q4_k_m.gguf"] {
        let Some(path) = real(file) else { continue };
        for (n_ctx, n_seq_max, n_ubatch) in [(512, 1, 256), (128, 8, 128)] {
            let model = load(&path);
            let params = ContextParams { n_ctx, n_seq_max, n_ubatch, ..ContextParams::default() };
            if !reset_peak() {
                eprintln!("skipped: this system does not tell the peak");
                return;
            }
            let mut context = context(&model, &params);
            work(&mut context, &params);
            let (planned, peak) = (context.planned_bytes(), status("VmHWM:").unwrap());
            let (mib, over) = (1 << 20, planned as f64 / peak as f64);
            eprintln!(
                "{file} {n_ctx}x{n_seq_max}: planned {} MiB, peak {} MiB, {over:.3}",
                planned / mib,
                peak / mib
            );
            assert!(peak <= planned, "the plan of {planned} is exceeded: {peak}");
            // A plan that promises nothing would hold, too.
            assert!(over < 1.25, "the plan of {planned} is far above what is taken: {peak}");
        }
    }
}

#[test]
fn no_smaller_step_takes_more_than_the_plan() {
    let _turn = alone();
    for name in COMMITTED {
        let model = load(&data().join(format!("{name}.gguf")));
        let params = ContextParams { n_ctx: 128, n_seq_max: 3, n_ubatch: 96, ..ContextParams::default() };
        let plan = Plan::new(&model, &params).unwrap();
        let mut context = context(&model, &params);
        work(&mut context, &params);
        assert_eq!(context.kv_bytes(), plan.bytes(PlanPart::Kv), "{name}");
        let seq = {
            context = self::context(&model, &params);
            context.new_sequence().unwrap()
        };
        for n in 1..=params.n_ubatch {
            for n_out in [1, 2, 3] {
                context.truncate(seq, 0);
                let rows: Vec<Row> =
                    (0..n).map(|i| Row { seq, token: i as u32, wants_logits: i < n_out }).collect();
                context.step(&rows).unwrap();
                let arena = context.scheduler().arena_bytes(Backend::CPU);
                assert_eq!(arena, plan.bytes(PlanPart::Activations), "{name}: a step of {n}, {n_out} rows");
            }
        }
    }
}

#[test]
fn what_does_not_fit_into_the_limit_is_refused_with_what_would() {
    let _turn = alone();
    let model = load(&data().join(format!("{}.gguf", COMMITTED[0])));
    let base = ContextParams { n_ctx: 1 << 16, n_seq_max: 16, n_ubatch: 32, ..ContextParams::default() };
    let plan = Plan::new(&model, &base).unwrap();
    // Room for half of the cache, and some for what the process itself takes meanwhile.
    let limit = plan.total() - plan.bytes(PlanPart::Kv) / 2;
    let params = ContextParams { memory: Some(limit), ..base.clone() };
    let error = Context::new(&model, &params, &mut |_, _| {}).err().unwrap();
    assert_eq!(error.fault(), Fault::OutOfMemory);
    let EngineError::Memory(shortage) = error else { panic!("{error}") };
    assert_eq!(shortage.limit, LimitSource::Caller(limit));
    assert!(shortage.largest_n_ctx < 1 << 16 && shortage.largest_n_ctx > 1 << 13, "{shortage}");
    assert!((2..16).contains(&shortage.largest_n_seq), "{shortage}");
    // What it says fits does, but for what this process took since.
    let smaller = ContextParams { n_ctx: shortage.largest_n_ctx / 2, ..params.clone() };
    assert!(Context::new(&model, &smaller, &mut |_, _| {}).is_ok());
    let none = ContextParams { memory: Some(1), ..base };
    let error = Context::new(&model, &none, &mut |_, _| {}).err().unwrap();
    assert!(error.to_string().ends_with("; a smaller model is needed"), "{error}");
}

#[test]
fn a_second_context_counts_what_the_first_was_promised_and_shares_its_weights() {
    let _turn = alone();
    let model = load(&data().join(format!("{}.gguf", COMMITTED[0])));
    // Small enough for any machine, and more than what the tests' process takes and gives back meanwhile.
    let params = ContextParams { n_ctx: 1 << 14, n_seq_max: 8, n_ubatch: 32, ..ContextParams::default() };
    let plan = Plan::new(&model, &params).unwrap();
    assert!(plan.bytes(PlanPart::Weights) > 0 && plan.bytes(PlanPart::Kv) >= 32 << 20);
    let with_half = plan.bytes(PlanPart::Program) + plan.bytes(PlanPart::Kv) / 2;
    let first = context(&model, &params);
    let second = Plan::new(&model, &params).unwrap();
    assert!(second.bytes(PlanPart::Weights) < plan.bytes(PlanPart::Weights));
    // The first has touched nothing of its cache, and it still counts.
    assert!(second.bytes(PlanPart::Program) > with_half);
    drop(first);
    assert!(Plan::new(&model, &params).unwrap().bytes(PlanPart::Program) < with_half);
}

#[test]
fn a_step_beyond_the_plan_takes_what_is_spare_and_no_more() {
    let _turn = alone();
    let model = load(&data().join(format!("{}.gguf", COMMITTED[0])));
    let base = ContextParams { n_ctx: 4096, n_ubatch: 8, ..ContextParams::default() };
    let total = Plan::new(&model, &base).unwrap().total();
    let rows = |context: &mut Context, n: usize| -> Vec<Row> {
        let seq = context.new_sequence().unwrap();
        (0..n).map(|i| Row { seq, token: i as u32 % 9, wants_logits: true }).collect()
    };
    let mut tight = context(&model, &ContextParams { memory: Some(total + (4 << 20)), ..base.clone() });
    let many = rows(&mut tight, 4000);
    let error = tight.step(&many).unwrap_err();
    assert_eq!(error.fault(), Fault::OutOfMemory, "{error}");
    assert!(tight.step(&many[..8]).is_ok());
    let mut free = context(&model, &base);
    let many = rows(&mut free, 4000);
    assert!(free.step(&many).is_ok());
}
