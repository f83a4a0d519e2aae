//! `minfer serve`: the process, from its first line to its end.

use std::io::{BufRead, BufReader, Read, Write};
use std::net::TcpStream;
use std::process::{ChildStderr, Command, Stdio};

use serde_json::{Value, json};

use crate::support::*;

/// A server that runs.
struct Served {
    child: Running,
    addr: String,
    log: BufReader<ChildStderr>,
}

impl Served {
    fn start(more: &[&str]) -> Self {
        let args = ["serve", TINY, "--port", "0"];
        let mut command = Command::new(binary());
        command.args(args.iter().chain(more)).stdout(Stdio::null()).stderr(Stdio::piped());
        let mut child = Running::start(&mut command);
        let mut log = BufReader::new(child.stderr.take().unwrap());
        let addr = loop {
            let mut line = String::new();
            assert!(log.read_line(&mut line).unwrap() > 0, "it ended without listening");
            if let Some((_, addr)) = line.trim().split_once("listening on http://") {
                break addr.to_owned();
            }
        };
        Self { child, addr, log }
    }

    /// The body of the answer.
    fn post(&self, path: &str, body: &Value) -> Value {
        let body = body.to_string();
        let mut stream = TcpStream::connect(&self.addr).unwrap();
        let head = format!(
            "POST {path} HTTP/1.1\r\nhost: localhost\r\nconnection: close\r\ncontent-length: {}\r\n\r\n",
            body.len()
        );
        stream.write_all((head + &body).as_bytes()).unwrap();
        let mut text = String::new();
        stream.read_to_string(&mut text).unwrap();
        serde_json::from_str(text.split_once("\r\n\r\n").unwrap().1).unwrap()
    }

    /// Asks it to end; gives its exit code and the rest of the log.
    fn terminate(mut self) -> (Option<i32>, String) {
        self.child.signal("TERM");
        let mut rest = String::new();
        self.log.read_to_string(&mut rest).unwrap();
        (self.child.wait().unwrap().code(), rest)
    }
}

/// Begins an answer that no buffer holds whole, and reads some of it: it has not ended, however fast it is made, unless all
/// that follows is read.
fn begin_endless(served: &Served) -> TcpStream {
    let body = json!({ "prompt": "a secret", "stream": true, "max_tokens": N_ENDLESS, "ignore_eos": true });
    let body = body.to_string();
    let mut stream = TcpStream::connect(&served.addr).unwrap();
    let head =
        format!("POST /v1/completions HTTP/1.1\r\nhost: localhost\r\ncontent-length: {}\r\n\r\n", body.len());
    stream.write_all((head + &body).as_bytes()).unwrap();
    stream.read_exact(&mut [0; 300]).unwrap();
    stream
}

/// Tokens of an endless answer: its events have more than 50 MB.
const N_ENDLESS: usize = 390_000;

/// A context with room for it.
const ROOMY: [&str; 4] = ["-c", "400000", "-np", "1"];

#[test]
fn a_draft_model_changes_no_answer() {
    let answer = |more: &[&str]| {
        let server = Served::start(more);
        let text =
            server.post("/v1/chat/completions", &chat("Hello"))["choices"][0]["message"]["content"].clone();
        assert_eq!(server.terminate().0, Some(0));
        text
    };
    let plain = answer(&[]);
    assert!(plain.is_string());
    assert_eq!(answer(&["-md", TINY, "--draft-max", "6"]), plain);
    assert_eq!(answer(&["--prompt-lookup", "4"]), plain);
}

fn chat(text: &str) -> Value {
    json!({ "messages": [{ "role": "user", "content": text }], "max_tokens": 12, "temperature": 0 })
}

#[test]
fn it_says_what_run_says_and_ends_when_asked() {
    let served = Served::start(&[]);
    let body = served.post("/v1/chat/completions", &chat("a secret"));
    let run = minfer(["run", TINY, "a secret", "-n", "12", "--temp", "0", "--no-timings"]).assert().success();
    let said = stdout(&run);
    assert_eq!(body["choices"][0]["message"]["content"], said.strip_suffix('\n').unwrap_or(&said));
    assert_eq!(body["model"], "tiny");
    let raw = served.post("/v1/completions", &json!({ "prompt": "abc", "max_tokens": 9, "seed": 3 }));
    let run = minfer(["generate", TINY, "-p", "abc", "-n", "9", "-s", "3", "--json"]).assert().success();
    assert_eq!(raw["choices"][0]["text"], json(&run)["text"]);
    let (code, log) = served.terminate();
    assert_eq!(code, Some(0), "{log}");
    assert!(log.contains("/v1/chat/completions") && !log.contains("a secret"), "{log}");
}

#[test]
fn prompts_are_in_the_log_if_that_is_asked_for() {
    let served = Served::start(&["--log-prompts", "--log-format", "json", "--alias", "one,two"]);
    assert_eq!(served.post("/v1/chat/completions", &chat("a secret"))["model"], "one");
    let (_, log) = served.terminate();
    let lines: Vec<Value> = log.lines().filter_map(|line| serde_json::from_str(line).ok()).collect();
    assert!(
        lines.iter().any(|line| line["prompt"].as_str().is_some_and(|it| it.contains("a secret"))),
        "{log}"
    );
    assert!(
        lines.iter().any(|line| line["path"] == "/v1/chat/completions" && line["status"] == 200),
        "{log}"
    );
}

