//! `minfer run --session`: what was read is there the next time.

use std::fs;
use std::process::{Command, Stdio};

use crate::support::*;

const RUN: [&str; 9] = ["run", TINY, "--no-template", "-n", "6", "--no-timings", "--temp", "0.9", "-p"];

#[test]
fn a_session_is_kept_and_found_again() {
    let folder = tempfile::tempdir().unwrap();
    let path = folder.path().join("s");
    let session = path.to_str().unwrap();
    let run = |prompt: &str, more: &[&str]| {
        let args: Vec<&str> = RUN.iter().copied().chain([prompt, "--session", session]).collect();
        minfer(args.into_iter().chain(more.iter().copied())).assert().success()
    };
    let first = stdout(&run("abcdefgh", &["--seed", "5"]));
    let held = fs::read(&path).unwrap();
    let again = run("abcdefgh", &["--seed", "5", "--session-ro"]);
    assert_eq!(stdout(&again), first, "a restored cache changes nothing");
    assert!(stderr(&again).contains("s holds 13 tokens"), "{}", stderr(&again));
    assert_eq!(fs::read(&path).unwrap(), held, "a session that is only read stays as it is");
    // Without a seed the draws go on where the session ended, so the same run twice is the same.
    let ro = ["--session-ro"];
    assert_eq!(stdout(&run("abcdefgh", &ro)), stdout(&run("abcdefgh", &ro)));
    run("other", &["--prompt-cache-ro"]);
    run("other", &[]);
    assert_ne!(fs::read(&path).unwrap(), held);
}

#[test]
fn what_is_no_session_is_refused_and_left_alone() {
    let folder = tempfile::tempdir().unwrap();
    let path = folder.path().join("letter.txt");
    fs::write(&path, "Dear Sir or Madam,").unwrap();
    let args = RUN.iter().copied().chain(["x", "--prompt-cache", path.to_str().unwrap()]);
    let refused = minfer(args).assert().code(3);
    assert!(stderr(&refused).contains("letter.txt is no session of minfer"), "{}", stderr(&refused));
    assert_eq!(fs::read(&path).unwrap(), b"Dear Sir or Madam,");
    let missing = folder.path().join("missing");
    let args = RUN.iter().copied().chain(["x", "--session-ro", "--session", missing.to_str().unwrap()]);
    minfer(args).assert().code(5);
}

/// A run that goes on until it is stopped, once it has said something.
#[cfg(unix)]
fn running(session: &str) -> Running {
    use std::io::Read;
    let args = ["run", TINY, "--no-template", "-n", "100000", "--context-shift", "--ignore-eos", "-p", "abc"];
    let mut command = Command::new(binary());
    command.args(args.iter().chain(&["--session", session])).stdout(Stdio::piped()).stderr(Stdio::null());
    let mut child = Running::start(&mut command);
    child.stdout.as_mut().unwrap().read_exact(&mut [0]).unwrap();
    child
}

#[cfg(unix)]
#[test]
fn a_session_is_for_one_run_at_a_time() {
    let folder = tempfile::tempdir().unwrap();
    let path = folder.path().join("s");
    let session = path.to_str().unwrap();
    let run = |more: &[&str]| minfer(RUN.iter().chain(&["abc", "--session", session]).chain(more)).assert();
    run(&[]).success();
    let held = fs::read(&path).unwrap();
    let mut other = running(session);
    let refused = run(&[]).code(5);
    assert!(stderr(&refused).contains("is in use by another run"), "{}", stderr(&refused));
    run(&["--session-ro"]).success();
    // Asked to end, it leaves the session as it was and nothing beside it.
    other.signal("TERM");
    // Its output stays open: a write that failed could end it first, with another status.
    assert_eq!(other.wait().unwrap().code(), Some(143));
    assert_eq!(fs::read(&path).unwrap(), held);
    assert_eq!(fs::read_dir(folder.path()).unwrap().count(), 1);
    run(&[]).success();
}

/// Whenever a run is killed, the session is the one before it or the one after it, whole.
#[test]
fn a_run_killed_at_any_time_leaves_a_whole_session() {
    let folder = tempfile::tempdir().unwrap();
    let path = folder.path().join("s");
    let session = path.to_str().unwrap();
    let args = |prompt: &str| -> Vec<String> {
        RUN.iter().copied().chain([prompt, "--session", session]).map(String::from).collect()
    };
    let start = std::time::Instant::now();
    minfer(args("first")).assert().success();
    let whole_run = start.elapsed();
    let mut n_killed = 0;
    let mut held = fs::read(&path).unwrap();
    for i in 0..30 {
        let prompt = format!("prompt {i}");
        let mut command = Command::new(binary());
        command.args(args(&prompt)).stdout(Stdio::null()).stderr(Stdio::null());
        let mut child = Running::start(&mut command);
        // From the first moment to a little after the end.
        std::thread::sleep(whole_run * i / 25);
        child.kill().unwrap();
        let was_done = child.wait().unwrap().success();
        let now = fs::read(&path).unwrap();
        n_killed += u32::from(!was_done);
        assert!(!was_done || now != held, "what was reported as done is lost");
        let read = minfer(args("x").into_iter().chain(["--session-ro".into()])).assert().success();
        assert!(stderr(&read).contains("s holds "), "{}", stderr(&read));
        assert_eq!(fs::read(&path).unwrap(), now);
        held = now;
    }
    assert!(n_killed > 0, "every run was faster than the signal");
}
