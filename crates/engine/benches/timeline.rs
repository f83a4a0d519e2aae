//! What keeping a timeline costs a decode step.
//!
//! `cargo bench -p minfer-engine --bench timeline -- MODEL.gguf [STEPS]`: plain steps and recorded ones take turns in one
//! context, so that both see the same machine; medians and quartiles of each, and the ratio of the medians.

#![allow(missing_docs, clippy::print_stdout, clippy::unwrap_used, reason = "a bench prints and may panic")]

use std::time::Instant;

use minfer_engine::{Context, ContextParams, LoadOptions, Model, Row};
use minfer_graph::Timeline;

fn main() {
    let mut args = std::env::args().skip(1).filter(|a| !a.starts_with("--"));
    let Some(path) = args.next() else {
        println!("skipped: no model given");
        return;
    };
    let n_steps: usize = args.next().map_or(400, |n| n.parse().unwrap());
    let model = Model::load(path.as_ref(), &LoadOptions::default()).unwrap();
    let params = ContextParams { n_ctx: 256, ..ContextParams::default() };
    let mut context = Context::new(&model, &params, &mut |_, _| {}).unwrap();
    let seq = context.new_sequence().unwrap();
    let mut kept = Some(Timeline::default());
    let mut times = [Vec::new(), Vec::new()];
    for i in 0..2 * n_steps {
        // Every second step comes after one of its own kind, so that neither always follows the other.
        let recorded = (i / 2 + i) % 2;
        if recorded == 1 {
            context.scheduler_mut().set_timeline(kept.take());
        }
        context.truncate(seq, 64 + i % 2);
        let start = Instant::now();
        context.step(&[Row { seq, token: 100 + (i % 50) as u32, wants_logits: true }]).unwrap();
        times[recorded].push(start.elapsed().as_secs_f64() * 1e3);
        if recorded == 1 {
            kept = context.scheduler_mut().set_timeline(None);
        }
    }
    let mut medians = [0.0; 2];
    for (i, name) in ["plain", "recorded"].iter().enumerate() {
        times[i].sort_by(f64::total_cmp);
        let at = |q: usize| times[i][times[i].len() * q / 4];
        medians[i] = at(2);
        println!("{name:<9} median {:.3} ms, quartiles {:.3} to {:.3} ms", at(2), at(1), at(3));
    }
    println!(
        "recorded / plain {:.4}, {} events",
        medians[1] / medians[0],
        kept.map_or(0, |t| t.events().len())
    );
}
