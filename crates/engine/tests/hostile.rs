//! Every malformed file of the fixtures through the whole chain: load, render a chat, tokenize, generate.

#![allow(clippy::unwrap_used, clippy::print_stderr, reason = "a test may panic and says what it skips")]

mod common;

use std::ops::ControlFlow;
use std::path::Path;

use common::*;
use minfer_engine::{Context, EngineError, Fault, GenerateParams, LoadOptions, Model, generate};
use minfer_text::chat::RenderInput;

/// What the fixtures' table says a reader should do with each file.
fn table(folder: &Path) -> Vec<(String, String)> {
    let readme = std::fs::read_to_string(folder.join("README.md")).unwrap();
    let rows = readme.lines().filter(|l| l.starts_with("| ") && l.contains(".gguf |"));
    rows.map(|l| {
        let cells: Vec<_> = l.split('|').map(str::trim).collect();
        (cells[1].to_string(), cells[3].to_string())
    })
    .collect()
}

/// Everything one does with a model that loaded; errors are fine, panics are not.
fn use_it(model: &std::sync::Arc<Model>) -> Result<(), EngineError> {
    if let Ok(template) = model.chat_template(false) {
        let messages = serde_json::json!([{ "role": "user", "content": "Hi" }]);
        // A template may refuse, or meet a limit; it may not hang.
        let _ = template.render(&RenderInput::new(messages));
    }
    let prompt = model.encode("Hello, world! 🦊 \u{0}\u{7f}é")?;
    let prompt = if prompt.is_empty() { vec![0] } else { prompt };
    let mut context = Context::new(model, &small(), &mut |_, _| {})?;
    let seq = context.new_sequence()?;
    let params = GenerateParams { n_predict: Some(4), ignore_eos: true, ..GenerateParams::default() };
    generate(&mut context, seq, &prompt, &params, &mut |_| ControlFlow::Continue(())).map(|_| ())
}

#[test]
fn every_malformed_file_does_what_its_row_says() {
    let Some(folder) = shared("fixtures/gguf-bad") else { return };
    let rows = table(&folder);
    assert!(rows.len() > 150, "{} rows", rows.len());
    let mut failures = Vec::new();
    for (file, verdict) in &rows {
        let loaded = Model::load(&folder.join(file), &LoadOptions::default());
        let failure = match (&loaded, verdict.as_str()) {
            (Ok(_), "error") => Some("was accepted".to_string()),
            (Err(e), "load") => Some(format!("was refused: {e}")),
            (Err(e), _) if e.to_string().trim().is_empty() || e.to_string().contains('\n') => {
                Some(format!("message is not one line: {e}"))
            }
            (Err(e), _) if e.fault() == Fault::Bug => Some(format!("is called a defect of minfer: {e}")),
            _ => None,
        };
        failures.extend(failure.map(|f| format!("{file}: {f}")));
        if let Ok(model) = loaded
            && let Err(e) = use_it(&model)
        {
            eprintln!("{file}: loads, then: {e}");
            if e.fault() == Fault::Bug || verdict == "load" {
                failures.push(format!("{file}: {e}"));
            }
        }
    }
    assert!(failures.is_empty(), "{}", failures.join("\n"));
}

#[test]
fn requests_that_make_no_sense_are_refused_before_anything_runs() {
    let model = load(&data().join("qwen2-tied-q4_0.gguf"));
    let mut context = context(&model, &minfer_engine::ContextParams { n_ctx: 40, ..small() });
    let seq = context.new_sequence().unwrap();
    let greedy = GenerateParams { n_predict: Some(100), ..GenerateParams::default() };
    let mut run = |prompt: &[u32]| {
        let done = generate(&mut context, seq, prompt, &greedy, &mut |_| ControlFlow::Continue(()));
        done.map(|g| g.reason).map_err(|e| (e.fault(), e.to_string()))
    };
    assert_eq!(run(&[]), Err((Fault::BadRequest, "the prompt is empty".into())));
    let (fault, message) = run(&[1; 41]).unwrap_err();
    assert_eq!(fault, Fault::BadRequest);
    assert_eq!(message, "41 tokens do not fit into the context of 40");
    let (fault, message) = run(&[1, 1_000_000]).unwrap_err();
    assert_eq!((fault, &*message), (Fault::BadRequest, "token 1000000 is outside the vocabulary of 423"));
    // After every refusal the context still works, and a full one ends the answer.
    assert!(run(&[5, 6, 7]).is_ok());
}

#[test]
fn settings_that_make_no_sense_are_refused() {
    let model = load(&data().join("qwen2-tied-q4_0.gguf"));
    let refused = |params: minfer_engine::ContextParams| {
        let error = Context::new(&model, &params, &mut |_, _| {}).err().unwrap();
        (error.fault(), error.to_string())
    };
    let base = minfer_engine::ContextParams::default;
    for (params, what) in [
        (minfer_engine::ContextParams { n_threads: Some(0), ..base() }, "the number of threads is 0"),
        (
            minfer_engine::ContextParams { n_threads_batch: Some(0), ..base() },
            "the number of threads for prompts is 0",
        ),
        (minfer_engine::ContextParams { n_ubatch: 0, ..base() }, "the chunk size is 0"),
        (minfer_engine::ContextParams { n_seq_max: 0, ..base() }, "the number of sequences is 0"),
        (minfer_engine::ContextParams { n_ctx: usize::MAX, ..base() }, "the context size is"),
        (minfer_engine::ContextParams { backends: Some("tpu".into()), ..base() }, "unknown backend 'tpu'"),
        (
            minfer_engine::ContextParams { backends: Some("cuda".into()), ..base() },
            "backend 'cuda' is not in",
        ),
        (minfer_engine::ContextParams { isa: Some("mmx".into()), ..base() }, "unknown instruction set"),
    ] {
        let (fault, message) = refused(params);
        assert_eq!(fault, Fault::BadRequest, "{message}");
        assert!(message.starts_with(what), "{message}");
    }
    let key = ("qwen2.context_length".to_string(), minfer_gguf::Value::U32(u32::MAX));
    let options = LoadOptions { overrides: vec![key], ..LoadOptions::default() };
    let boastful = Model::load(&data().join("qwen2-tied-q4_0.gguf"), &options).unwrap();
    let all = minfer_engine::ContextParams { n_ctx: 0, ..base() };
    let error = Context::without_weights(&boastful, &all).err().unwrap();
    assert!(error.to_string().starts_with("the context size is 4294967295"), "{error}");
    let huge = minfer_engine::ContextParams { n_ctx: 1 << 29, n_seq_max: 1, ..base() };
    let model = load(&data().join("qwen3-yarn-bf16.gguf"));
    let error = Context::new(&model, &huge, &mut |_, _| {}).err().unwrap();
    assert_eq!(error.fault(), Fault::OutOfMemory);
    assert!(error.to_string().contains("the largest context that fits is"), "{error}");
}
