//! What only happens with a terminal or a signal: the conversation, and Ctrl-C.

#![cfg(unix)]

use std::io::{BufRead, BufReader, Read, Write};
use std::process::{Child, Command, Stdio};

use crate::support::{TINY, binary, minfer};

fn interrupt(child: &Child) {
    let status = Command::new("kill").args(["-INT", &child.id().to_string()]).status().unwrap();
    assert!(status.success());
}

/// A generation that takes longer than the test: the context has room for hundreds of thousands of tokens.
const ENDLESS: [&str; 8] = ["generate", TINY, "-p", "a", "--ignore-eos", "-c", "400000", "--special"];

#[test]
fn ctrl_c_ends_an_answer() {
    let mut command = Command::new(binary());
    let command = command.args(ENDLESS).stdout(Stdio::piped()).stderr(Stdio::piped());
    let mut child = command.spawn().unwrap();
    // The answer has begun.
    let mut out = child.stdout.take().unwrap();
    out.read_exact(&mut [0]).unwrap();
    interrupt(&child);
    let mut rest = Vec::new();
    out.read_to_end(&mut rest).unwrap();
    let output = child.wait_with_output().unwrap();
    assert_eq!(output.status.code(), Some(130), "{output:?}");
    assert_eq!(String::from_utf8_lossy(&output.stderr), "");
    assert!(rest.ends_with(b"\n"), "the line is ended");
}

/// A program on a terminal of its own, made by `script`; `None`, aloud, where there is no such command.
struct Terminal {
    child: Child,
    screen: BufReader<std::process::ChildStdout>,
}

impl Terminal {
    #[allow(clippy::print_stderr, reason = "a skipped test says so")]
    fn open(arguments: &str) -> Option<Self> {
        let line = format!("{} {arguments}", binary());
        let mut command = Command::new("script");
        command.args(["-qec", &line, "/dev/null"]).env("TERM", "dumb").env("NO_COLOR", "1");
        let command = command.stdin(Stdio::piped()).stdout(Stdio::piped());
        match command.spawn() {
            Ok(mut child) => {
                let screen = BufReader::new(child.stdout.take().unwrap());
                Some(Self { child, screen })
            }
            Err(error) => {
                eprintln!("skipped: cannot run `script`: {error}");
                None
            }
        }
    }

    /// Waits for a line with `part` in it.
    fn wait_for(&mut self, part: &str) -> String {
        let mut seen = String::new();
        while !seen.contains(part) {
            let mut line = Vec::new();
            assert_ne!(self.screen.read_until(b'\n', &mut line).unwrap(), 0, "no {part:?} in {seen:?}");
            seen.push_str(&String::from_utf8_lossy(&line));
        }
        seen
    }

    fn type_line(&mut self, line: &str) {
        writeln!(self.child.stdin.as_mut().unwrap(), "{line}").unwrap();
    }
}

#[test]
fn a_conversation_appends_to_the_cache_and_obeys_its_commands() {
    let arguments = format!("run {TINY} --greedy -n 4 --ignore-eos --timings");
    let Some(mut terminal) = Terminal::open(&arguments) else { return };
    terminal.wait_for("/help lists the commands");
    terminal.type_line("the cat");
    terminal.wait_for(" 0 known already");
    terminal.type_line("the cat");
    let told = terminal.wait_for(" known already");
    assert!(!told.contains(" 0 known already"), "{told}");
    terminal.type_line("/regen");
    let told = terminal.wait_for(" known already");
    assert!(told.contains("prompt: 1 tokens read"), "{told}");
    terminal.type_line("/dance");
    terminal.wait_for("unknown command '/dance'");
    terminal.type_line("/clear");
    terminal.type_line("/regen");
    terminal.wait_for("there is no answer yet");
    terminal.type_line("/exit");
    assert!(terminal.child.wait().unwrap().success());
}

#[test]
fn a_conversation_outlives_what_does_not_fit() {
    let Some(mut terminal) = Terminal::open(&format!("run {TINY} -c 24 --greedy -n 2 --timings")) else {
        return;
    };
    terminal.wait_for("/help lists the commands");
    terminal.type_line(&"long ".repeat(20));
    terminal.wait_for("hint: shorten the prompt");
    terminal.type_line("a");
    terminal.wait_for(" known already");
    terminal.type_line("/exit");
    assert!(terminal.child.wait().unwrap().success());
}

#[test]
fn without_a_terminal_there_is_no_conversation() {
    let assert = minfer(["run", TINY]).write_stdin("").assert().code(2);
    assert!(crate::support::stderr(&assert).starts_with("error: no prompt given"));
}
