//! Shared blocks change nothing: a fork, and a prompt that begins with cached text, give the bits of a run of their own.

#![allow(clippy::unwrap_used, clippy::print_stderr, reason = "a test may panic and says what it skips")]

mod common;

use common::*;
use minfer_cpu::PackedCacheOptions;
use minfer_engine::{Context, ContextParams, Row, SeqId};
use minfer_graph::LoadNote;

fn bits(rows: Vec<Vec<f32>>) -> Vec<Vec<u32>> {
    rows.into_iter().map(|row| row.into_iter().map(f32::to_bits).collect()).collect()
}

fn text(seed: u32, len: usize) -> Vec<u32> {
    (0..len as u32).map(|i| 3 + (i * 37 + i * i * seed) % 90).collect()
}

/// What comes after `prompt` in a context of its own.
fn alone(name: &str, prompt: &[u32], rest: &[u32]) -> Vec<Vec<u32>> {
    let model = load(&data().join(format!("{name}.gguf")));
    let mut context = context(&model, &small());
    let seq = context.new_sequence().unwrap();
    all_logits(&mut context, seq, prompt, 64);
    bits(all_logits(&mut context, seq, rest, 3))
}

#[test]
fn forks_go_their_own_ways() {
    for name in COMMITTED {
        let model = load(&data().join(format!("{name}.gguf")));
        let mut context = context(&model, &ContextParams { n_seq_max: 3, ..small() });
        let prompt = text(1, 75);
        let seq = context.new_sequence().unwrap();
        all_logits(&mut context, seq, &prompt, 64);
        let forks = [seq, context.fork(seq).unwrap(), context.fork(seq).unwrap()];
        assert_eq!(context.kv_blocks().in_use, 3);
        let ways = [text(2, 40), text(3, 40), text(5, 40)];
        // All of them in every step.
        let mut found = vec![Vec::new(); 3];
        for ((&a, &b), &c) in ways[0].iter().zip(&ways[1]).zip(&ways[2]) {
            let row = |n: usize, token| Row { seq: forks[n], token, wants_logits: true };
            let logits = context.step(&[row(0, a), row(1, b), row(2, c)]).unwrap();
            for (n, row) in logits.chunks(model.n_vocab()).enumerate() {
                found[n].push(row.to_vec());
            }
        }
        // 75 tokens are two whole blocks, which stay shared; each way has two of its own.
        assert_eq!(context.kv_blocks().in_use, 2 + 3 * 2);
        for (found, way) in found.into_iter().zip(&ways) {
            assert!(bits(found) == alone(name, &prompt, way), "{name}");
        }
    }
}

fn begin_and_run(context: &mut Context, seq: SeqId, prompt: &[u32], rest: &[u32]) -> (usize, Vec<Vec<u32>>) {
    let n_cached = context.begin(seq, prompt, prompt.len()).unwrap().n_cached;
    all_logits(context, seq, &prompt[n_cached..], 64);
    (n_cached, bits(all_logits(context, seq, rest, 3)))
}

#[test]
fn a_cached_beginning_gives_the_bits_of_a_cold_run() {
    for name in COMMITTED {
        let model = load(&data().join(format!("{name}.gguf")));
        let mut context = context(&model, &ContextParams { n_seq_max: 2, ..small() });
        let (prompt, rest) = (text(1, 75), text(2, 10));
        let expected = alone(name, &prompt, &rest);
        let first = context.new_sequence().unwrap();
        all_logits(&mut context, first, &text(1, 90), 64);
        // While another sequence holds its two whole blocks, after that one has ended, and in the sequence itself.
        let seq = context.new_sequence().unwrap();
        assert_eq!(begin_and_run(&mut context, seq, &prompt, &rest), (64, expected.clone()), "{name}");
        context.free_sequence(first);
        context.clear_prefix_cache();
        assert_eq!(begin_and_run(&mut context, seq, &prompt, &rest), (75, expected.clone()), "{name}");
        context.free_sequence(seq);
        context.clear_prefix_cache();
        let seq = context.new_sequence().unwrap();
        assert_eq!(begin_and_run(&mut context, seq, &prompt, &rest), (0, expected), "{name}");
    }
}

#[test]
fn packed_weights_from_disk_give_the_bits_of_fresh_ones() {
    let folder = tempfile::TempDir::new().unwrap();
    let cache = PackedCacheOptions { folder: folder.path().into(), max_bytes: 1 << 30, min_bytes: 0 };
    let params = ContextParams { packed_cache: Some(cache), ..small() };
    for name in COMMITTED {
        let (prompt, rest) = (text(1, 75), text(2, 10));
        let expected = alone(name, &prompt, &rest);
        for how in ["kept in", "from"] {
            let model = load(&data().join(format!("{name}.gguf")));
            let mut context = context(&model, &params);
            let notes = context.take_load_notes();
            // Where the system does not tell files apart by their times, nothing is kept.
            if cfg!(unix) {
                assert!(
                    matches!(&notes[..], [LoadNote::Info(text)] if text.contains(how)),
                    "{name}: {notes:?}"
                );
            }
            assert!(context.take_load_notes().is_empty());
            let seq = context.new_sequence().unwrap();
            all_logits(&mut context, seq, &prompt, 64);
            assert!(bits(all_logits(&mut context, seq, &rest, 3)) == expected, "{name}, {how}");
        }
    }
}
