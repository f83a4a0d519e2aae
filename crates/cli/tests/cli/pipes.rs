//! What happens when standard output cannot be written.

use std::process::{Command, Stdio};

use crate::support::{TINY, binary};

/// More output than any buffer holds.
const LONG: [&str; 4] = ["info", TINY, "--json", "--full"];

fn run(args: &[&str], stdout: Stdio) -> (Option<i32>, String) {
    let mut command = Command::new(binary());
    let command = command.args(args).env("NO_COLOR", "1").stdin(Stdio::null()).stdout(stdout);
    let output = command.stderr(Stdio::piped()).spawn().unwrap().wait_with_output().unwrap();
    (output.status.code(), String::from_utf8(output.stderr).unwrap())
}

#[test]
fn a_reader_that_went_away_is_no_error() {
    for args in [
        &LONG[..],
        &["tokenize", TINY, "hello"],
        &["run", TINY, "-p", "a", "--ignore-eos", "-n", "100"],
        &["generate", TINY, "-p", "a", "--json", "-n", "2"],
        &["models"],
        &["completions", "bash"],
        &["--help"],
        &["reference"],
    ] {
        let (reader, writer) = std::io::pipe().unwrap();
        drop(reader);
        assert_eq!(run(args, writer.into()), (Some(0), String::new()), "{args:?}");
    }
}

#[cfg(target_os = "linux")]
#[test]
fn a_full_disk_is_an_error_of_the_machine() {
    for args in [&LONG[..], &["tokenize", TINY, "hello"]] {
        let full = std::fs::OpenOptions::new().write(true).open("/dev/full").unwrap();
        let (code, message) = run(args, full.into());
        assert_eq!(code, Some(5), "{message}");
        assert!(message.starts_with("error: cannot write to standard output: "), "{message}");
    }
}

#[cfg(target_os = "linux")]
#[test]
fn so_is_a_disk_that_is_full_of_other_files() {
    let folder = tempfile::tempdir().unwrap();
    let full = folder.path().join("full");
    std::os::unix::fs::symlink("/dev/full", &full).unwrap();
    let full = full.to_str().unwrap();
    for args in [
        ["logits", TINY, "-p", "a", "--out", full],
        ["logits", TINY, "-p", "a", "--trace", full],
        ["logits", TINY, "-p", "a", "--dump-graph", full],
    ] {
        let (code, message) = run(&args, Stdio::null());
        assert_eq!(code, Some(5), "{message}");
        assert!(message.starts_with("error: ") && message.lines().count() == 1, "{args:?}: {message}");
        assert!(message.contains("No space left on device"), "{args:?}: {message}");
    }
}