#[test]
fn the_log_has_the_counts_of_a_request_and_none_of_its_words() {
    let served = Served::start(&[&["--log-format", "json"], &ROOMY[..]].concat());
    served.post("/v1/chat/completions", &chat("a secret"));
    let called = json!({ "input": ["a secret", "another"] });
    served.post("/v1/embeddings", &called);
    // One that leaves in the middle.
    drop(begin_endless(&served));
    let (_, log) = served.terminate();
    assert!(!log.contains("secret"), "{log}");
    let lines: Vec<Value> = log.lines().filter_map(|line| serde_json::from_str(line).ok()).collect();
    let line = |path: &str| {
        let found = lines.iter().find(|line| line["path"] == path);
        found.unwrap_or_else(|| panic!("no line of {path}: {log}"))
    };
    let whole = line("/v1/chat/completions");
    assert_eq!((&whole["completion_tokens"], &whole["finish"]), (&json!(12), &json!("length")), "{whole}");
    assert!(whole["prompt_tokens"].as_u64().unwrap() > 8 && whole["cached_tokens"] == 0, "{whole}");
    let (first, all) = (whole["first_token_ms"].as_f64().unwrap(), whole["ms"].as_f64().unwrap());
    assert!(0.0 < first && first <= all, "{whole}");
    let embedded = line("/v1/embeddings");
    assert!(embedded["prompt_tokens"].as_u64().unwrap() > 8, "{embedded}");
    assert_eq!((&embedded["completion_tokens"], &embedded["status"]), (&Value::Null, &json!(200)));
    let left = line("/v1/completions");
    assert_eq!((&left["status"], &left["finish"]), (&json!(200), &json!("client_left")), "{left}");
    assert!((1..N_ENDLESS as u64).contains(&left["completion_tokens"].as_u64().unwrap()), "{left}");
}

#[test]
fn an_answer_without_a_body_is_not_one_that_a_client_left() {
    let served = Served::start(&["--log-format", "json", "--cors-origins", "http://a.example"]);
    let ask = |head: &str| {
        let mut stream = TcpStream::connect(&served.addr).unwrap();
        let rest = "host: localhost\r\norigin: http://a.example\r\nconnection: close\r\n\r\n";
        stream.write_all(format!("{head}\r\n{rest}").as_bytes()).unwrap();
        let mut text = String::new();
        stream.read_to_string(&mut text).unwrap();
        assert!(text.starts_with("HTTP/1.1 200 "), "{text}");
    };
    ask("OPTIONS /v1/chat/completions HTTP/1.1\r\naccess-control-request-method: POST");
    ask("HEAD /health HTTP/1.1");
    let (_, log) = served.terminate();
    let lines = log.lines().filter_map(|line| serde_json::from_str::<Value>(line).ok());
    let lines: Vec<Value> =
        lines.filter(|line| line["method"] == "OPTIONS" || line["method"] == "HEAD").collect();
    assert_eq!(lines.len(), 2, "{log}");
    assert!(lines.iter().all(|line| line["finish"].is_null()), "{lines:?}");
}

#[test]
fn an_answer_that_the_end_of_the_server_cuts_off_is_logged_as_that() {
    let served = Served::start(&[&["--log-format", "json", "--drain", "1"], &ROOMY[..]].concat());
    let mut stream = begin_endless(&served);
    // It is read all the time, and so slowly that much is left when the drain is over.
    let reader = std::thread::spawn(move || {
        while stream.read(&mut [0; 1 << 14]).is_ok_and(|n| n > 0) {
            std::thread::sleep(std::time::Duration::from_millis(5));
        }
    });
    let (_, log) = served.terminate();
    reader.join().unwrap();
    let mut lines = log.lines().filter_map(|line| serde_json::from_str::<Value>(line).ok());
    let line = lines.find(|line| line["path"] == "/v1/completions");
    assert_eq!(line.unwrap_or_else(|| panic!("no line: {log}"))["finish"], "stopping", "{log}");
}

#[test]
fn a_model_that_cannot_be_loaded_ends_the_server_with_the_plain_error() {
    let refused = minfer(["serve", "/nonexistent/model.gguf", "--port", "0"]).assert().code(3);
    let said = stderr(&refused);
    assert!(said.contains("loading; http://127.0.0.1:") && said.contains("error: "), "{said}");
    assert!(!said.contains("listening on"), "{said}");
}

#[test]
fn the_description_is_the_committed_one() {
    let committed = concat!(env!("CARGO_MANIFEST_DIR"), "/../../docs/openapi.json");
    let printed = minfer(["serve", "--print-openapi"]).assert().success();
    assert_eq!(stdout(&printed), std::fs::read_to_string(committed).unwrap());
}

#[test]
fn what_cannot_be_served_is_said() {
    let taken = std::net::TcpListener::bind("127.0.0.1:0").unwrap();
    let port = taken.local_addr().unwrap().port().to_string();
    let refused = minfer(["serve", TINY, "--port", &port]).assert().code(5);
    assert!(stderr(&refused).contains("cannot listen on 127.0.0.1"), "{}", stderr(&refused));
    let folder = tempfile::tempdir().unwrap();
    let keys = folder.path().join("keys");
    std::fs::write(&keys, "\n").unwrap();
    let refused = minfer(["serve", TINY, "--api-key-file", keys.to_str().unwrap()]).assert().code(2);
    assert!(stderr(&refused).contains("has no API key"), "{}", stderr(&refused));
    minfer(["serve", TINY, "--ssl-cert-file", "x"]).assert().code(2);
}
