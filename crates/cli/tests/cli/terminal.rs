//! What only happens with a terminal or a signal: the conversation, and Ctrl-C.

#![cfg(unix)]

use std::io::{BufReader, Read, Write};
use std::process::{Child, Command, Stdio};

use crate::support::{Running, TINY, binary, minfer};

/// A model whose template opens the assistant's turn, as that of `TINY` does not.
const CHATTY: &str = concat!(env!("CARGO_MANIFEST_DIR"), "/../../tests/data/qwen2-tied-q4_0.gguf");

/// A generation that takes longer than the test: the context has room for hundreds of thousands of tokens.
const ENDLESS: [&str; 8] = ["generate", TINY, "-p", "a", "--ignore-eos", "-c", "400000", "--special"];

#[test]
fn ctrl_c_ends_an_answer() {
    let mut command = Command::new(binary());
    let command = command.args(ENDLESS).stdout(Stdio::piped()).stderr(Stdio::piped());
    let mut child = Running::start(command);
    // The answer has begun.
    let mut out = child.stdout.take().unwrap();
    out.read_exact(&mut [0]).unwrap();
    child.signal("INT");
    let mut rest = Vec::new();
    out.read_to_end(&mut rest).unwrap();
    let mut told = String::new();
    child.stderr.take().unwrap().read_to_string(&mut told).unwrap();
    assert_eq!(child.wait().unwrap().code(), Some(130), "{told}");
    assert!(told.lines().all(|line| line.starts_with("warning: a context of 400000")), "{told}");
    assert!(rest.ends_with(b"\n"), "the line is ended");
}

#[test]
fn ctrl_c_before_anything_listens_ends_and_leaves_no_file() {
    let folder = tempfile::tempdir().unwrap();
    let pipe = folder.path().join("pipe");
    assert!(Command::new("mkfifo").arg(&pipe).status().unwrap().success());
    let trace = folder.path().join("t.npz");
    // Waits for somebody to read the graph, with the trace begun.
    let mut command = Command::new(binary());
    command.args(["generate", TINY, "-p", "a", "--dump-graph"]).arg(&pipe).env("MINFER_TRACE", &trace);
    let mut child = Running::start(&mut command);
    let n_files = || std::fs::read_dir(&folder).unwrap().count();
    while n_files() < 2 && child.try_wait().unwrap().is_none() {
        std::thread::yield_now();
    }
    child.signal("INT");
    assert_eq!(child.wait().unwrap().code(), Some(130));
    assert_eq!(n_files(), 1);
}

/// A program on a terminal of its own, made by `script`; `None`, aloud, where there is no such command.
struct Terminal {
    child: Child,
    screen: BufReader<std::process::ChildStdout>,
    /// Where the history is kept.
    home: tempfile::TempDir,
}

/// Shown before the exit status.
const EXITED: &str = "it-exited-with-";

/// A terminal that lines are simply typed into.
const PLAIN: &str = "dumb";
/// One that they can be edited on.
const EDITING: &str = "xterm";

impl Drop for Terminal {
    /// A test that fails leaves no program behind: `timeout` hands the signal on.
    fn drop(&mut self) {
        if self.child.try_wait().is_ok_and(|ended| ended.is_none()) {
            let _ = Command::new("kill").arg(self.child.id().to_string()).status();
            let _ = self.child.wait();
        }
    }
}

impl Terminal {
    #[allow(clippy::print_stderr, reason = "a skipped test says so")]
    fn open(kind: &str, arguments: &str) -> Option<Self> {
        // The shell tells the exit status on the screen: that of `script` also depends on what reached it last. It
        // outlives a Ctrl-C that comes as a signal.
        let line = format!("trap : INT; {} {arguments}; echo {EXITED}$?.", binary());
        // A test that waits for what never comes should fail, not hang.
        let mut command = Command::new("timeout");
        command
            .args(["--foreground", "60", "script", "-qec", &line, "/dev/null"])
            .env("SHELL", "/bin/sh")
            .env("TERM", kind)
            .env("NO_COLOR", "1");
        let home = tempfile::tempdir().unwrap();
        command.env("XDG_STATE_HOME", home.path());
        let command = command.stdin(Stdio::piped()).stdout(Stdio::piped());
        match command.spawn() {
            Ok(mut child) => {
                let screen = BufReader::new(child.stdout.take().unwrap());
                Some(Self { child, screen, home })
            }
            Err(error) => {
                eprintln!("skipped: cannot run `script`: {error}");
                None
            }
        }
    }

    /// Waits until `part` is shown; gives what was shown since the last wait, up to the end of it.
    fn wait_for(&mut self, part: &str) -> String {
        let (mut seen, mut byte) = (Vec::new(), [0]);
        while !seen.ends_with(part.as_bytes()) {
            let n = self.screen.read(&mut byte).unwrap_or(0);
            assert_ne!(n, 0, "no {part:?} in {:?}", String::from_utf8_lossy(&seen));
            seen.push(byte[0]);
        }
        String::from_utf8_lossy(&seen).into_owned()
    }

    /// Waits until the program ends; gives its exit status. The keyboard stays connected until then.
    fn exit_status(mut self) -> String {
        self.wait_for(EXITED);
        let status = self.wait_for(".");
        drop(self.child.stdin.take());
        self.child.wait().unwrap();
        status
    }

    fn type_raw(&mut self, text: &str) {
        let keyboard = self.child.stdin.as_mut().unwrap();
        keyboard.write_all(text.as_bytes()).and_then(|()| keyboard.flush()).unwrap();
    }

