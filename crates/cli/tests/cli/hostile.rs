//! Malformed model files, through every command that opens one: an exit code and a message, never a signal, within 64 MiB.
//!
//! The shell sets the limits: address space, which bounds memory whatever it is used for, and processor time, which is a
//! guard against endless loops rather than a measurement.

#![cfg(target_os = "linux")]

use std::path::Path;
use std::process::{Command, Output, Stdio};
use std::{fs, io::Write};

use crate::support::{binary, shared};

const LIMITED: &str = r#"ulimit -v 65536 && ulimit -t 20 && exec "$0" "$@""#;
const MESSAGES: &[u8] = br#"[{"role": "user", "content": "Hi"}]"#;

const COMMANDS: [&[&str]; 7] = [
    &["info", "--tensors"],
    &["info", "--json"],
    &["tokenize", "-p", "Hello, <|im_end|> w\u{f6}rld"],
    &["detokenize", "--no-special", "1", "2", "200"],
    &["render", "-"],
    &["run", "-p", "the", "-n", "3", "-t", "2", "--no-timings"],
    GENERATE,
];

/// What needs all of a model, so that a file which the table calls wrong has to be refused.
const GENERATE: &[&str] = &["generate", "--tokens", "1,2,3", "-n", "3", "--greedy", "-t", "2"];

fn run(model: &Path, args: &[&str]) -> Output {
    let mut command = Command::new("/bin/sh");
    command.args(["-c", LIMITED, binary(), args[0], "-m"]).arg(model).args(&args[1..]).env("NO_COLOR", "1");
    let command = command.stdin(Stdio::piped()).stdout(Stdio::piped()).stderr(Stdio::piped());
    let mut child = command.spawn().unwrap();
    // A command that does not read its input may be gone already.
    let _ = child.stdin.take().unwrap().write_all(MESSAGES);
    child.wait_with_output().unwrap()
}

/// What the table of the fixtures says that a reader should do with a file.
#[derive(Clone, Copy, PartialEq, Eq)]
enum Verdict {
    Load,
    Refuse,
    Either,
}

/// Names and verdicts, from the table in the README.
fn verdicts(folder: &Path) -> Vec<(String, Verdict)> {
    let table = fs::read_to_string(folder.join("README.md")).unwrap();
    let row = |line: &str| {
        let cells: Vec<_> = line.split('|').map(str::trim).collect();
        let verdict = match *cells.get(3)? {
            "load" => Verdict::Load,
            "error" => Verdict::Refuse,
            "either" => Verdict::Either,
            _ => return None,
        };
        Some((cells[1].to_owned(), verdict))
    };
    table.lines().filter_map(row).collect()
}

/// What is wrong with how the command ended, if anything is.
fn complaint(verdict: Verdict, args: &[&str], output: &Output) -> Option<String> {
    let stderr = String::from_utf8_lossy(&output.stderr).into_owned();
    let must_fail = verdict == Verdict::Refuse && args == GENERATE;
    match output.status.code() {
        Some(0) if !must_fail && (stderr.is_empty() || stderr.starts_with("warning: ")) => None,
        Some(3 | 4) if verdict != Verdict::Load && is_a_message(&stderr) => None,
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

#[test]
fn malformed_files_are_refused_or_shown() {
    let Some(folder) = shared("fixtures/gguf-bad") else { return };
    let verdicts = verdicts(&folder);
    let mut complaints = Vec::new();
    for (name, verdict) in &verdicts {
        for args in COMMANDS {
            let complaint = complaint(*verdict, args, &run(&folder.join(name), args));
            complaints.extend(complaint.map(|it| format!("{name} {args:?}: {it}")));
        }
    }
    assert!(verdicts.len() > 100, "only {} files", verdicts.len());
    assert!(complaints.is_empty(), "{}", complaints.join("\n"));
}
