//! Real clients, unmodified, against the real server: every script of `tests/clients` talks to it, checks what it gets and
//! prints a transcript, and the greedy answer is the same through all of them and through `minfer run`.
//!
//! The clients come from PyPI and npm, with the versions pinned there, into `target`. Without Python or npm, the test says
//! what it skips.
#![allow(clippy::unwrap_used, clippy::print_stderr)]

mod install;
mod serve;

use std::path::{Path, PathBuf};
use std::process::{Command, Output};

use install::Clients;
use serve::Serving;

/// A script, and which of its sections are run.
struct Script {
    file: &'static str,
    sections: &'static [&'static str],
}

const SCRIPTS: &[Script] = &[
    Script {
        file: "openai_client.py",
        sections: &[
            "models",
            "chat",
            "stream",
            "logprobs",
            "completions",
            "tools",
            "parse",
            "embeddings",
            "responses",
            "errors",
        ],
    },
    Script { file: "anthropic_client.py", sections: &["chat", "stream", "stop", "tools", "count", "errors"] },
    Script {
        file: "ollama_client.py",
        sections: &["models", "chat", "stream", "generate", "structured", "tools", "embeddings", "errors"],
    },
    Script {
        file: "langchain_client.py",
        sections: &["chat", "stream", "tools", "structured", "embeddings"],
    },
    Script {
        file: "openai_client.mjs",
        sections: &[
            "models",
            "chat",
            "stream",
            "abort",
            "tools",
            "structured",
            "embeddings",
            "responses",
            "errors",
        ],
    },
];

/// Where the scripts are.
fn folder() -> PathBuf {
    Path::new(env!("CARGO_MANIFEST_DIR")).join("../../tests/clients")
}

/// Has a model use the template of the folder, which knows of tools.
fn template() -> [String; 2] {
    let template = std::fs::read_to_string(folder().join("template.jinja")).unwrap();
    ["--override-kv".into(), format!("tokenizer.chat_template=str:{}", template.trim_end())]
}

#[test]
fn every_client_understands_a_tiny_model() {
    let Some(clients) = Clients::install(&folder()) else { return };
    let model = Path::new(env!("CARGO_MANIFEST_DIR")).join("../../tests/data/qwen2-tied-q4_0.gguf");
    check(&clients, &model, &template());
}

#[test]
fn every_client_understands_a_real_model() {
    let Some(clients) = Clients::install(&folder()) else { return };
    // The template that SmolLM2 comes with knows no tools.
    if let Some(model) = real("smollm2-135m-instruct-q4_1.gguf") {
        check(&clients, &model, &template());
    }
    if let Some(model) = real("qwen2.5-coder-0.5b-instruct-q4_k_m.gguf") {
        check(&clients, &model, &[]);
    }
}

/// A real model, if it is in the folder of models; says so and gives nothing where it is not.
fn real(file: &str) -> Option<PathBuf> {
    let default = || std::env::home_dir().unwrap_or_default().join(".cache/minfer/models");
    let path = std::env::var_os("MINFER_MODELS").map_or_else(default, PathBuf::from).join(file);
    if !path.is_file() {
        eprintln!("skipped: no file {}", path.display());
        return None;
    }
    Some(path)
}

fn check(clients: &Clients, model: &Path, args: &[String]) {
    let serving = Serving::start(model, args);
    let mut answers = vec![("minfer run".to_owned(), answer_of_run(model, args))];
    for script in SCRIPTS {
        let output =
            clients.command(script.file).arg(&serving.url).arg("m").args(script.sections).output().unwrap();
        let transcript = String::from_utf8(output.stdout.clone()).unwrap();
        eprintln!("== {} with {}\n{transcript}", script.file, model.display());
        assert!(output.status.success(), "{}:\n{}", script.file, complaint(&output));
        let said = transcript.lines().filter_map(|line| line.strip_prefix("ANSWER "));
        let said: Vec<String> = said.map(|json| serde_json::from_str(json).unwrap()).collect();
        assert!(said.len() >= 2, "{}: too few answers", script.file);
        answers.extend(said.into_iter().map(|text| (script.file.to_owned(), text)));
    }
    let (_, first) = &answers[0];
    assert!(!first.trim().is_empty());
    // Clients trim nothing; the command ends its answer with a line break of its own.
    for (who, text) in &answers {
        assert_eq!(text.trim_end(), first.trim_end(), "{who}");
    }
}

fn complaint(output: &Output) -> String {
    String::from_utf8_lossy(&output.stderr).into_owned()
}

/// What the command says to the same words.
fn answer_of_run(model: &Path, args: &[String]) -> String {
    let mut command = Command::new(env!("CARGO_BIN_EXE_minfer"));
    command
        .arg("run")
        .arg(model)
        .arg("Say hello to the world.")
        .args(["--temp", "0", "-n", "12", "-c", "4096"])
        .args(args);
    let output = command.output().unwrap();
    assert!(output.status.success(), "{}", complaint(&output));
    String::from_utf8(output.stdout).unwrap()
}