    fn type_line(&mut self, line: &str) {
        writeln!(self.child.stdin.as_mut().unwrap(), "{line}").unwrap();
    }
}

const CTRL_C: &str = "\x03";
const CTRL_D: &str = "\x04";

/// Tokens of the prompt that were read, and that were known, as the next answer's timings tell.
fn read_and_known(terminal: &mut Terminal) -> (usize, usize) {
    let told = terminal.wait_for("; answer: ");
    let told = &told[told.rfind("prompt: ").unwrap()..];
    let number = |before: &str| told.split_once(before)?.1.split(' ').next()?.parse().ok();
    (number("prompt: ").unwrap(), number(" tokens/s (").unwrap_or(0))
}

#[test]
fn a_conversation_appends_to_the_cache_and_obeys_its_commands() {
    let Some(mut terminal) = Terminal::open(PLAIN, &format!("run {CHATTY} --greedy -n 4 --ignore-eos"))
    else {
        return;
    };
    terminal.wait_for("/help lists the commands");
    terminal.type_line("the cat");
    let (first, known) = read_and_known(&mut terminal);
    assert_eq!(known, 0);
    terminal.type_line("the cat");
    // The cache has the first prompt and the answer but for its last token, which nothing came after.
    let (second, known) = read_and_known(&mut terminal);
    assert_eq!(known, first + 3);
    terminal.type_line("/regen");
    assert_eq!(read_and_known(&mut terminal), (1, known + second - 1));
    terminal.type_line("/dance");
    terminal.wait_for("unknown command '/dance'");
    terminal.type_line("/clear");
    terminal.type_line("/regen");
    terminal.wait_for("there is no answer yet");
    terminal.type_line("/system be brief");
    terminal.type_line("the cat");
    let (with_system, _) = read_and_known(&mut terminal);
    assert!(with_system > first, "{with_system}");
    terminal.type_line("/exit");
    assert_eq!(terminal.exit_status(), "0.");
}

#[test]
fn a_line_goes_on_after_a_backslash_and_the_history_is_kept() {
    let arguments = format!("run {TINY} --greedy -n 1 --ignore-eos --verbose-prompt");
    let Some(mut terminal) = Terminal::open(EDITING, &arguments) else { return };
    // What is typed before the prompt is there would reach a terminal that edits nothing yet.
    terminal.wait_for("> ");
    terminal.type_line("x\\");
    terminal.wait_for("| ");
    terminal.type_line("y");
    let told = terminal.wait_for("; answer: ");
    let places = ["\"x\"", "\"\\n\"", "\"y\""].map(|token| told.rfind(token).unwrap_or(0));
    assert!(0 < places[0] && places[0] < places[2] && places[2] < places[1], "{told}");
    terminal.wait_for("> ");
    terminal.type_raw(CTRL_D);
    let history = terminal.home.path().join("minfer/history");
    terminal.wait_for(EXITED);
    let history = std::fs::read_to_string(history).unwrap();
    assert!(history.contains("x\\ny"), "{history:?}");
}

#[test]
fn ctrl_c_stops_an_answer_and_twice_at_the_prompt_ends() {
    let arguments = format!("run {TINY} --ignore-eos -c 400000 --special");
    let Some(mut terminal) = Terminal::open(EDITING, &arguments) else { return };
    terminal.wait_for("> ");
    terminal.type_line("a");
    // The answer has begun.
    terminal.wait_for("\n");
    terminal.screen.read_exact(&mut [0; 4]).unwrap();
    terminal.type_raw(CTRL_C);
    terminal.wait_for("ended by Ctrl-C");
    terminal.wait_for("> ");
    terminal.type_raw(CTRL_C);
    terminal.wait_for("Ctrl-C once more ends");
    terminal.wait_for("> ");
    terminal.type_raw(CTRL_C);
    // Between two prompts it comes as a signal, and ends the program just so.
    let status = terminal.exit_status();
    assert!(["0.", "130."].contains(&status.as_str()), "{status}");
}

#[test]
fn a_conversation_may_begin_with_a_prompt() {
    let arguments = format!("run {CHATTY} hi -cnv --greedy -n 2 --ignore-eos");
    let Some(mut terminal) = Terminal::open(PLAIN, &arguments) else { return };
    let (first, _) = read_and_known(&mut terminal);
    terminal.wait_for("/help lists the commands");
    terminal.type_line("hi");
    assert_eq!(read_and_known(&mut terminal).1, first + 1);
    terminal.type_line("/exit");
    assert_eq!(terminal.exit_status(), "0.");
}

#[test]
fn a_conversation_outlives_what_does_not_fit() {
    let Some(mut terminal) = Terminal::open(PLAIN, &format!("run {TINY} -c 24 --greedy -n 2")) else {
        return;
    };
    terminal.wait_for("/help lists the commands");
    terminal.type_line(&"long ".repeat(20));
    terminal.wait_for("hint: shorten the prompt");
    terminal.wait_for("hint: /clear begins anew");
    terminal.type_line("a");
    assert_eq!(read_and_known(&mut terminal).1, 0);
    terminal.type_line("/exit");
    assert_eq!(terminal.exit_status(), "0.");
}

#[test]
fn without_a_terminal_there_is_no_conversation() {
    let assert = minfer(["run", TINY]).write_stdin("").assert().code(2);
    assert!(crate::support::stderr(&assert).starts_with("error: no prompt given"));
}
