//! Embeddings: what they are, and that company, chunks and the cache do not matter to them.

#![allow(clippy::unwrap_used, clippy::print_stderr, reason = "a test may panic and says what it skips")]

mod common;

use std::sync::Arc;

use common::*;
use minfer_engine::sampler::SamplerParams;
use minfer_engine::{
    Context, ContextParams, Engine, EngineError, EngineParams, FinishReason, GenerateParams, Model, Pooling,
    Request, Row, generate_request, l2_normalize,
};
use minfer_graph::{Node, Observer};

const POOLINGS: [Pooling; 2] = [Pooling::Mean, Pooling::Last];

fn text(seed: u32, len: usize) -> Vec<u32> {
    (0..len as u32).map(|i| 3 + (i * 31 + i * i * seed) % 90).collect()
}

fn alone(model: &Arc<Model>, text: &[u32], pooling: Pooling, n_ubatch: usize) -> Vec<f32> {
    let mut context = Context::new(model, &ContextParams { n_ubatch, ..small() }, &mut |_, _| {}).unwrap();
    let seq = context.new_sequence().unwrap();
    let request = Request::embedding(text.to_vec(), pooling);
    let sink = &mut |_| std::ops::ControlFlow::Continue(());
    let done = generate_request(&mut context, seq, request, sink).unwrap();
    assert_eq!((done.reason, done.tokens.len()), (FinishReason::Complete, 0));
    done.embedding.unwrap()
}

/// The values of one node.
struct Catch {
    node: &'static str,
    values: Vec<f32>,
}

impl Observer for Catch {
    fn wants(&self, node: &Node) -> bool {
        *node.name == *self.node
    }

    fn value(&mut self, _: &Node, bytes: &[u8]) {
        self.values = bytes.chunks_exact(4).map(|b| f32::from_le_bytes(b.try_into().unwrap())).collect();
    }
}

#[test]
fn an_embedding_is_the_pooled_output_of_the_last_norm() {
    for name in COMMITTED {
        let model = load(&data().join(format!("{name}.gguf")));
        let text = text(1, 50);
        let mut context = Context::new(&model, &small(), &mut |_, _| {}).unwrap();
        let seq = context.new_sequence().unwrap();
        let rows: Vec<Row> =
            text.iter().map(|token| Row { seq, token: *token, wants_logits: true }).collect();
        let mut norm = Catch { node: "output_norm", values: Vec::new() };
        context.step_observed(&rows, &mut norm).unwrap();
        let n_embd = model.description().hparams().n_embd;
        assert_eq!(norm.values.len(), 50 * n_embd, "{name}");
        let mean = |i: usize| {
            let sum: f64 = norm.values.iter().skip(i).step_by(n_embd).map(|x| f64::from(*x)).sum();
            (sum / 50.0) as f32
        };
        let want: Vec<f32> = (0..n_embd).map(mean).collect();
        assert_eq!(alone(&model, &text, Pooling::Mean, 512), want, "{name}: mean");
        assert_eq!(alone(&model, &text, Pooling::Last, 512), norm.values[49 * n_embd..], "{name}: last");
    }
}

#[test]
fn chunks_company_and_cache_do_not_matter() {
    let model = load(&data().join("llama-q4_1.gguf"));
    let texts: Vec<Vec<u32>> = [1, 7, 33, 70, 120].into_iter().map(|n| text(n as u32, n)).collect();
    let context = ContextParams { n_seq_max: 3, n_ubatch: 64, ..small() };
    let engine = Engine::new(&model, &EngineParams { context, ..EngineParams::default() }).unwrap();
    let answer = || {
        let sampler = SamplerParams { temperature: 0.0, ..SamplerParams::default() };
        let params =
            GenerateParams { n_predict: Some(30), ignore_eos: true, sampler, ..GenerateParams::default() };
        Request::new(text(9, 40), params)
    };
    let undisturbed = engine.submit(answer()).unwrap().wait().unwrap();
    for pooling in POOLINGS {
        let want: Vec<_> = texts.iter().map(|text| alone(&model, text, pooling, 512)).collect();
        for (text, want) in texts.iter().zip(&want) {
            for n_ubatch in [1, 7, 64] {
                assert_eq!(
                    &alone(&model, text, pooling, n_ubatch),
                    want,
                    "{pooling:?}, chunks of {n_ubatch}"
                );
            }
        }
        // The second time, some of it is in the cache.
        for round in 0..2 {
            let stream = engine.submit(answer()).unwrap();
            let embed = |text: &Vec<u32>| engine.submit(Request::embedding(text.clone(), pooling)).unwrap();
            let embeddings: Vec<_> = texts.iter().map(embed).collect();
            for (embedding, want) in embeddings.into_iter().zip(&want) {
                assert_eq!(&embedding.wait().unwrap().embedding.unwrap(), want, "{pooling:?}, round {round}");
            }
            assert_eq!(stream.wait().unwrap().tokens, undisturbed.tokens);
        }
    }
    assert_eq!(engine.close().unwrap().kv_blocks().in_use, 0);
}

#[test]
fn a_text_that_does_not_fit_is_refused_and_lengths_become_one() {
    let model = load(&data().join("llama-q4_1.gguf"));
    let engine = Engine::new(&model, &EngineParams { context: small(), ..EngineParams::default() }).unwrap();
    let refused = engine.submit(Request::embedding(text(1, 300), Pooling::Mean)).err().unwrap();
    assert!(matches!(refused, EngineError::ContextFull { .. }), "{refused}");
    let refused = engine.submit(Request::embedding(Vec::new(), Pooling::Mean)).err().unwrap();
    assert!(matches!(refused, EngineError::EmptyPrompt), "{refused}");
    let mut vector = alone(&model, &text(3, 20), Pooling::Mean, 512);
    l2_normalize(&mut vector);
    let length: f64 = vector.iter().map(|x| f64::from(*x).powi(2)).sum();
    assert!((length - 1.0).abs() < 1e-6, "{length}");
    assert_eq!(model.pooling().unwrap(), None);
}
