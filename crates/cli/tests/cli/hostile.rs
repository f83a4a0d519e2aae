//! Malformed model files, through every command that opens one: an exit code and a message, never a signal, within 64 MiB.
//!
//! The shell sets the limits: address space, which bounds memory whatever it is used for, and processor time, which is a
//! guard against endless loops rather than a measurement.

#![cfg(target_os = "linux")]

use std::path::{Path, PathBuf};
use std::process::{Command, Output, Stdio};
use std::{fs, io::Write};

use crate::support::{binary, shared};

const LIMITED: &str = r#"ulimit -v 65536 && ulimit -t 20 && exec "$0" "$@""#;
const MESSAGES: &[u8] = br#"[{"role": "user", "content": "Hi"}]"#;

const COMMANDS: [&[&str]; 5] = [
    &["info", "--tensors"],
    &["info", "--json"],
    &["tokenize", "-p", "Hello, <|im_end|> w\u{f6}rld"],
    &["detokenize", "--no-special", "1", "2", "200"],
    &["render", "-"],
];

fn run(model: &Path, args: &[&str]) -> Output {
    let mut command = Command::new("/bin/sh");
    command.args(["-c", LIMITED, binary(), args[0], "-m"]).arg(model).args(&args[1..]).env("NO_COLOR", "1");
    let command = command.stdin(Stdio::piped()).stdout(Stdio::piped()).stderr(Stdio::piped());
    let mut child = command.spawn().unwrap();
    // A command that does not read its input may be gone already.
    let _ = child.stdin.take().unwrap().write_all(MESSAGES);
    child.wait_with_output().unwrap()
}

/// What is wrong with how the command ended, if anything is.
fn complaint(model: &Path, output: &Output) -> Option<String> {
    let stderr = String::from_utf8_lossy(&output.stderr).into_owned();
    let is_fine = model.file_name().is_some_and(|name| name.to_string_lossy().starts_with("ok-"));
    match output.status.code() {
        Some(0) if stderr.is_empty() || stderr.starts_with("warning: ") => None,
        Some(3 | 4) if !is_fine && is_a_message(&stderr) => None,
        _ => Some(format!("{}, {stderr:?}", output.status)),
    }
}

/// One line, perhaps a hint below it, and nothing that steers a terminal.
fn is_a_message(stderr: &str) -> bool {
    let lines: Vec<_> = stderr.lines().collect();
    let has_control = stderr.chars().any(|c| c.is_control() && c != '\n');
    let has_form = lines.first().is_some_and(|line| line.starts_with("error: ") && line.len() > 20)
        && lines[1..].iter().all(|line| line.starts_with("hint: "));
    has_form && lines.len() <= 2 && !has_control
}

fn models(folder: &Path) -> Vec<PathBuf> {
    let files = fs::read_dir(folder).unwrap().map(|entry| entry.unwrap().path());
    files.filter(|path| path.extension().is_some_and(|it| it == "gguf")).collect()
}

#[test]
fn malformed_files_are_refused_or_shown() {
    let Some(folder) = shared("fixtures/gguf-bad") else { return };
    let models = models(&folder);
    let mut complaints = Vec::new();
    for model in &models {
        for args in COMMANDS {
            let complaint = complaint(model, &run(model, args));
            complaints.extend(complaint.map(|it| format!("{} {args:?}: {it}", model.display())));
        }
    }
    assert!(models.len() > 100, "only {} files", models.len());
    assert!(complaints.is_empty(), "{}", complaints.join("\n"));
}
